"""A statement of a real source lies between the rows before it and behind it, and no two are in one place."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from tests.servers.sessions import log_in
from tests.servers.source_log import read_all

from penstock.core.mysql.log.log_items import LogItem, StatementLogged
from penstock.core.mysql.statements.ddl import TableDdl, classify
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.positions import BinlogPosition, file_number
from penstock.embedded.mysql import OracleMysql

if TYPE_CHECKING:
    from penstock.embedded.mariadb import MariadbServer

STATEMENTS = (
    "CREATE TABLE t (id INT PRIMARY KEY)",
    "INSERT INTO t VALUES (1)",
    "TRUNCATE TABLE t",
    "INSERT INTO t VALUES (1), (2)",
    "DROP TABLE t",
    "CREATE TABLE t AS SELECT 1 AS id UNION SELECT 2",
    "INSERT INTO t VALUES (3)",
    "RENAME TABLE t TO u",
    "CREATE TABLE t AS SELECT * FROM u",
    # What is done to a temporary table says nothing of the table of that name.
    "CREATE TEMPORARY TABLE t (id INT)",
    "INSERT INTO t VALUES (7)",
    "TRUNCATE TABLE t",
    "ALTER TABLE t ADD COLUMN x INT",
    "DROP TEMPORARY TABLE t",
    "INSERT INTO t VALUES (4)",
)
DDL = ["create", "truncate", "drop", "create", "rename", "create"]


@pytest.mark.parametrize("compressed", [False, True])
def test_statements_and_rows_are_in_the_order_of_the_log(
    *, compressed: bool, any_source: MariadbServer | OracleMysql, database: str
) -> None:
    if compressed and not isinstance(any_source, OracleMysql):
        pytest.skip("only MySQL puts whole transactions into one event")
    connection = log_in(any_source, database)
    with closing(connection), connection.cursor() as cursor:
        if compressed:
            cursor.execute("SET SESSION binlog_transaction_compression = ON")
        cursor.execute("SHOW BINARY LOG STATUS" if isinstance(any_source, OracleMysql) else "SHOW MASTER STATUS")
        (file, offset, *_), *_ = cursor.fetchall()
        for statement in STATEMENTS:
            cursor.execute(statement)

    items = read_all(any_source, BinlogPosition(str(file), int(offset)), wanted=lambda table: table.schema == database)

    ddl = [item for item in items if isinstance(item, StatementLogged) and isinstance(classify(item.sql), TableDdl)]
    assert [classify(item.sql).action for item in ddl] == DDL  # type: ignore[union-attr]
    orders = [order for item in items for order in orders_of(item)]
    assert all(before <= after for before, after in pairwise(orders))
    assert len({item.order for item in ddl}) == len(ddl)
    for item in ddl:
        place = items.index(item)
        assert all(order < item.order for earlier in items[:place] for order in orders_of(earlier))


def orders_of(item: LogItem) -> list[tuple[int, int, int]]:
    if isinstance(item, RowsLogged):
        return [(file_number(item.file), item.rows_offset, item.first_row)]
    is_ddl = isinstance(item, StatementLogged) and isinstance(classify(item.sql), TableDdl)
    return [item.order] if is_ddl and isinstance(item, StatementLogged) else []
