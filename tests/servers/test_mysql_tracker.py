from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.mysql.catalog import read_creates, read_tables
from penstock.adapters.mysql.connection import MysqlServer, ask, connect
from penstock.adapters.mysql.tracker import MysqlTracker, SourceDefaults, read_source_defaults
from penstock.core.errors import DisplacedError, FencedError, PenstockError, UnavailableError, UnfitServerError
from penstock.core.mysql.statements.sql_session import SqlSession
from penstock.core.tables import BytesType, IntegerType, TableId, TextType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.embedded.mariadb import MariadbServer

EMPTY = '{"schemas": []}'
CREATES = [
    "CREATE SEQUENCE s",
    "CREATE TABLE t (a INT PRIMARY KEY, b VARBINARY(5) DEFAULT x'00ff41', c BIGINT DEFAULT NEXTVAL(s))",
    "CREATE TABLE u (a INT, FOREIGN KEY (a) REFERENCES t (a))",
    "CREATE TABLE v (a INT PRIMARY KEY) WITH SYSTEM VERSIONING",
    "CREATE TABLE `ü``x` (a INT) PARTITION BY HASH (a) PARTITIONS 3",
]


@pytest.fixture
def server(tracker_server: MariadbServer) -> MysqlServer:
    return MysqlServer(tracker_server.host, tracker_server.port, tracker_server.user, tracker_server.password)


@pytest.fixture
def tracker(server: MysqlServer) -> Iterator[MysqlTracker]:
    tracker = MysqlTracker(server)
    tracker.restore(EMPTY)
    tracker.apply("CREATE DATABASE shop", "")
    with contextlib.closing(tracker):
        yield tracker


T = TableId("shop", "t")


def columns(tracker: MysqlTracker, table: TableId = T) -> list[str]:
    schema = tracker.table_schema(table)
    return [] if schema is None else [column.name for column in schema.columns]


def test_a_table_follows_its_statements(tracker: MysqlTracker) -> None:
    tracker.apply("CREATE TABLE t (a INT PRIMARY KEY)", "shop")
    assert columns(tracker) == ["a"]

    tracker.apply("ALTER TABLE shop.t ADD COLUMN b TEXT FIRST", "")
    assert columns(tracker) == ["b", "a"]

    tracker.apply("DROP TABLE t", "shop")
    assert tracker.table_schema(T) is None
    assert tracker.tables() == []


@pytest.mark.parametrize("create", ["CREATE TABLE t SELECT 1 AS a", "CREATE TABLE shop.t VALUES (1), (2)"])
def test_a_query_in_a_statement_leaves_no_rows_that_would_have_the_tracker_refused(
    server: MysqlServer, tracker: MysqlTracker, create: str
) -> None:
    tracker.apply(create, "shop")

    with contextlib.closing(MysqlTracker(server)) as opened_anew:
        opened_anew.require_empty()
        assert opened_anew.tables() == [T]


def test_gh_ost_and_its_like_are_followed(tracker: MysqlTracker) -> None:
    for statement in (
        "CREATE TABLE t (a INT PRIMARY KEY)",
        "CREATE TABLE `shop`.`_t_gho` LIKE `shop`.`t`",
        "ALTER TABLE `shop`.`_t_gho` ADD COLUMN b INT, ALGORITHM=INSTANT",
        "RENAME TABLE `shop`.`t` TO `shop`.`_t_del`, `shop`.`_t_gho` TO `shop`.`t`",
        "DROP TABLE IF EXISTS `shop`.`_t_del`",
    ):
        tracker.apply(statement, "shop")

    assert columns(tracker) == ["a", "b"]
    assert tracker.tables() == [T]


def test_a_dump_brings_everything_back(tracker: MysqlTracker) -> None:
    for statement in CREATES:
        tracker.apply(statement, "shop")
    dump = tracker.dump()
    schemas = {table: tracker.table_schema(table) for table in tracker.tables()}

    tracker.apply("DROP DATABASE shop", "")
    tracker.apply("CREATE DATABASE other", "")
    tracker.restore(dump)

    assert tracker.dump() == dump
    assert {table: tracker.table_schema(table) for table in tracker.tables()} == schemas
    assert len(schemas) == 4


def test_a_dump_is_read_as_ever_behind_a_session_with_other_timestamps(tracker: MysqlTracker) -> None:
    tracker.apply("CREATE TABLE t (a TIMESTAMP NOT NULL)", "shop")
    dump, before = tracker.dump(), tracker.table_schema(T)
    tracker.apply("CREATE TABLE u (a INT)", "shop", SqlSession(explicit_timestamps=False))

    tracker.restore(dump)

    assert before is not None
    assert tracker.table_schema(T) == before


