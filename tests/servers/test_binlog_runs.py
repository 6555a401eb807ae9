"""Many small transactions of a real server: read as runs, they are what was written, and can be cut anywhere."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, cast

import pytest
from tests.unit.mysql_log.single_items import one_by_one

from penstock.adapters.mysql.binlog_stream import open_binlog
from penstock.adapters.mysql.catalog import read_tables
from penstock.adapters.mysql.connection import MysqlServer, ask, connect
from penstock.adapters.mysql.history import head
from penstock.core.changes import Op
from penstock.core.mysql.log.log_items import LogAdvanced, TransactionEnded, TransactionsLogged
from penstock.core.mysql.rows.decode import batch_key, decode_rows
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.tables import TableId
from penstock.ports.log import Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pymysql

    from penstock.core.mysql.log.log_items import LogItem
    from penstock.core.mysql.rows.rows_block import RowsBlock
    from penstock.core.positions import BinlogPosition
    from penstock.core.tables import TableSchema
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

SERVER_ID = 902_701
ROWS = 400


@pytest.fixture(params=["mariadb", "newer_mariadb", "mysql_server"])
def server(request: pytest.FixtureRequest) -> MysqlServer:
    started = cast("MariadbServer | OracleMysql", request.getfixturevalue(request.param))
    return MysqlServer(started.host, started.port, started.user, started.password)


def read_all(server: MysqlServer, begin: BinlogPosition, table: TableId) -> list[LogItem]:
    items: list[LogItem] = []
    with closing(open_binlog(server, begin, SERVER_ID, lambda seen: seen == table, Stop.END_OF_LOG)) as stream:
        while not stream.at_end():
            items += stream.read(5)
    return items


def write(connection: pymysql.Connection, table: TableId) -> None:
    """Transactions of one row, each with one of a table that nobody wants; some rows change, and some go."""
    for number in range(ROWS):
        ask(connection, f"INSERT INTO {table} VALUES ({number}, REPEAT('x', {number % 7}))")
        ask(connection, f"INSERT INTO {table}_unwanted VALUES ({number})")
        if number % 5 == 0:
            ask(connection, f"UPDATE {table} SET name = NULL WHERE id = {number}")
        if number % 10 == 0:
            ask(connection, f"DELETE FROM {table} WHERE id = {number}")


def ids_of(schema: TableSchema, events: Sequence[RowsLogged | RowsBlock]) -> list[int]:
    batch = decode_rows(schema, events)
    image = batch.before if batch.after is None else batch.after
    assert image is not None
    return [int(str(number)) for number in image.column("id").to_pylist()]


def test_small_transactions_read_in_runs_are_what_was_written(server: MysqlServer, fresh_name: str) -> None:
    table = TableId(fresh_name, "small")
    with closing(connect(server)) as connection:
        ask(connection, f"CREATE DATABASE {fresh_name}")
        ask(connection, f"CREATE TABLE {table} (id INT PRIMARY KEY, name VARCHAR(20)) CHARACTER SET utf8mb4")
        ask(connection, f"CREATE TABLE {table}_unwanted (id INT)")
        begin = head(connection)
        write(connection, table)
        end = head(connection)
        schema = read_tables(connection, [table])[table]

    items = read_all(server, begin, table)
    singles = one_by_one(items)
    rows = [item for item in singles if isinstance(item, RowsLogged)]
    ends = [item.end for item in singles if isinstance(item, TransactionEnded | LogAdvanced)]
    blocks = [block for item in items if isinstance(item, TransactionsLogged) for block in item.blocks]

    assert sum(map(len, blocks)) > ROWS // 2
    assert [ids_of(schema, [row]) for row in rows if row.op is Op.UPDATE] == [[n] for n in range(0, ROWS, 5)]
    assert [ids_of(schema, [row]) for row in rows if row.op is Op.CREATE] == [[number] for number in range(ROWS)]
    assert [ids_of(schema, [row]) for row in rows if row.op is Op.DELETE] == [[n] for n in range(0, ROWS, 10)]
    for block in blocks:
        assert ids_of(schema, [block]) == [number for row in block for number in ids_of(schema, [row])]
        assert len({batch_key(row) for row in block}) == 1
    assert ends[-1] == end
    assert [place.order for place in ends] == sorted(place.order for place in ends)
    for place in ends[:: len(ends) // 5]:
        rest = [item for item in one_by_one(read_all(server, place, table)) if isinstance(item, RowsLogged)]
        assert rest == [row for row in rows if row.offset >= place.offset]
