from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.mysql.catalog import (
    Creates,
    read_create,
    read_creates,
    read_flavour,
    read_table_ids,
    read_tables,
)
from penstock.adapters.mysql.connection import MysqlServer, ask, connect
from penstock.core.tables import IntegerType, SetType, TableId, TextType, UnsupportedType

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pymysql

    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql


@pytest.fixture
def connection(any_source: MariadbServer | OracleMysql, database: str) -> Iterator[pymysql.Connection]:
    server = MysqlServer(any_source.host, any_source.port, any_source.user, any_source.password)
    with contextlib.closing(connect(server)) as opened:
        ask(opened, f"USE {database}")
        yield opened


def test_a_table_is_read_with_its_columns_and_its_key_in_key_order(
    connection: pymysql.Connection, database: str
) -> None:
    ask(
        connection,
        "CREATE TABLE t (a INT UNSIGNED NOT NULL DEFAULT 7, b VARCHAR(9) CHARACTER SET latin1 NOT NULL "
        "COMMENT 'it''s', c TEXT INVISIBLE, PRIMARY KEY (b(3), a)) COMMENT 'all of them'",
    )
    table = TableId(database, "t")

    schema = read_tables(connection, [table])[table]

    assert [(column.name, column.type) for column in schema.columns] == [
        ("a", IntegerType(32, unsigned=True)),
        ("b", TextType(9, "latin1")),
        ("c", TextType(65535, "utf8mb4")),
    ]
    assert schema.key == ("b", "a")
    assert schema.comment == "all of them"
    assert schema.columns[0].default == "7"
    assert schema.columns[1].comment == "it's"


def test_what_the_server_prints_as_a_question_mark_is_not_taken_for_one(
    connection: pymysql.Connection, database: str
) -> None:
    columns = "e ENUM('🐬','a'), s SET('a','🐬'), v VARCHAR(9) DEFAULT '🐬', w VARCHAR(9) DEFAULT '日'"
    ask(connection, f"CREATE TABLE t ({columns}) CHARACTER SET utf8mb4")
    table = TableId(database, "t")

    schema = read_tables(connection, [table])[table]

    assert [type(column.type) for column in schema.columns] == [UnsupportedType, UnsupportedType, TextType, TextType]
    defaults = [(column.default, column.default_is_expression) for column in schema.columns[2:]]
    assert defaults == [(None, True), ("日", False)]


@pytest.mark.parametrize(
    ("charset", "labels"),
    [("cp1250", "'a',x'81'"), ("eucjpms", "'a',x'ff'"), ("big5", "'a',x'a1c3'"), ("binary", "'a',x'ff'")],
)
def test_labels_that_the_server_cannot_print_are_not_taken_for_others(
    connection: pymysql.Connection, database: str, charset: str, labels: str
) -> None:
    ask(connection, "SET SESSION sql_mode = ''")
    ask(connection, f"CREATE TABLE t (e ENUM({labels}) CHARACTER SET {charset}, s SET('a', 'é') CHARACTER SET latin2)")
    table = TableId(database, "t")

    schema = read_tables(connection, [table])[table]

    assert [type(column.type) for column in schema.columns] == [UnsupportedType, SetType]


def test_views_sequences_and_missing_tables_are_no_tables(connection: pymysql.Connection, database: str) -> None:
    for statement in ("CREATE TABLE t (a INT)", "CREATE VIEW v AS SELECT a FROM t"):
        ask(connection, statement)
    if read_flavour(connection) == "mariadb":
        ask(connection, "CREATE SEQUENCE s")
    named = [TableId(database, name) for name in ("t", "v", "s", "missing")]

    assert list(read_tables(connection, named)) == [TableId(database, "t")]
    assert [table for table in read_table_ids(connection) if table.schema == database] == named[:1]


def test_many_tables_with_strange_names_are_read_together(connection: pymysql.Connection, database: str) -> None:
    names = [f"table {number} `'\"%\\" for number in range(3)]
    for name in names:
        ask(connection, f"CREATE TABLE `{name.replace('`', '``')}` (`a``'%s` INT)")

    tables = read_tables(connection, [TableId(database, name) for name in names])

    assert [table.name for table in tables] == names
    assert {schema.columns[0].name for schema in tables.values()} == {"a`'%s"}


def test_statements_survive_as_text_even_with_bytes_that_are_none(
    connection: pymysql.Connection, database: str
) -> None:
    ask(connection, "CREATE TABLE t (a VARBINARY(5) DEFAULT x'00ff41', b VARCHAR(9) DEFAULT 'ü😀')")

    creates = read_creates(connection)

    assert Creates.from_json(creates.to_json()).to_json() == creates.to_json()
    assert creates.to_json().isascii()
    assert TableId(database, "t") in [create.table for create in creates.tables]


def test_an_insert_does_not_change_what_a_table_is_made_by(connection: pymysql.Connection, database: str) -> None:
    ask(connection, "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY)")
    before = read_create(connection, TableId(database, "t"))

    ask(connection, "INSERT INTO t VALUES (41), (42)")

    assert read_create(connection, TableId(database, "t")) == before
    assert read_create(connection, TableId(database, "missing")) == (None, "")


def test_a_dump_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 2"):
        Creates.from_json('{"version": 2, "schemas": []}')