def test_restoring_twice_is_restoring_once(tracker: MysqlTracker) -> None:
    tracker.apply("CREATE TABLE t (a INT PRIMARY KEY)", "shop")
    dump = tracker.dump()

    tracker.restore(dump)
    tracker.restore(dump)

    assert tracker.dump() == dump


def test_a_copy_of_a_source_is_restored_with_equal_schemas(
    tracker: MysqlTracker, mariadb: MariadbServer, fresh_database: str
) -> None:
    source = MysqlServer(mariadb.host, mariadb.port, mariadb.user, mariadb.password)
    with contextlib.closing(connect(source)) as connection:
        ask(connection, f"USE {fresh_database}")
        for statement in CREATES:
            ask(connection, statement)
        creates, expected = read_creates(connection), read_tables(connection)

    tracker.restore(creates.to_json())

    assert {table: tracker.table_schema(table) for table in tracker.tables()} == dict(expected)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE t (a INT PRIMARY KEY) ENGINE=TokuDB DATA DIRECTORY='/nowhere' INDEX DIRECTORY='/nowhere'",
        "CREATE TABLE t (a INT PRIMARY KEY, FOREIGN KEY (a) REFERENCES missing (b))",
        "CREATE TABLE t (a DATE DEFAULT '0000-00-00', b DATETIME DEFAULT '2020-00-00')",
        "CREATE TABLE t (a VARBINARY(3) DEFAULT '\udcff\udcfe')",
        "/* by an application */ CREATE TABLE IF NOT EXISTS t (a INT)",
        "SET STATEMENT max_statement_time=0 FOR CREATE TABLE t (a INT)",
        "CREATE TABLE t (a INT) START TRANSACTION",
        "CREATE TABLE t (a INT) `ENCRYPTED`=YES `ENCRYPTION_KEY_ID`=7",
        "CREATE TABLE t (a INT NOT NULL) ENGINE=CONNECT TABLE_TYPE=CSV FILE_NAME='a.csv'",
        "CREATE TABLE t (a TEXT, FULLTEXT KEY (a) WITH PARSER missing)",
    ],
)
def test_what_a_source_accepted_the_tracker_accepts(tracker: MysqlTracker, statement: str) -> None:
    tracker.apply(statement, "shop")

    assert columns(tracker)[0] == "a"


@pytest.mark.parametrize(
    "statement",
    [
        "GRANT ALL ON *.* TO nobody",
        "CREATE VIEW v AS SELECT * FROM missing",
        "RENAME TABLE a_view TO another_view",
        "RENAME TABLE a_view TO another_view, t TO t2, t2 TO t",
        "DROP TABLE missing /* generated by server */",
        "DROP DATABASE missing",
        "DROP SEQUENCE missing",
        "TRUNCATE TABLE t",
        "ALTER TABLE t DISCARD TABLESPACE",
        "CREATE TEMPORARY TABLE t2 (a INT)",
        "CREATE TABLE IF NOT EXISTS t (other INT)",
        "ANALYZE TABLE t",
    ],
)
def test_what_changes_no_table_changes_nothing(tracker: MysqlTracker, statement: str) -> None:
    tracker.apply("CREATE TABLE t (a INT PRIMARY KEY)", "shop")
    dump = tracker.dump()

    tracker.apply(statement, "shop")

    assert tracker.dump() == dump


def test_what_is_left_of_a_drop_is_dropped(tracker: MysqlTracker) -> None:
    tracker.apply("CREATE TABLE t (a INT PRIMARY KEY)", "shop")

    tracker.apply("DROP TABLE missing, t", "shop")

    assert tracker.tables() == []


def test_a_schema_that_is_gone_is_not_taken_for_the_one_before(tracker: MysqlTracker) -> None:
    tracker.apply("CREATE TABLE t (a INT PRIMARY KEY)", "shop")

    with pytest.raises(PenstockError, match="CREATE TABLE stray"):
        tracker.apply("CREATE TABLE stray (a INT)", "missing")

    assert tracker.tables() == [T]


