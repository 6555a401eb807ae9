"""What a statement means depends on the session that wrote it, and the log tells that session."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.chain import make_chain
from tests.servers.source_log import address, read_all

from penstock.adapters.mysql.catalog import read_tables
from penstock.adapters.mysql.connection import ask, connect
from penstock.adapters.mysql.history import head
from penstock.adapters.mysql.tracker import MysqlTracker, read_source_defaults
from penstock.core.errors import PenstockError
from penstock.core.mysql.log.log_items import StatementLogged
from penstock.core.mysql.statements.ddl import TableDdl, classify
from penstock.core.mysql.statements.evolution import refusal
from penstock.core.mysql.statements.sql_session import SqlSession
from penstock.core.mysql.statements.table_effects import TableChange, effect_of
from penstock.core.refusals import Refusal
from penstock.core.tables import TableId
from penstock.embedded.mysql import OracleMysql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pymysql

    from penstock.core.positions import BinlogPosition
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

STRICT = "SET SESSION sql_mode = 'STRICT_TRANS_TABLES'"
LENIENT = "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'"
BECOMES_NOT_NULL = [
    ("v INT", "MODIFY v INT NOT NULL"),
    ("v VARCHAR(9)", "MODIFY v VARCHAR(9) NOT NULL DEFAULT 'x'"),
    ("v INT", "ADD PRIMARY KEY (v)"),
]

TIMESTAMPS = "SET SESSION explicit_defaults_for_timestamp = OFF"
NAMES_BINARY = "SET NAMES binary"
SESSIONS = [
    (
        "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES'",
        "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('C:\\new'), v VARCHAR(20) DEFAULT 'C:\\temp')",
    ),
    ("SET SESSION sql_mode = 'ANSI,NO_ENGINE_SUBSTITUTION'", 'CREATE TABLE "t" ("id" INT PRIMARY KEY, r REAL)'),
    ("SET SESSION sql_mode = 'REAL_AS_FLOAT'", "CREATE TABLE t (id INT PRIMARY KEY, r REAL)"),
    (NAMES_BINARY, "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('é') CHARACTER SET latin1)"),
    (TIMESTAMPS, "CREATE TABLE t (id INT PRIMARY KEY, a TIMESTAMP, b TIMESTAMP NULL)"),
    ("SET SESSION collation_server = koi8r_bin", "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(5))"),
]
ORACLE = ("SET SESSION sql_mode = 'ORACLE'", "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR2(10), d DATE)")


@pytest.fixture
def session(any_source: MariadbServer | OracleMysql, database: str) -> Iterator[pymysql.Connection]:
    """A session on the source, in a database of its own."""
    with closing(connect(address(any_source))) as opened:
        ask(opened, f"USE {database}")
        yield opened


def logged_since(source: MariadbServer | OracleMysql, begin: BinlogPosition) -> list[StatementLogged]:
    return [item for item in read_all(source, begin) if isinstance(item, StatementLogged)]


def test_the_log_tells_the_session_of_a_statement(
    any_source: MariadbServer | OracleMysql, session: pymysql.Connection
) -> None:
    begin = head(session)
    ask(session, LENIENT)
    ask(session, "SET SESSION character_set_client = latin1, collation_connection = koi8r_general_ci")
    ask(session, "SET SESSION collation_server = utf8mb4_bin")
    ask(session, "CREATE TABLE t (id INT PRIMARY KEY)")

    (statement,) = logged_since(any_source, begin)

    explicit = None if isinstance(any_source, OracleMysql) else True
    assert statement.session == SqlSession(1 << 20, client=8, connection=7, server=46, explicit_timestamps=explicit)


@pytest.mark.parametrize("charset", ["dec8", "hp8", "swe7", "armscii8", "keybcs2", "macce", "macroman", "geostd8"])
def test_a_statement_is_read_in_the_character_set_of_its_client(
    any_source: MariadbServer | OracleMysql, session: pymysql.Connection, charset: str
) -> None:
    raw = b"[" if charset == "swe7" else b"\xb5"
    ((expected,),) = ask(session, f"SELECT CONVERT(_{charset} 0x{raw.hex()} USING utf8mb4)")
    begin = head(session)
    ask(session, f"SET SESSION character_set_client = {charset}")
    ask(session, f"CREATE TABLE t (id INT COMMENT '{raw.decode('utf-8', 'surrogateescape')}')")

    (statement,) = logged_since(any_source, begin)

    assert statement.sql == f"CREATE TABLE t (id INT COMMENT '{expected}')"


@pytest.mark.parametrize("collation", ["latin1_german1_ci", "latin1_spanish_ci", "latin1_bin"])
def test_a_table_keeps_its_name_whatever_the_collation_of_the_client(
    any_source: MariadbServer | OracleMysql, session: pymysql.Connection, collation: str
) -> None:
    ask(session, "CREATE TABLE `ü` (id INT)")
    begin = head(session)
    ask(session, f"SET NAMES latin1 COLLATE {collation}")
    ask(session, "TRUNCATE TABLE `\udcfc`")

    (statement,) = logged_since(any_source, begin)

    assert classify(statement.sql) == TableDdl("truncate", ((None, "ü"),), changes_rows=True, changes_columns=False)


@pytest.mark.parametrize(("column", "change"), BECOMES_NOT_NULL)
def test_nulls_that_the_source_turns_into_values_are_seen(
    any_source: MariadbServer | OracleMysql, session: pymysql.Connection, database: str, column: str, change: str
) -> None:
    table = TableId(database, "t")
    ask(session, f"CREATE TABLE t (id INT, {column})")
    ask(session, "INSERT INTO t VALUES (1, NULL)")
    session.commit()
    before, begin = read_tables(session, [table])[table], head(session)
    ask(session, STRICT)
    with pytest.raises(PenstockError, match=r"NULL|truncated"):
        ask(session, f"ALTER TABLE t {change}")
    ask(session, LENIENT)
    ask(session, f"ALTER TABLE t {change}")

    (statement,) = logged_since(any_source, begin)

    assert ask(session, "SELECT v IS NULL FROM t") == [(0,)]
    after = read_tables(session, [table])[table]
    assert refusal(before, after, statement.session.sql_mode) is not None


@pytest.mark.parametrize(
    ("column", "mode", "changes"),
    [
        ("v INT UNIQUE", "NO_AUTO_VALUE_ON_ZERO", True),
        ("v INT NOT NULL UNIQUE", "STRICT_TRANS_TABLES", True),
        ("v INT NOT NULL UNIQUE", "NO_AUTO_VALUE_ON_ZERO", False),
    ],
)
def test_rows_that_get_numbers_as_their_column_becomes_auto_increment_are_seen(
    *,
    any_source: MariadbServer | OracleMysql,
    session: pymysql.Connection,
    database: str,
    column: str,
    mode: str,
    changes: bool,
) -> None:
    table = TableId(database, "t")
    ask(session, f"CREATE TABLE t (id INT, {column})")
    ask(session, f"INSERT INTO t VALUES (1, 5), (2, {0 if 'NOT NULL' in column else 'NULL'})")
    before, rows, begin = read_tables(session, [table])[table], ask(session, "SELECT v FROM t"), head(session)
    ask(session, f"SET SESSION sql_mode = '{mode}'")
    ask(session, "ALTER TABLE t MODIFY v INT NOT NULL AUTO_INCREMENT")

    (statement,) = logged_since(any_source, begin)

    assert (set(ask(session, "SELECT v FROM t")) != set(rows)) is changes
    ddl = classify(statement.sql, statement.session.sql_mode)
    change = TableChange(before, read_tables(session, [table])[table], named=True, sql_mode=statement.session.sql_mode)
    assert isinstance(ddl, TableDdl)
    assert isinstance(effect_of(ddl, change), Refusal) is changes


def test_a_column_keeps_its_values_when_it_is_renamed_behind_a_backslash_that_escapes_nothing(
    mariadb: MariadbServer, chain_parts: tuple[KafkaBroker, str, int], fresh_database: str, tmp_path: Path
) -> None:
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    chain.write("CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(9), a INT)", "INSERT INTO t VALUES (1, 'x', 7)")
    chain.start()
    chain.carry()
    chain.write(LENIENT, "ALTER TABLE t MODIFY c VARCHAR(9) DEFAULT '\\', CHANGE a b INT")
    chain.write("INSERT INTO t (id, b) VALUES (2, 8)")
    chain.carry()

    assert chain.query("SELECT id, c, b FROM {schema}.t ORDER BY id") == [(1, "x", 7), (2, "\\", 8)]


@pytest.mark.parametrize(("setting", "create"), [*SESSIONS, ORACLE])
def test_the_tracker_reads_a_statement_as_its_session_did(
    any_source: MariadbServer | OracleMysql, request: pytest.FixtureRequest, fresh_name: str, setting: str, create: str
) -> None:
    is_mysql = isinstance(any_source, OracleMysql)
    if is_mysql and setting == ORACLE[0]:
        pytest.skip("MySQL has no such mode any more")
    tracker_server = request.getfixturevalue("mysql_tracker_server" if is_mysql else "tracker_server")
    table = TableId(fresh_name, "t")
    with closing(connect(address(any_source))) as opened:
        tracker = MysqlTracker(address(tracker_server), read_source_defaults(opened))
        with closing(tracker):
            tracker.restore('{"schemas": []}')
            dump = tracker.dump()
            begin = head(opened)
            ask(opened, setting)
            ask(opened, f"CREATE DATABASE {fresh_name}")
            ask(opened, f"USE {fresh_name}")
            ask(opened, create)
            with closing(connect(address(any_source))) as reader:
                expected = read_tables(reader, [table])[table]
            ask(opened, f"DROP DATABASE {fresh_name}")
            *created, dropped = logged_since(any_source, begin)

            for item in created:
                tracker.apply(item.sql, item.default_schema, item.session)

            assert tracker.table_schema(table) == expected
            tracker.apply(dropped.sql, dropped.default_schema, dropped.session)
            assert tracker.dump() == dump
