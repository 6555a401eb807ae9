"""Beginning a transaction that sees what was committed at a place of the log or later."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.adapters.mysql.catalog import quote_table, read_flavour
from penstock.adapters.mysql.connection import ask, server_of
from penstock.adapters.mysql.write_locks import is_denied, writes_locked
from penstock.core.errors import UnavailableError, UnfitServerError
from penstock.core.positions import BinlogPosition, file_number

if TYPE_CHECKING:
    import pymysql

    from penstock.core.positions import Position
    from penstock.core.tables import TableId

_BEHIND_SECONDS = 10.0
_PAUSE_SECONDS = 0.02
# An XA COMMIT is in the log shortly before its rows are there for others.
_XA_SECONDS = 0.2


def begin_reading(connection: pymysql.Connection, low: Position, table: TableId) -> bool:
    """Begin to see what was committed at `low` or later, and keep others from altering `table` until it ends.

    Return whether writers were held up.
    """
    delays_writers = _START[read_flavour(connection)](connection, low, table)
    _hold(connection, table)
    return delays_writers


def _start_on_mariadb(connection: pymysql.Connection, low: Position, _: TableId) -> bool:
    """Begin a snapshot; the server says at which place of the log it is. Nobody is held up.

    What is in the log comes to be seen by others a moment later, or much later
    with semi-synchronous replication: a snapshot from before `low` is taken again.
    """
    if int(ask(connection, "SHOW GLOBAL STATUS LIKE 'Com_xa_commit'")[0][1]):
        time.sleep(_XA_SECONDS)
    deadline = time.monotonic() + _BEHIND_SECONDS
    while True:
        ask(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        status = {name.lower(): value for name, value in ask(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'")}
        file, offset = status.get("binlog_snapshot_file", ""), int(status.get("binlog_snapshot_position") or 0)
        if file and (file_number(file), offset) >= low.order[:2]:
            return False
        ask(connection, "ROLLBACK")
        _wait_behind(deadline, low)


def _start_on_mysql(connection: pymysql.Connection, low: Position, table: TableId) -> bool:
    """Begin a snapshot; return whether writers were held up: without GTIDs, only whoever does knows what is committed.

    The server's set of executed GTIDs grows once others see what is in them.
    """
    gtids = str(low.gtids) if isinstance(low, BinlogPosition) else ""
    if not gtids or str(ask(connection, "SELECT @@GLOBAL.gtid_mode")[0][0]) != "ON":
        with writes_locked(connection, [table]):
            ask(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        return True
    deadline = time.monotonic() + _BEHIND_SECONDS
    while not ask(connection, f"SELECT GTID_SUBSET({connection.escape(gtids)}, @@GLOBAL.gtid_executed)")[0][0]:
        _wait_behind(deadline, low)
    ask(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    return False


def _hold(connection: pymysql.Connection, table: TableId) -> None:
    """Take the lock that keeps others from altering the table until the transaction ends."""
    try:
        ask(connection, f"SELECT 1 FROM {quote_table(table)} LIMIT 0")  # noqa: S608 - the name is quoted
    except UnfitServerError as error:
        if not is_denied(error):
            raise
        server = server_of(connection)
        message = f"{server}: no privilege to read rows of {table}"
        raise UnfitServerError(message, f"GRANT SELECT ON {quote_table(table)} TO {server.user}") from error


_START = {"mariadb": _start_on_mariadb, "mysql": _start_on_mysql}


def _wait_behind(deadline: float, low: Position) -> None:
    if time.monotonic() > deadline:
        message = f"what is in the log before {low} is not to be seen by others yet"
        raise UnavailableError(message, "the server may wait for a semi-synchronous replica: see that one answers")
    time.sleep(_PAUSE_SECONDS)
