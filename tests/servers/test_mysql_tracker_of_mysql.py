"""The schema tracker of a MySQL source is a MySQL server too."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from tests.servers.source_log import address, connected, read_all

from penstock.adapters.mysql.binlog_stream import open_binlog
from penstock.adapters.mysql.catalog import read_creates, read_tables
from penstock.adapters.mysql.connection import ask, connect
from penstock.adapters.mysql.history import head
from penstock.adapters.mysql.initial_snapshot import open_initial_snapshot
from penstock.adapters.mysql.tracker import MysqlTracker, read_source_defaults
from penstock.core.errors import UnfitServerError
from penstock.core.mysql.log.log_items import StatementLogged
from penstock.core.mysql.rows.decode import decode_rows
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.tables import TableId
from penstock.ports.log import Stop

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pymysql

    from penstock.core.positions import BinlogPosition
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

EMPTY = '{"schemas": []}'
# What a MariaDB of these days refuses, reads otherwise or prints otherwise.
ONLY_MYSQL = [
    "CREATE TABLE t (a VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_as_cs PRIMARY KEY)",
    "CREATE TABLE t (a VARCHAR(9)) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_ja_0900_as_cs",
    "CREATE TABLE t (a INT PRIMARY KEY, b JSON, c JSON DEFAULT (JSON_ARRAY()))",
    "CREATE TABLE t (a INT PRIMARY KEY, b JSON, INDEX ((CAST(b->'$.n' AS UNSIGNED ARRAY))))",
    "CREATE TABLE t (a INT PRIMARY KEY, b INT, INDEX f ((a + b), (ABS(b)) DESC) INVISIBLE)",
    "CREATE TABLE t (a INT PRIMARY KEY, b INT INVISIBLE DEFAULT 7, c INT VISIBLE)",
    "CREATE TABLE t (a INT PRIMARY KEY, b VECTOR(3))",
    "CREATE TABLE t (a INT PRIMARY KEY, b POINT NOT NULL SRID 4326, SPATIAL INDEX (b))",
    "CREATE TABLE t (a INT PRIMARY KEY, b INT, CONSTRAINT positive CHECK (b > 0) NOT ENFORCED)",
    "CREATE TABLE t (a INT PRIMARY KEY, b INT AS (a * 2) STORED, c CHAR(36) DEFAULT (UUID()))",
    "CREATE TABLE t (a TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6))",
]


@pytest.fixture
def source(mysql_server: OracleMysql) -> Iterator[pymysql.Connection]:
    """A session on a MySQL source with an empty database `shop`."""
    with contextlib.closing(connect(address(mysql_server))) as opened:
        ask(opened, "DROP DATABASE IF EXISTS shop")
        ask(opened, "CREATE DATABASE shop")
        ask(opened, "USE shop")
        yield opened
        ask(opened, "DROP DATABASE shop")


@pytest.fixture
def tracker(mysql_tracker_server: OracleMysql, source: pymysql.Connection) -> Iterator[MysqlTracker]:
    with contextlib.closing(MysqlTracker(address(mysql_tracker_server), read_source_defaults(source))) as opened:
        opened.restore(EMPTY)
        opened.apply("CREATE DATABASE shop", "")
        yield opened


def logged_since(mysql_server: OracleMysql, begin: BinlogPosition) -> list[StatementLogged]:
    """The statements of the source's log from a position on."""
    found = []
    stream = open_binlog(address(mysql_server), begin, 903_001, lambda _: False, Stop.END_OF_LOG)
    with contextlib.closing(stream):
        while not stream.at_end():
            found += [item for item in stream.read(5) if isinstance(item, StatementLogged)]
    return found


@pytest.mark.parametrize("statement", ONLY_MYSQL)
def test_what_only_mysql_knows_is_followed_to_the_same_shape(
    mysql_server: OracleMysql, source: pymysql.Connection, tracker: MysqlTracker, statement: str
) -> None:
    begin = head(source)
    ask(source, statement)

    for item in logged_since(mysql_server, begin):
        tracker.apply(item.sql, item.default_schema, item.session)

    table = TableId("shop", "t")
    assert tracker.table_schema(table) == read_tables(source, [table])[table]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE t (a INT) ENCRYPTION='Y'",
        "CREATE TABLE t (a INT) /*!50100 TABLESPACE `ts1` */",
        "CREATE TABLE t (a INT) PARTITION BY HASH (a) (PARTITION p TABLESPACE = ts1)",
        "CREATE TABLE t (a TEXT, FULLTEXT KEY (a) WITH PARSER missing)",
    ],
)
def test_what_a_source_has_for_its_tables_need_not_be_there(tracker: MysqlTracker, statement: str) -> None:
    tracker.apply("ALTER DATABASE shop ENCRYPTION = 'Y'", "")
    tracker.apply(statement, "shop")

    assert tracker.table_schema(TableId("shop", "t")) is not None


