"""Short stories of tables on real servers: who follows the log has what a SELECT returns, or was stopped."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pymysql
import pytest
from tests.servers.followed_log import FollowedLog
from tests.servers.source_log import connected

from penstock.core.table_policy import TablePolicy
from penstock.embedded.mysql import OracleMysql

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.embedded.mariadb import MariadbServer

TEMPORARY = ("SET SESSION binlog_format = STATEMENT", "CREATE TEMPORARY TABLE t (id INT)")
PROCEDURE = "CREATE PROCEDURE p() BEGIN {} END"
CARRIED = [
    ("ALTER TABLE t MODIFY Name VARCHAR(30)",),
    ("ALTER TABLE t MODIFY Name VARCHAR(30) FIRST, CHANGE n N INT, ADD x INT DEFAULT 7",),
    ("ALTER TABLE t ADD preis_€ INT DEFAULT 3", "ALTER TABLE t RENAME COLUMN preis_€ TO `preis`"),
    ("CREATE TABLE ü€ (id INT)", "INSERT INTO ü€ VALUES (1)", "TRUNCATE ü€", "INSERT INTO ü€ VALUES (2)"),
    ("TRUNCATE /*!99999 u */ TABLE t",),
    ("SET SESSION binlog_format = STATEMENT", "CREATE TEMPORARY TABLE x (id INT)", "TRUNCATE TABLE x"),
    ("CREATE TEMPORARY TABLE t (id INT)", "INSERT INTO t VALUES (7)", "TRUNCATE TABLE t", "ALTER TABLE t ADD x INT"),
    (PROCEDURE.format("TRUNCATE TABLE t; CREATE TEMPORARY TABLE x (i INT);"), "CALL p()"),
    (PROCEDURE.format("CREATE TEMPORARY TABLE x (i INT); DELETE FROM t;"), "CALL p()"),
    ("SET SESSION explicit_defaults_for_timestamp = OFF", "ALTER TABLE t ADD ts TIMESTAMP"),
]
STOPPED = [
    (*TEMPORARY, "TRUNCATE TABLE t"),
    (*TEMPORARY, "ALTER TABLE t ADD x INT", "CREATE INDEX i ON t (x)"),
    (
        PROCEDURE.format("CREATE TEMPORARY TABLE x (i INT); TRUNCATE TABLE t; INSERT INTO t (id) VALUES (7);"),
        "CALL p()",
    ),
    (PROCEDURE.format("SET @c = CONNECTION_ID(); TRUNCATE TABLE t;"), "CALL p()"),
    (
        "ALTER TABLE t PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (1), PARTITION b VALUES LESS THAN (9))",
        PROCEDURE.format("CREATE TEMPORARY TABLE x (i INT); ALTER TABLE t DROP PARTITION a;"),
        "CALL p()",
    ),
    (*TEMPORARY, "ALTER TABLE t ADD x INT DEFAULT (CONNECTION_ID())"),
    (
        "DROP TABLE t",
        "CREATE TABLE t (id INT PRIMARY KEY, d DECIMAL(5,2), g VARCHAR(30) AS (concat(d, 'x')) STORED)",
        "INSERT INTO t (id, d) VALUES (1, 1.5)",
        "ALTER TABLE t MODIFY d DECIMAL(8,4)",
    ),
    (
        "DROP TABLE t",
        "CREATE TABLE t (name VARCHAR(20) COLLATE utf8mb4_general_ci, g INT AS (name = 'A') STORED) CHARSET utf8mb4",
        "INSERT INTO t (name) VALUES ('a')",
        "ALTER TABLE t MODIFY name VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    ),
    (
        "DROP TABLE t",
        "CREATE TABLE t (id INT PRIMARY KEY, n BIGINT UNSIGNED)",
        "INSERT INTO t VALUES (1, NULL)",
        "ALTER TABLE t MODIFY n SERIAL",
    ),
]
FAILS = "CREATE OR REPLACE TABLE t (id INT PRIMARY KEY) SELECT 1 AS id UNION ALL SELECT 1"


def follow(
    source: MariadbServer | OracleMysql,
    request: pytest.FixtureRequest,
    schema: str,
    home: Path,
    *story: str,
    unwanted: str = "",
) -> FollowedLog:
    """Tell a story, and follow it."""
    tracker = request.getfixturevalue("mysql_tracker_server" if isinstance(source, OracleMysql) else "tracker_server")
    log = FollowedLog.open(source, tracker, schema, TablePolicy(), home, unwanted)
    with closing(log), closing(connected(source)) as session, session.cursor() as cursor:
        # The log is to tell of the database, too.
        cursor.execute(f"DROP DATABASE {schema}")
        cursor.execute(f"CREATE DATABASE {schema}")
        session.select_db(schema)
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), n INT)")
        cursor.execute("INSERT INTO t VALUES (0, 'a', 1), (1, NULL, 2), (2, 'c', 3)")
        for statement in story:
            if statement == FAILS:
                with pytest.raises(pymysql.err.IntegrityError):
                    cursor.execute(statement)
            else:
                cursor.execute(statement)
        log.follow()
        log.check()
    return log


@pytest.mark.parametrize("story", CARRIED)
def test_what_is_carried_arrives_as_the_source_has_it(
    any_source: MariadbServer | OracleMysql,
    request: pytest.FixtureRequest,
    database: str,
    tmp_path: Path,
    story: tuple[str, ...],
) -> None:
    assert follow(any_source, request, database, tmp_path, *story).stopped == {}


@pytest.mark.parametrize("story", STOPPED)
def test_what_nobody_could_know_stops_its_table(
    any_source: MariadbServer | OracleMysql,
    request: pytest.FixtureRequest,
    database: str,
    tmp_path: Path,
    story: tuple[str, ...],
) -> None:
    assert set(follow(any_source, request, database, tmp_path, *story).stopped) == {f"{database}.t"}


def test_a_number_that_mariadb_does_not_fill_in_as_it_was_typed_stops_its_table(
    mariadb: MariadbServer, request: pytest.FixtureRequest, fresh_database: str, tmp_path: Path
) -> None:
    story = ("ALTER TABLE t ADD a TEXT DEFAULT 5, ADD b BLOB DEFAULT -12", "CREATE TABLE u LIKE t")

    assert follow(mariadb, request, fresh_database, tmp_path, *story).stopped == {}
    told = follow(mariadb, request, fresh_database, tmp_path, *story, "ALTER TABLE t ADD c TEXT DEFAULT 1e10")
    assert set(told.stopped) == {f"{fresh_database}.t"}


@pytest.mark.parametrize(
    "statement",
    ["UPDATE t SET n = 9", "FORMAT=JSON DELETE FROM t WHERE id = 0", "FORMAT=JSON INSERT INTO t VALUES (7, 'x', 7)"],
)
def test_rows_that_mariadb_changes_while_it_analyzes_stop_their_table(
    mariadb: MariadbServer, request: pytest.FixtureRequest, fresh_database: str, tmp_path: Path, statement: str
) -> None:
    story = ("SET SESSION binlog_format = STATEMENT", "ANALYZE TABLE t", f"ANALYZE {statement}")

    assert set(follow(mariadb, request, fresh_database, tmp_path, *story).stopped) == {f"{fresh_database}.t"}


def test_rows_that_several_tables_show_stop_them(
    any_source: MariadbServer | OracleMysql, request: pytest.FixtureRequest, database: str, tmp_path: Path
) -> None:
    story = ("ALTER TABLE t ENGINE=MyISAM", "CREATE TABLE m LIKE t", "ALTER TABLE m ENGINE=MERGE UNION=(t)")

    assert set(follow(any_source, request, database, tmp_path, *story).stopped) == {f"{database}.t", f"{database}.m"}


@pytest.mark.parametrize("end", [("ROLLBACK",), ("ROLLBACK TO s", "COMMIT")])
def test_what_a_rollback_leaves_in_a_table_without_transactions_stops_it(
    mariadb: MariadbServer, request: pytest.FixtureRequest, fresh_database: str, tmp_path: Path, end: tuple[str, ...]
) -> None:
    """MySQL with GTIDs refuses such a transaction."""
    begin = ("SET SESSION binlog_format = STATEMENT", "BEGIN", "INSERT INTO u VALUES (1)", "SAVEPOINT s")
    story = ("ALTER TABLE t ENGINE=MyISAM", "CREATE TABLE u (id INT)", *begin, "UPDATE t SET n = 9", *end)

    told = follow(mariadb, request, fresh_database, tmp_path, *story)

    assert set(told.stopped) == {f"{fresh_database}.{name}" for name in "tu"}


@pytest.mark.parametrize("any_source", ["mysql_server"], indirect=True)
def test_an_engine_that_throws_the_rows_away_stops_the_table(
    any_source: OracleMysql, request: pytest.FixtureRequest, database: str, tmp_path: Path
) -> None:
    told = follow(any_source, request, database, tmp_path, "ALTER TABLE t COMMENT 'a relay' ENGINE=BLACKHOLE")

    assert set(told.stopped) == {f"{database}.t"}


def test_a_table_that_is_not_carried_is_not_taken_for_one_whose_name_differs_by_case(
    mariadb: MariadbServer, request: pytest.FixtureRequest, fresh_database: str, tmp_path: Path
) -> None:
    story = ("CREATE OR REPLACE TABLE T (id INT)", "INSERT INTO T VALUES (5)", "TRUNCATE T", "DROP TABLE T")

    assert follow(mariadb, request, fresh_database, tmp_path, *story, unwanted="T").stopped == {}


def test_a_table_that_is_not_known_is_not_taken_for_one_whose_name_differs_by_case(
    mariadb: MariadbServer, request: pytest.FixtureRequest, fresh_database: str, tmp_path: Path
) -> None:
    """As one of which the source's user may see nothing."""
    story = ("SET SESSION sql_log_bin = 0", "CREATE TABLE T (id INT)", "SET SESSION sql_log_bin = 1", "TRUNCATE T")

    assert follow(mariadb, request, fresh_database, tmp_path, *story, unwanted="T").stopped == {}


@pytest.mark.parametrize("then", [(), ("CREATE TABLE t (a INT)", "INSERT INTO t VALUES (7)")])
def test_a_table_that_a_failed_create_or_replace_has_dropped_is_gone(
    mariadb: MariadbServer, request: pytest.FixtureRequest, fresh_database: str, tmp_path: Path, then: tuple[str, ...]
) -> None:
    assert follow(mariadb, request, fresh_database, tmp_path, FAILS, *then).stopped == {}
