"""The log, sent by a walsender: pgoutput over the streaming replication protocol.

Source: PostgreSQL 18 documentation, "Streaming Replication Protocol".
"""

from __future__ import annotations

import re
import select
import struct
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import pq, sql

from penstock.adapters.postgres.source.connection import connect_to_log, explain, explained, run_command
from penstock.adapters.postgres.source.timeline import require_same_log
from penstock.core.errors import NEW_SLOT, CorruptLogError, LogPurgedError, UnavailableError, UnfitServerError
from penstock.core.positions import wal_position
from penstock.core.postgres.messages import EPOCH_US
from penstock.core.postgres.network_reader import MalformedError
from penstock.core.postgres.runs import NOTHING_SKIPPED
from penstock.core.postgres.scan import PgoutputScanner
from penstock.core.postgres.streamed import StreamedTransactions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

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
_STREAMING_SINCE: Final = 140000
_CHANGE_KIND: Final = ord("w")
_RELATION_KIND: Final = ord("R")
_CHANGE: Final = struct.Struct(">cQQq")
_ALIVE: Final = struct.Struct(">cQqB")
_REPORT: Final = struct.Struct(">cQQQqB")
_NO_PUBLICATION: Final = re.compile('publication ".*" does not exist')
_LOST_PUBLICATION: Final = (
    "it was dropped, and rows that changed before it was made again cannot be read any more, nor what follows them; "
    f"{NEW_SLOT}"
)
_GONE: Final = ("has been invalidated", "can no longer get changes", "has already been removed", "does not exist")


@dataclass(frozen=True, slots=True)
class WalLog:
    """What a slot has of publications, over a connection that is lent."""

    server: PostgresServer
    connection: psycopg.Connection
    slot: str
    publications: Sequence[str]

    def start(self, position: WalPosition, *, streaming: bool) -> None:
        """Ask for it from `position` on, with `streaming` for transactions that run, too. Raises psycopg.Error."""
        names = ",".join(f'"{name}"' for name in self.publications)
        command = sql.SQL("START_REPLICATION SLOT {} LOGICAL {} ({}, publication_names {})").format(
            sql.Identifier(self.slot),
            sql.SQL(f"{position}"),
            sql.SQL("proto_version '2', streaming 'on'" if streaming else "proto_version '1'"),
            sql.Literal(names),
        )
        run_command(self.connection, command.as_string(self.connection), _START_SECONDS)


