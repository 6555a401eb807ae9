"""The log, sent by a walsender: pgoutput over the streaming replication protocol.

Source: PostgreSQL 18 documentation, "Streaming Replication Protocol".
"""

from __future__ import annotations

import re
import select
import struct
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import sql

from penstock.adapters.postgres.source.connection import (
    NO_TEXT,
    connect_to_log,
    explain,
    explained,
    raised,
    run_command,
)
from penstock.adapters.postgres.source.timeline import require_same_log
from penstock.core.errors import NEW_SLOT, CorruptLogError, LogPurgedError, UnavailableError, UnfitServerError
from penstock.core.positions import wal_position
from penstock.core.postgres.messages import EPOCH_US
from penstock.core.postgres.scan import PgoutputScanner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.adapters.postgres.connection import PostgresServer
    from penstock.core.positions import Position, WalPosition
    from penstock.core.postgres.log_items import PostgresItem

_START_SECONDS: Final = 60.0
_READ_BYTES_MAX: Final = 8 << 20
_REPORT_SECONDS: Final = 5.0
"""How often we say how far we are, and ask how far the server is."""
_IDLE_REPORT_SECONDS: Final = 0.5
"""The same while nothing comes: whoever waits for a place in a log without rows for us waits for the answer."""
_WRITE_SECONDS: Final = 30.0
_CHANGE_KIND: Final = ord("w")
_CHANGE: Final = struct.Struct(">cQQq")
_ALIVE: Final = struct.Struct(">cQqB")
_REPORT: Final = struct.Struct(">cQQQqB")
_NO_PUBLICATION: Final = re.compile('publication ".*" does not exist')
_LOST_PUBLICATION: Final = (
    "it was dropped, and rows that changed before it was made again cannot be read any more, nor what follows them; "
    f"{NEW_SLOT}"
)
_NO_TEXT_HINT: Final = (
    "a row has a text with a byte that is no character in the server's encoding, and the log cannot be read past it: "
    f"correct such rows (UPDATE), or take their table out of the publication (ALTER PUBLICATION); then {NEW_SLOT}"
)
_GONE: Final = ("has been invalidated", "can no longer get changes", "has already been removed", "does not exist")


class WalStream:
    """One connection that follows the log from a position, and tells the server what need not be kept any more."""

    def __init__(self, server: PostgresServer, connection: psycopg.Connection, start: WalPosition) -> None:
        """Read from `connection`, which sends the log from `start` on."""
        self._server = server
        self._connection = connection
        self._pgconn = connection.pgconn
        self._scanner = PgoutputScanner(start)
        self._confirmed = 0
        self._report_at = time.monotonic()

    def read(self, wait_seconds: float) -> Sequence[PostgresItem]:
        """Return what has arrived, waiting up to `wait_seconds` for the first item; see `penstock.ports.log`."""
        items: list[PostgresItem] = []
        with explained(self._server):
            self._report_if_due(_REPORT_SECONDS)
            if not self._take(items) and wait_seconds:
                self._report_if_due(_IDLE_REPORT_SECONDS)
                select.select([self._pgconn.socket], [], [], wait_seconds)
                self._pgconn.consume_input()
                self._take(items)
            else:
                self._pgconn.consume_input()
        return items

    def confirm(self, position: Position) -> None:
        """Tell the server with the next report; see `penstock.ports.log`."""
        self._confirmed = max(self._confirmed, wal_position(position).lsn)

    def at_end(self) -> bool:
        """See `penstock.ports.log`: it has no stop."""
        return False

    def close(self) -> None:
        """Report once more, and drop the connection. Safe to call twice."""
        with suppress(psycopg.Error, UnavailableError):
            if not self._connection.closed:
                self._report(asks=False)
        self._connection.close()

    def _take(self, items: list[PostgresItem]) -> int:
        """Decode what is here, about 8 MiB at most; return how many bytes that was."""
        taken, changes = 0, list[bytes]()
        while taken < _READ_BYTES_MAX:
            size, data = self._pgconn.get_copy_data(1)
            if size == 0:
                break
            if size < 0:
                raise self._ended()
            taken += size
            if data[0] == _CHANGE_KIND:
                changes.append(bytes(data[_CHANGE.size :]))
                continue
            items.extend(self._scanner.take_all(changes))
            changes.clear()
            self._notice(bytes(data), items)
        items.extend(self._scanner.take_all(changes))
        return taken

    def _notice(self, data: bytes, items: list[PostgresItem]) -> None:
        """Take a message that is no change."""
        match data[:1]:
            case b"k":
                _, lsn, _, wants_answer = _ALIVE.unpack(data)
                advanced = self._scanner.at_rest(lsn)
                if advanced is not None:
                    items.append(advanced)
                if wants_answer:
                    self._report(asks=False)
            case kind:
                message = f"{self._server} sent a message of kind {kind!r}"
                raise CorruptLogError(message, "report it, with the server's version; nothing was skipped")

    def _report_if_due(self, seconds: float) -> None:
        if time.monotonic() - self._report_at >= seconds:
            # The answer says how far the log is where nothing in it is for us.
            self._report(asks=True)

    def _report(self, *, asks: bool) -> None:
        now_us = time.time_ns() // 1000 - EPOCH_US
        lsn = self._confirmed
        self._pgconn.put_copy_data(_REPORT.pack(b"r", lsn, lsn, lsn, now_us, asks))
        deadline = time.monotonic() + _WRITE_SECONDS
        while self._pgconn.flush():
            left = deadline - time.monotonic()
            if left <= 0 or not any(select.select([self._pgconn.socket], [self._pgconn.socket], [], left)):
                message = f"{self._server} takes no answer"
                raise UnavailableError(message, "check that the server runs and can be reached")
            self._pgconn.consume_input()
        self._report_at = time.monotonic()

    def _ended(self) -> Exception:
        """Say why the server ended the log."""
        result = self._pgconn.get_result()
        cause = result.error_message.decode(errors="replace").strip() if result is not None else ""
        if _NO_PUBLICATION.search(cause):
            message = f"{self._server} cannot send the log: {cause}"
            return UnfitServerError(message, _LOST_PUBLICATION)
        if result is not None and isinstance(raised(result), NO_TEXT):
            message = f"{self._server} cannot send its log as UTF-8: {cause}"
            return UnfitServerError(message, _NO_TEXT_HINT)
        return UnavailableError(f"{self._server} ended the log: {cause or 'without a word'}", "it is asked again")


def open_stream(server: PostgresServer, slot: str, publications: Sequence[str], position: WalPosition) -> WalStream:
    """Ask for the log from `position` on. Raises LogPurgedError where the slot is gone or no longer has it.

    PositionError where the server has another log in its place.
    """
    connection = connect_to_log(server)
    try:
        start = require_same_log(server, connection, position)
        names = ",".join(f'"{name}"' for name in publications)
        command = sql.SQL("START_REPLICATION SLOT {} LOGICAL {} (proto_version '1', publication_names {})").format(
            sql.Identifier(slot), sql.SQL(f"{position}"), sql.Literal(names)
        )
        run_command(connection, command.as_string(connection), _START_SECONDS)
    except psycopg.Error as error:
        connection.close()
        if any(sign in str(error) for sign in _GONE):
            message = f"{server} does not have the WAL from {position} on any more: {str(error).strip()}"
            hint = f"the slot {slot} was dropped, or lost WAL (max_slot_wal_keep_size); {NEW_SLOT}"
            raise LogPurgedError(message, hint) from error
        raise explain(server, error) from error
    except BaseException:
        connection.close()
        raise
    return WalStream(server, connection, start)
