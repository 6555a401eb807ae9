"""What a server says of its binlog: where it begins and ends, and whether nothing is missing."""

from __future__ import annotations

import re
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from penstock.adapters.mysql.binlog_stream import open_binlog
from penstock.adapters.mysql.catalog import read_flavour, read_greeting, read_table_ids
from penstock.adapters.mysql.connection import ask, server_of
from penstock.core.errors import LogError, LogPurgedError, UnfitServerError
from penstock.core.mysql.log.log_items import LogAdvanced, StatementLogged, TransactionBegan
from penstock.core.mysql.statements.origin import what_life_lacks
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.positions import BinlogPosition, file_number
from penstock.ports.log import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pymysql

    from penstock.core.mysql.statements.describe import Flavour
    from penstock.core.tables import TableId

LOG_BYTES_MAX = 1 << 30

_FIRST_OFFSET = 4
_FIRST_FILE = 1
_ATTEMPTS = 5
_MYSQL_RENAMED_STATUS = (8, 2)
_WAIT_SECONDS = 5.0
_SENT_SECONDS = 2.0
_PAUSE_SECONDS = 0.05
# Replicas and pipelines are numbered by people, from below; connections count up from here.
_PASSING_SERVER_ID = 0xC000_0000


def head(connection: pymysql.Connection) -> BinlogPosition:
    """Return the end of the log now, with the GTIDs of all that is before it.

    On a MySQL server that is written to all the while, those of the last
    transactions may be lacking. Raises UnfitServerError when there is no log or we may not ask, and
    UnavailableError.
    """
    if read_flavour(connection) == "mysql":
        return _head_of_mysql(connection)
    # The server answers the two questions apart. What is before and after the same lies at the position between.
    for _ in range(_ATTEMPTS):
        before = _gtid_binlog_pos(connection)
        file, offset = _mariadb_status(connection)
        if before == _gtid_binlog_pos(connection):
            return BinlogPosition(file, offset, gtids=before)
    return BinlogPosition(file, offset, gtids=gtids_at(connection, file, offset))


def end_of_log(connection: pymysql.Connection) -> BinlogPosition:
    """Return the end of the log now as file and offset alone; raises as `head` does."""
    file, offset, *_ = _log_status(connection, read_flavour(connection))
    return BinlogPosition(str(file), int(offset))


def binlogs(connection: pymysql.Connection) -> Sequence[tuple[str, int]]:
    """Every binlog the server has, oldest first, with its size in bytes.

    Raises UnfitServerError when there is no log or we may not ask, and
    UnavailableError.
    """
    return [(str(row[0]), int(row[1])) for row in ask(connection, "SHOW BINARY LOGS")]


def start_of_log(connection: pymysql.Connection) -> BinlogPosition:
    """Return the oldest position that the server still has.

    Raises as `binlogs` does, and LogPurgedError for a log without files.
    """
    files = binlogs(connection)
    if not files:
        message = f"{server_of(connection)} has no binlog file"
        raise LogPurgedError(message, "start the server with log_bin")
    first = files[0][0]
    return BinlogPosition(first, _FIRST_OFFSET, gtids=_gtids_before(connection, first))


def passing_server_id(connection: pymysql.Connection) -> int:
    """Return a replica's id for a stream that soon ends.

    Of two streams with one id the server ends the older: a connection's number is nobody else's.
    """
    return _PASSING_SERVER_ID + int(ask(connection, "SELECT CONNECTION_ID()")[0][0]) % (1 << 28)


def log_filters(connection: pymysql.Connection) -> tuple[Sequence[str], Sequence[str]]:
    """Return the databases that alone are logged, if there are such, and those that are not."""
    status = _log_status(connection, read_flavour(connection))
    only, left_out = (str(names).split(",") if names else [] for names in status[2:4])
    return only, left_out


def gtids_at(connection: pymysql.Connection, file: str, offset: int) -> str:
    """Return the GTIDs before a place of a MariaDB log; the server reads the file up to there."""
    gtids = ask(connection, f"SELECT BINLOG_GTID_POS({connection.escape(file)}, {int(offset)})")[0][0]
    return gtids or ""