class WalStream:
    """One connection that follows the log from a position, and tells the server what need not be kept any more."""

    def __init__(self, log: WalLog, start: WalPosition, folder: Path | None, *, streaming: bool) -> None:
        """Read the log from `start` on; with `streaming` large transactions wait in `folder` for their COMMIT.

        Without one they wait in the system's folder of temporary files. Raises psycopg.Error.
        """
        log.start(start, streaming=streaming)
        self._log = log
        self._server = log.server
        self._folder = folder
        self._streamed = StreamedTransactions(lambda: TemporaryFile(dir=folder))  # noqa: SIM115 - closed with the stream
        self._committed: Iterator[Sequence[bytes]] | None = None
        self._streaming = streaming
        self._connection = log.connection
        self._pgconn = log.connection.pgconn
        self._scanner = PgoutputScanner(start)
        self._confirmed = 0
        self._report_at = time.monotonic()

    def read(self, wait_seconds: float) -> Sequence[PostgresItem]:
        """Return what has arrived, waiting up to `wait_seconds` for the first item; see `penstock.ports.log`."""
        items: list[PostgresItem] = []
        until = time.monotonic() + wait_seconds
        with explained(self._server):
            self._report_if_due(_REPORT_SECONDS)
            taken = self._take(items)
            # Of a transaction that is not committed there is much to take, and nothing to return.
            while not items and (left := until - time.monotonic()) > 0:
                if not taken:
                    self._report_if_due(_IDLE_REPORT_SECONDS)
                    select.select([self._pgconn.socket], [], [], left)
                self._pgconn.consume_input()
                taken = self._take(items)
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
        self._committed = None
        self._streamed.close()

    def _take(self, items: list[PostgresItem]) -> int:
        """Decode what is here, about 8 MiB at most; return how many bytes that was."""
        taken, changes = 0, list[bytes]()
        while taken < _READ_BYTES_MAX:
            if self._committed is not None:
                items.extend(self._scanner.take_all(changes))
                changes.clear()
                messages = next(self._committed, None)
                if messages is None:
                    self._committed = None
                else:
                    changes.extend(messages)
                    taken += sum(map(len, messages))
                continue
            size, data = self._pgconn.get_copy_data(1)
            if size == 0:
                break
            if size < 0:
                items.extend(self._scanner.take_all(changes))
                changes.clear()
                self._go_on_without_streaming()
                break
            taken += size
            if data[0] == _CHANGE_KIND:
                self._take_change(bytes(data[_CHANGE.size :]), changes)
                continue
            items.extend(self._scanner.take_all(changes))
            changes.clear()
            self._notice(bytes(data), items)
        items.extend(self._scanner.take_all(changes))
        return taken

    def _take_change(self, message: bytes, changes: list[bytes]) -> None:
        """Take a message of pgoutput: into `changes`, unless it is of a transaction that comes while it runs."""
        if not self._streamed.concern(message):
            changes.append(message)
            if message[0] == _RELATION_KIND:
                self._streamed.described(message)
            return
        try:
            self._committed = self._streamed.take(message)
        except MalformedError as error:
            what = f"the log of {self._server} does not decode: {error}"
            raise CorruptLogError(what, NOTHING_SKIPPED) from error
        except OSError as error:
            what = f"a transaction that is not committed cannot be kept on this machine: {error.strerror}"
            where = self._folder or "the system's folder of temporary files"
            hint = f"free room in {where}; or write `streaming: false`, and the server keeps it until COMMIT"
            raise UnavailableError(what, hint) from error

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

    def _go_on_without_streaming(self) -> None:
        """Ask for the rest, with transactions that come whole, where the server failed to stream; else raise why.

        To decode a transaction that runs is harder: a table that a rolled-back subtransaction altered, and then the
        transaction itself, cannot be told then ("could not map filenode", PostgreSQL 15).
        """
        result = self._pgconn.get_result()
        cause = result.error_message.decode(errors="replace").strip() if result is not None else ""
        is_over = not cause or self._pgconn.status != pq.ConnStatus.OK
        if is_over or not self._streaming or _NO_PUBLICATION.search(cause):
            raise self._ended(cause)
        while self._pgconn.get_result() is not None:
            pass
        self._streaming = False
        self._streamed.close()
        self._scanner = self._scanner.anew()
        self._log.start(self._scanner.start, streaming=False)

    def _ended(self, cause: str) -> Exception:
        """Say why the server ended the log."""
        if _NO_PUBLICATION.search(cause):
            message = f"{self._server} cannot send the log: {cause}"
            return UnfitServerError(message, _LOST_PUBLICATION)
        return UnavailableError(f"{self._server} ended the log: {cause or 'without a word'}", "it is asked again")


def open_stream(
    server: PostgresServer,
    slot: str,
    publications: Sequence[str],
    position: WalPosition,
    *,
    folder: Path | None = None,
    streaming: bool = True,
) -> WalStream:
    """Ask for the log from `position` on. Raises LogPurgedError where the slot is gone or no longer has it.

    PositionError where the server has another log in its place. With `streaming` large transactions come while they
    run, from PostgreSQL 14 on, and are kept in `folder`: see WalStream.
    """
    connection = connect_to_log(server)
    try:
        start = replace(position, server_timeline=require_same_log(server, connection, position))
        streams = streaming and connection.info.server_version >= _STREAMING_SINCE
        return WalStream(WalLog(server, connection, slot, publications), start, folder, streaming=streams)
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