def test_a_source_with_foreign_keys_to_columns_that_are_not_unique_is_restored(
    source: pymysql.Connection, tracker: MysqlTracker
) -> None:
    ask(source, "SET SESSION restrict_fk_on_non_standard_key = OFF")
    ask(source, "CREATE TABLE p (a INT, KEY (a))")
    ask(source, "CREATE TABLE c (a INT, FOREIGN KEY (a) REFERENCES p (a))")

    tracker.restore(read_creates(source).to_json())

    assert TableId("shop", "c") in tracker.tables()


def test_a_key_that_the_server_makes_up_is_followed(
    mysql_server: OracleMysql, source: pymysql.Connection, tracker: MysqlTracker
) -> None:
    ask(source, "SET SESSION sql_generate_invisible_primary_key = ON")
    begin = head(source)
    ask(source, "CREATE TABLE t (a INT)")

    for item in logged_since(mysql_server, begin):
        tracker.apply(item.sql, item.default_schema, item.session)

    table = TableId("shop", "t")
    schema = tracker.table_schema(table)
    assert schema == read_tables(source, [table])[table]
    assert schema is not None
    assert schema.key == ("my_row_id",)


def test_a_key_that_the_servers_make_up_and_hide_is_copied_logged_and_followed(
    mysql_server: OracleMysql, mysql_tracker_server: OracleMysql, source: pymysql.Connection
) -> None:
    table = TableId("shop", "t")
    with hidden_keys(mysql_server), hidden_keys(mysql_tracker_server):
        ask(source, "SET SESSION sql_generate_invisible_primary_key = ON")
        ask(source, "CREATE TABLE t (a INT)")
        begin = head(source)
        ask(source, "INSERT INTO t VALUES (7), (8)")

        with open_initial_snapshot(address(mysql_server), lambda seen: seen == table) as copy:
            copied = [row for batch in copy.rows(table, 10) if batch.after for row in batch.after.to_pylist()]
            schema, creates = copy.schemas[table], copy.creates
        with contextlib.closing(MysqlTracker(address(mysql_tracker_server), read_source_defaults(source))) as tracker:
            tracker.restore(creates)
            followed = tracker.table_schema(table)
        events = read_all(mysql_server, begin, wanted=lambda seen: seen == table)
        logged = [decode_rows(schema, [event]).after for event in events if isinstance(event, RowsLogged)]

    assert copied == [{"my_row_id": 1, "a": 7}, {"my_row_id": 2, "a": 8}]
    assert [rows.to_pylist() for rows in logged if rows is not None] == [copied]
    assert followed == schema


@contextlib.contextmanager
def hidden_keys(server: OracleMysql) -> Iterator[None]:
    """Have the server show nobody the keys that it makes up, unless one asks."""
    with contextlib.closing(connected(server)) as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL show_gipk_in_create_table_and_information_schema = OFF")
        try:
            yield
        finally:
            cursor.execute("SET GLOBAL show_gipk_in_create_table_and_information_schema = ON")


def test_a_copy_of_a_mysql_source_is_restored_with_equal_schemas(
    source: pymysql.Connection, tracker: MysqlTracker
) -> None:
    for number, statement in enumerate(ONLY_MYSQL):
        ask(source, statement.replace("TABLE t", f"TABLE t{number}"))
    creates, expected = read_creates(source), read_tables(source)

    tracker.restore(creates.to_json())

    assert {table: tracker.table_schema(table) for table in tracker.tables()} == dict(expected)
    assert len(expected) >= len(ONLY_MYSQL)


def test_a_tracker_of_another_kind_is_refused(source: pymysql.Connection, tracker_server: MariadbServer) -> None:
    tracker = MysqlTracker(address(tracker_server), read_source_defaults(source))

    with (
        contextlib.closing(tracker),
        pytest.raises(UnfitServerError, match="is a MariaDB server, and the source is MySQL") as caught,
    ):
        tracker.tables()

    assert "give the tracker a MySQL server, of the source's version or newer" in caught.value.hint


def test_what_our_user_sees_is_dropped_with_what_it_does_not(tracker: MysqlTracker) -> None:
    tracker.apply("CREATE TABLE t (a INT)", "shop")
    tracker.apply("CREATE TABLE stays (a INT)", "shop")

    tracker.apply("DROP TABLE hidden, t, nowhere.u", "shop")

    assert tracker.tables() == [TableId("shop", "stays")]