def test_a_refused_statement_is_shown_with_the_reason(tracker: MysqlTracker) -> None:
    with pytest.raises(PenstockError, match=r"t.*doesn't exist") as caught:
        tracker.apply("ALTER TABLE t ADD COLUMN b INT", "shop")

    assert "ALTER TABLE t ADD COLUMN b INT" in str(caught.value)
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE IF EXISTS T",
        "RENAME TABLE T TO old",
        "RENAME TABLE Shop.t TO shop.old",
        "CREATE TABLE New (a INT)",
        "DROP DATABASE Shop",
    ],
)
def test_names_that_only_the_source_takes_for_the_same_are_refused(server: MysqlServer, statement: str) -> None:
    with contextlib.closing(MysqlTracker(server, SourceDefaults(lower_case=1))) as tracker:
        tracker.restore(EMPTY)
        tracker.apply("CREATE DATABASE shop", "")
        tracker.apply("CREATE TABLE t (A INT)", "shop")
        with pytest.raises(PenstockError, match="case does not count") as caught:
            tracker.apply(statement, "shop")

        tracker.apply("RENAME TABLE t TO v, v TO t", "shop")
        tables = tracker.tables()

    assert tables == [T]
    assert "lower_case_table_names=1" in caught.value.hint


def test_a_schema_without_a_character_set_gets_the_one_of_the_source(server: MysqlServer) -> None:
    with contextlib.closing(MysqlTracker(server, SourceDefaults("latin1_swedish_ci"))) as tracker:
        tracker.restore(EMPTY)
        tracker.apply("CREATE DATABASE shop", "")
        tracker.apply("CREATE TABLE t (a VARCHAR(9), b BINARY(2))", "shop")

        schema = tracker.table_schema(T)

    assert schema is not None
    assert [column.type for column in schema.columns] == [TextType(9, "latin1"), BytesType(2, fixed=True)]


def test_a_source_tells_its_defaults(mariadb: MariadbServer) -> None:
    source = MysqlServer(mariadb.host, mariadb.port, mariadb.user, mariadb.password)

    with contextlib.closing(connect(source)) as connection:
        assert read_source_defaults(connection) == SourceDefaults(
            "utf8mb4_general_ci", explicit_timestamps=True, tells_timestamps=True
        )


def test_a_lost_connection_is_opened_again(tracker: MysqlTracker, server: MysqlServer) -> None:
    tracker.apply("CREATE TABLE t (a INT PRIMARY KEY)", "shop")
    dump = tracker.dump()

    kill_others(server)
    assert tracker.dump() == dump
    kill_others(server)
    tracker.apply("ALTER TABLE t MODIFY a BIGINT", "shop")
    kill_others(server)
    schema = tracker.table_schema(T)

    assert schema is not None
    assert schema.columns[0].type == IntegerType(64, unsigned=False)


def kill_others(server: MysqlServer) -> None:
    with contextlib.closing(connect(server)) as connection:
        others = ask(
            connection, "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND USER <> ''"
        )
        for (number,) in others:
            with contextlib.suppress(UnfitServerError):
                ask(connection, f"KILL {number}")


def test_a_tracker_that_is_away_is_unavailable(server: MysqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.adapters.mysql.tracker._PAUSE_SECONDS", 0.01)

    with pytest.raises(UnavailableError):
        MysqlTracker(MysqlServer(server.host, 1, server.user, server.password)).tables()


def test_a_server_with_rows_is_never_taken_for_a_tracker(tracker: MysqlTracker, server: MysqlServer) -> None:
    tracker.apply("CREATE TABLE t (a INT PRIMARY KEY)", "shop")
    with contextlib.closing(connect(server)) as connection:
        ask(connection, "INSERT INTO shop.t VALUES (1)")

        with pytest.raises(UnfitServerError, match=r"holds rows in shop\.t"):
            MysqlTracker(server).restore(EMPTY)

        assert ask(connection, "SELECT a FROM shop.t") == [(1,)]
        ask(connection, "DELETE FROM shop.t")


def test_whoever_took_over_last_is_the_only_one_who_changes_it(tracker: MysqlTracker, server: MysqlServer) -> None:
    tracker.take_over()
    with contextlib.closing(MysqlTracker(server)) as newer:
        newer.take_over()

        with pytest.raises(DisplacedError, match="has taken over the schema tracker"):
            tracker.apply("CREATE TABLE t (a INT)", "shop")
        with pytest.raises(FencedError):
            tracker.restore(EMPTY)

        newer.apply("CREATE TABLE u (a INT)", "shop")
        assert newer.tables() == [TableId("shop", "u")]


@pytest.mark.parametrize("server_knows", [True, False])
def test_one_that_loses_its_connection_goes_on_changing_it(tracker: MysqlTracker, *, server_knows: bool) -> None:
    tracker.take_over()
    lost, tracker._connection = tracker._connection, None
    assert lost is not None
    if server_knows:
        lost.close()

    tracker.apply("CREATE TABLE t (a INT)", "shop")

    assert tracker.tables() == [T]
