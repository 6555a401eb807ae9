"""The rows that are captured: made by the source itself, the same in every run."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from penstock.adapters.mysql.connection import MysqlServer, ask, connect
from penstock.adapters.mysql.history import head

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pymysql

    from penstock.core.positions import BinlogPosition
    from penstock.core.tables import TableId
    from penstock.embedded.mariadb import MariadbServer

_TRANSACTION_ROWS: Final = 10_000
_TIMEOUT_SECONDS: Final = 120.0
_LARGE_REPEATS: Final = 66
_LARGE_ROW_BYTES: Final = 1_000

_CREATE: Final = """\
CREATE TABLE {table} (
  id BIGINT NOT NULL PRIMARY KEY,
  customer VARCHAR(64) NOT NULL,
  quantity INT NOT NULL,
  price DECIMAL(12,2) NOT NULL,
  ordered_at DATETIME(6) NOT NULL,
  remark TEXT NOT NULL,
  status TINYINT NOT NULL,
  details LONGTEXT NULL
) ENGINE=InnoDB CHARACTER SET utf8mb4
"""

# About 150 bytes in the log: MariaDB cuts events at 8 KiB, so about 50 rows in each.
_VALUES: Final = """\
{n}, CONCAT('customer ', MD5({n})), {n} % 1000, ({n} % 10000000) / 7,
'2026-01-01 00:00:00.000000' + INTERVAL {n} * 1371 MICROSECOND,
CONCAT('please ring twice, order ', SHA1({n})), {n} % 5, IF({n} % 3 = 0, NULL, CONCAT('visits ', {n} % 9973))
"""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the log that holds `rows` inserts into `table` and nothing else: whole binlog files from `begin` on."""

    table: TableId
    begin: BinlogPosition
    rows: int


def login(server: MariadbServer) -> MysqlServer:
    """The user with all rights of a bench's own source."""
    return MysqlServer(server.host, server.port, server.user, server.password)


def create_table(server: MariadbServer, table: TableId) -> None:
    """Create an empty table in a database of its own, which must not exist."""
    with _connected(server) as connection:
        ask(connection, f"CREATE DATABASE {table.schema}")
        ask(connection, _CREATE.format(table=table))


def write_bulk(server: MariadbServer, table: TableId, rows: int, files: int = 1) -> Stretch:
    """Insert rows in transactions of 10,000, each one statement; they stand in as many binlog files of their own."""
    with _connected(server) as connection:
        begin = _new_file(connection)
        first = _rows_there(connection, table) + 1
        barriers = [first + rows * number // files for number in range(files + 1)]
        for low, high in pairwise(barriers):
            for start in range(low, high, _TRANSACTION_ROWS):
                insert_range(connection, table, start, min(start + _TRANSACTION_ROWS, high) - 1)
            _new_file(connection)
    return Stretch(table, begin, rows)


def write_one_by_one(server: MariadbServer, table: TableId, rows: int) -> Stretch:
    """Insert rows, each in a transaction of its own; they stand in a binlog file of their own.

    The source does not sync its files meanwhile: it is not what is measured.
    """
    with _connected(server) as connection, without_sync(connection):
        begin = _new_file(connection)
        first = _rows_there(connection, table) + 1
        values = _VALUES.format(n="n")
        for start in range(first, first + rows, _TRANSACTION_ROWS):
            last = min(start + _TRANSACTION_ROWS, first + rows) - 1
            insert = f"INSERT INTO {table} SELECT {values}"
            ask(connection, f"FOR n IN {start} .. {last} DO {insert}; END FOR")
        _new_file(connection)
    return Stretch(table, begin, rows)


def write_transaction(server: MariadbServer, table: TableId, megabytes: int) -> int:
    """Insert rows of about 1 KB in one transaction of that size in the log; how many there are."""
    rows = megabytes * 1_000_000 // _LARGE_ROW_BYTES
    values = _VALUES.format(n="seq").replace(
        "'please ring twice, order '", f"REPEAT('please ring. ', {_LARGE_REPEATS})"
    )
    with _connected(server) as connection, without_sync(connection):
        _new_file(connection)
        ask(connection, "START TRANSACTION")
        for start in range(1, rows + 1, _TRANSACTION_ROWS):
            last = min(start + _TRANSACTION_ROWS - 1, rows)
            numbers = f"{table.schema}.seq_{start}_to_{last}"
            ask(connection, f"INSERT INTO {table} SELECT {values} FROM {numbers}")  # noqa: S608 - our own names
        ask(connection, "COMMIT")
        _new_file(connection)
    return rows


def insert_range(connection: pymysql.Connection, table: TableId, first: int, last: int) -> None:
    """Insert the rows `first` to `last` by one statement."""
    values = _VALUES.format(n="seq")
    ask(connection, f"INSERT INTO {table} SELECT {values} FROM {table.schema}.seq_{first}_to_{last}")  # noqa: S608 - as above


@contextmanager
def without_sync(connection: pymysql.Connection) -> Iterator[None]:
    """Let the server leave its files to the operating system for a while."""
    ask(connection, "SET GLOBAL sync_binlog = 0, GLOBAL innodb_flush_log_at_trx_commit = 2")
    try:
        yield
    finally:
        ask(connection, "SET GLOBAL sync_binlog = 1, GLOBAL innodb_flush_log_at_trx_commit = 1")


def _connected(server: MariadbServer) -> closing[pymysql.Connection]:
    return closing(connect(login(server), _TIMEOUT_SECONDS))


def _new_file(connection: pymysql.Connection) -> BinlogPosition:
    """Begin a new binlog file; the position at its start."""
    ask(connection, "FLUSH BINARY LOGS")
    return head(connection)


def _rows_there(connection: pymysql.Connection, table: TableId) -> int:
    return int(ask(connection, f"SELECT COALESCE(MAX(id), 0) FROM {table}")[0][0])  # noqa: S608 - as above
