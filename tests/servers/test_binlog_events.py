"""A real MariaDB's rarer events: LOAD DATA, statements in place of rows, a restart of the server, large statements."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.source_log import connected, here, read_all

from penstock.core.mysql.log.log_items import StatementLogged, TransactionEnded
from penstock.core.mysql.statements.ddl import RowStatement, classify
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.positions import BinlogPosition, file_number
from penstock.embedded.mariadb import start_mariadb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pymysql

    from penstock.embedded.mariadb import MariadbServer


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariadbServer]:
    """A server of this module's own, whose settings may be changed."""
    home: Path = tmp_path_factory.mktemp("events")
    with start_mariadb(home) as server:
        yield server


@pytest.fixture
def cursor(source: MariadbServer) -> Iterator[pymysql.cursors.Cursor]:
    with closing(connected(source)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE DATABASE shop CHARACTER SET utf8mb4")
        cursor.execute("USE shop")
        cursor.execute("CREATE TABLE users (id INT PRIMARY KEY AUTO_INCREMENT, name LONGTEXT)")
        yield cursor


def event_types(cursor: pymysql.cursors.Cursor, begin: BinlogPosition) -> set[str]:
    cursor.execute(f"SHOW BINLOG EVENTS IN '{begin.file}' FROM {begin.offset}")
    return {str(row[2]) for row in cursor.fetchall()}


def test_load_data_is_rows(source: MariadbServer, cursor: pymysql.cursors.Cursor, tmp_path: Path) -> None:
    begin = here(cursor)
    data = tmp_path / "rows.txt"
    data.write_text("5\tfive\n6\tsix\n")
    cursor.execute(f"LOAD DATA INFILE '{data}' INTO TABLE users")

    rows = [item for item in read_all(source, begin) if isinstance(item, RowsLogged)]

    assert [item.payload.count(name) for item in rows for name in (b"five", b"six")] == [1, 1]
    assert "Annotate_rows" in event_types(cursor, begin)


def test_load_data_as_a_statement_is_a_statement_with_its_table(
    source: MariadbServer, cursor: pymysql.cursors.Cursor, tmp_path: Path
) -> None:
    begin = here(cursor)
    data = tmp_path / "rows.txt"
    data.write_text("5\tfive\n" * 30_000)
    cursor.execute("SET SESSION binlog_format = STATEMENT")
    cursor.execute(f"LOAD DATA INFILE '{data}' REPLACE INTO TABLE users")

    statements = [item for item in read_all(source, begin) if isinstance(item, StatementLogged)]

    assert {"Begin_load_query", "Append_block", "Execute_load_query"} <= event_types(cursor, begin)
    assert [classify(item.sql) for item in statements] == [RowStatement("LOAD", ((None, "users"),))]


def test_statements_in_place_of_rows_come_with_their_tables(
    source: MariadbServer, cursor: pymysql.cursors.Cursor
) -> None:
    begin = here(cursor)
    cursor.execute("SET SESSION binlog_format = STATEMENT, @name = 'x'")
    cursor.execute("INSERT INTO users (name) VALUES (@name), (RAND())")
    cursor.execute("UPDATE shop.users SET name = 'y'")

    statements = [item for item in read_all(source, begin) if isinstance(item, StatementLogged)]

    assert {"Intvar", "RAND", "User var"} <= event_types(cursor, begin)
    assert [classify(item.sql) for item in statements] == [
        RowStatement("INSERT", ((None, "users"),)),
        RowStatement("UPDATE", (("shop", "users"),)),
    ]


def test_a_statement_of_many_events_is_read_whole(source: MariadbServer, cursor: pymysql.cursors.Cursor) -> None:
    begin = here(cursor)
    cursor.execute("INSERT INTO users SELECT seq, REPEAT('x', 1000) FROM seq_1_to_5000")
    cursor.execute("UPDATE users SET name = CONCAT(name, 'y')")

    rows = [item for item in read_all(source, begin) if isinstance(item, RowsLogged)]

    assert len(rows) > 1000
    assert sum(item.payload.count(b"x" * 1000) for item in rows) == 15_000


def test_a_server_that_was_stopped_and_one_that_was_killed_go_on(tmp_path: Path) -> None:
    with start_mariadb(tmp_path) as server, closing(connected(server)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("CREATE TABLE shop.users (id INT PRIMARY KEY)")
        begin = here(cursor)
        cursor.execute("INSERT INTO shop.users VALUES (1)")
    with start_mariadb(tmp_path) as server, closing(connected(server)) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO shop.users VALUES (2)")
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO shop.users VALUES (3)")
        assert "Stop" in event_types(cursor, begin)
        server.kill()
    with start_mariadb(tmp_path) as server, closing(connected(server)) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO shop.users VALUES (4)")

        items = read_all(server, begin)

    rows = [item.payload[-4] for item in items if isinstance(item, RowsLogged)]
    ends = [item.end for item in items if isinstance(item, TransactionEnded)]
    assert rows == [1, 2, 4]
    assert file_number(ends[-1].file) == file_number(begin.file) + 2
