"""XA transactions that are prepared while rows are read: rows in the log before it, commits behind it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from pymysql.constants import ER

from penstock.adapters.mysql.catalog import read_flavour
from penstock.adapters.mysql.connection import ask, error_code, server_of
from penstock.adapters.mysql.history import head
from penstock.core.errors import UnavailableError, UnfitServerError
from penstock.core.positions import BinlogPosition, PreparedXa, binlog_position

if TYPE_CHECKING:
    from collections.abc import Collection

    import pymysql

    from penstock.core.positions import Position

_WAIT_SECONDS = 10.0
_PAUSE_SECONDS = 0.1
# A transaction is in the log shortly before the server lists it as prepared.
_SETTLE_SECONDS = 0.2
_RECOVER = {"mariadb": "XA RECOVER FORMAT='SQL'", "mysql": "XA RECOVER CONVERT XID"}


def place_without_prepared(connection: pymysql.Connection) -> BinlogPosition:
    """Return a recent place of the log before which nothing was prepared that still is.

    Waits for what is prepared when we come, and raises UnfitServerError when it
    stays so for 10 seconds. Where MySQL does not answer this login (it takes the privilege
    XA_RECOVER_ADMIN), nothing is waited for; an XA COMMIT that misses its rows
    then stops the capture.
    """
    place = head(connection)
    time.sleep(_SETTLE_SECONDS)
    deadline = time.monotonic() + _WAIT_SECONDS
    left = before = _prepared(connection)
    while left:
        if time.monotonic() > deadline:
            listed = ", ".join(sorted(left)[:10])
            message = f"{server_of(connection)} has XA transactions that stay prepared: {listed}"
            raise UnfitServerError(message, "XA COMMIT or XA ROLLBACK them (XA RECOVER lists them), and start again")
        time.sleep(_PAUSE_SECONDS)
        left = before & _prepared(connection)
    return place


def has_xa(connection: pymysql.Connection, place: BinlogPosition, position: BinlogPosition) -> bool:
    """Whether the log says anything of XA transactions from `place`, which is recent, to `position`."""
    first, last = place.file, position.file
    if first == last:
        return _says_xa(connection, first, place.offset, position.offset)
    return _says_xa(connection, first, place.offset, None) or _says_xa(connection, last, None, position.offset)


def _says_xa(connection: pymysql.Connection, file: str, start: int | None, end: int | None) -> bool:
    behind = "" if start is None else f" FROM {start}"
    events = ask(connection, f"SHOW BINLOG EVENTS IN '{file}'{behind}")
    return any(str(info).startswith("XA ") for _, offset, _, _, _, info in events if end is None or int(offset) < end)


def with_prepared(position: BinlogPosition, place: BinlogPosition) -> BinlogPosition:
    """`position`, told that what is prepared there began at `place` or later."""
    if (place.file, place.offset) == (position.file, position.offset):
        return position
    return replace(position, prepared=(PreparedXa("", place.file, place.offset),))


def prepared_without_rows(position: Position) -> frozenset[str]:
    """What is prepared at `position` without rows of tables that were wanted when it was read.

    They may have rows of tables that are wanted since. Nobody reads the log again for them:
    it may be purged by now, and most of them are of tables that are none of ours.
    """
    return frozenset(xa.xid for xa in binlog_position(position).prepared if xa.xid and not xa.file)


def unseen_rows(low: Position, unread: Collection[str]) -> UnavailableError | None:
    """Return what a reader has to wait for to whom rows of `unread`, if they are prepared at `low`, are not visible."""
    left = sorted(prepared_without_rows(low).intersection(unread))
    if not left:
        return None
    message = f"XA transactions from before the start of the capture are prepared: {', '.join(left[:10])}"
    return UnavailableError(message, "it goes on behind their XA COMMIT or XA ROLLBACK (XA RECOVER lists them)")


def _prepared(connection: pymysql.Connection) -> set[str]:
    try:
        rows = ask(connection, _RECOVER[read_flavour(connection)])
    except UnfitServerError as error:
        if error_code(error) == ER.XAER_RMERR:
            return set()
        raise
    return {str(row[-1]) for row in rows}