def what_log_lacks(
    connection: pymysql.Connection, wanted: Callable[[TableId], bool], log_bytes_max: int = LOG_BYTES_MAX
) -> str:
    """Say why replaying the log from its start may not give every wanted table as it is now, "" if it does.

    Whenever that is not sure there is a reason, because a copy of the tables is always
    right. It is "" only if all of this holds:

    - The first file is number 1 and no transaction was logged before it (its
      GTID list is empty): nothing was purged, and the log was not carried on
      from another server.
    - That alone does not say that the tables began in the log: it may have been
      switched on, or reset, on a server full of tables, or the server may have
      been restored from a backup, which has no log. CREATE_TIME cannot tell,
      because an ALTER TABLE renews it. So the statements of the log are read, and
      must create every wanted table; see `what_life_lacks`.
    - The log has at most `log_bytes_max` bytes, so that reading it takes seconds.

    What was written with sql_log_bin=0 is in no log, and not seen here.
    """
    files = binlogs(connection)
    if not files or file_number(files[0][0]) != _FIRST_FILE:
        return "the first file of the log is gone"
    if sum(size for _, size in files) > log_bytes_max:
        return f"the log has more than {log_bytes_max:,} bytes"
    start = start_of_log(connection)
    if start.gtids:
        return "transactions were logged before the log begins"
    tables = [table for table in read_table_ids(connection) if wanted(table)]
    try:
        log = (each for each in read_statements(connection, start) if isinstance(each, StatementLogged))
        statements = ((each.sql, each.default_schema) for each in log)
        return what_life_lacks(statements, tables, wanted)
    except LogError as error:
        # Among others an XA COMMIT of what was prepared before the log began.
        return error.message


def read_statements(connection: pymysql.Connection, start: BinlogPosition) -> Iterator[StatementLogged | LogAdvanced]:
    """Every statement from `start` to the end of the log, over a connection of its own, and places without one.

    The last is the end. Raises as a BinlogStream does.
    """
    deadline, has_come = time.monotonic() + _SENT_SECONDS, False
    while True:
        try:
            for each in _read_statements(connection, start):
                has_come = True
                yield each
        except LogPurgedError:
            raise
        except LogError:
            # MySQL shows a group of transactions as its log's end before it sends them.
            if has_come or time.monotonic() > deadline or head(connection).order < start.order:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def _read_statements(connection: pymysql.Connection, start: BinlogPosition) -> Iterator[StatementLogged | LogAdvanced]:
    server_id = passing_server_id(connection)
    stream = open_binlog(server_of(connection), start, server_id, lambda _: False, Stop.END_OF_LOG)
    with closing(stream):
        while not stream.at_end():
            for item in stream.read(_WAIT_SECONDS):
                if isinstance(item, StatementLogged):
                    yield item
                elif not isinstance(item, TransactionBegan | RowsLogged):
                    yield LogAdvanced(item.end)


def _head_of_mysql(connection: pymysql.Connection) -> BinlogPosition:
    """The end, as the server tells it twice: it looks up the GTIDs before the place, and others may come between."""
    seen = _mysql_status(connection)
    for _ in range(_ATTEMPTS):
        before, seen = seen, _mysql_status(connection)
        if seen == before:
            break
    file, offset, gtids = seen
    return BinlogPosition(file, offset, gtids=gtids)


def _gtids_before(connection: pymysql.Connection, first_file: str) -> str:
    if read_flavour(connection) == "mariadb":
        return gtids_at(connection, first_file, _FIRST_OFFSET)
    return str(ask(connection, "SELECT @@GLOBAL.gtid_purged")[0][0]).replace("\n", "")


def _gtid_binlog_pos(connection: pymysql.Connection) -> str:
    return str(ask(connection, "SELECT @@GLOBAL.gtid_binlog_pos")[0][0])


def _mariadb_status(connection: pymysql.Connection) -> tuple[str, int]:
    status = _log_status(connection, "mariadb")
    return str(status[0]), int(status[1])


def _mysql_status(connection: pymysql.Connection) -> tuple[str, int, str]:
    """File, offset and Executed_Gtid_Set."""
    status = _log_status(connection, "mysql")
    return str(status[0]), int(status[1]), str(status[4]).replace("\n", "")


def _log_status(connection: pymysql.Connection, flavour: Flavour) -> tuple[Any, ...]:
    """File, offset, Binlog_Do_DB, Binlog_Ignore_DB and more, by the statement that the server's version knows."""
    version = tuple(int(number) for number in re.findall(r"\d+", read_greeting(connection))[:2])
    is_renamed = flavour == "mysql" and version >= _MYSQL_RENAMED_STATUS
    rows = ask(connection, "SHOW BINARY LOG STATUS" if is_renamed else "SHOW MASTER STATUS")
    if not rows:
        raise _no_log(connection)
    return rows[0]


def _no_log(connection: pymysql.Connection) -> UnfitServerError:
    return UnfitServerError(f"{server_of(connection)} writes no binlog", "start the server with log_bin")
