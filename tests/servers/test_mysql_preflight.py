from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.mysql.connection import MysqlServer, ask, connect
from penstock.adapters.mysql.copy import open_copy
from penstock.adapters.mysql.history import head, log_is_whole
from penstock.adapters.mysql.preflight import Finding, examine, missing_tables, require_fit
from penstock.core.errors import UnfitServerError
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pymysql

    from penstock.dev.mariadb import MariadbServer

GRANTS = ["REPLICATION SLAVE ON *.*", "BINLOG MONITOR ON *.*"]


@pytest.fixture
def root(mariadb: MariadbServer, fresh_database: str) -> Iterator[pymysql.Connection]:
    server = MysqlServer(mariadb.host, mariadb.port, mariadb.user, mariadb.password)
    with contextlib.closing(connect(server)) as opened:
        ask(opened, f"USE {fresh_database}")
        ask(opened, "CREATE TABLE t (a INT PRIMARY KEY)")
        ask(opened, "INSERT INTO t VALUES (1), (2)")
        yield opened


@pytest.fixture
def plain(mariadb: MariadbServer, root: pymysql.Connection) -> Iterator[MysqlServer]:
    """A user without any rights yet."""
    ask(root, "CREATE OR REPLACE USER plain IDENTIFIED BY 'plain'")
    yield MysqlServer(mariadb.host, mariadb.port, "plain", "plain")
    ask(root, "DROP USER plain")


@pytest.fixture
def wanted(fresh_database: str) -> Callable[[TableId], bool]:
    return lambda table: table.schema == fresh_database


def problems(findings: Sequence[Finding], level: str = "error") -> dict[str, str]:
    return {finding.subject: f"{finding.message} {finding.hint}" for finding in findings if finding.level == level}


def test_a_server_as_it_should_be_has_no_errors_and_no_warnings(
    root: pymysql.Connection, wanted: Callable[[TableId], bool]
) -> None:
    findings = examine(root, wanted)

    assert problems(findings) == problems(findings, "warning") == {}
    assert {"log_bin", "server_id", "binlog_format", "binlog_row_image", "retention"} <= {f.subject for f in findings}
    require_fit(root, wanted)


@pytest.mark.parametrize(
    ("setting", "value", "level"),
    [
        ("binlog_format", "MIXED", "error"),
        ("binlog_row_image", "MINIMAL", "error"),
        ("binlog_alter_two_phase", "ON", "error"),
        ("binlog_row_metadata", "NO_LOG", "warning"),
        ("binlog_checksum", "NONE", "warning"),
        ("gtid_strict_mode", "OFF", "warning"),
    ],
)
def test_a_setting_that_loses_something_is_named_with_its_remedy(
    root: pymysql.Connection, *, setting: str, value: str, level: str
) -> None:
    before = ask(root, f"SELECT @@GLOBAL.{setting}")[0][0]
    ask(root, f"SET GLOBAL {setting} = {value}")
    try:
        found = problems(examine(root), level)
    finally:
        ask(root, f"SET GLOBAL {setting} = {before}")

    assert list(found) == [setting]
    assert value in found[setting]
    assert f"set {setting}=" in found[setting]


def test_a_short_retention_is_warned_about(root: pymysql.Connection) -> None:
    ask(root, "SET GLOBAL binlog_expire_logs_seconds = 7200")
    try:
        found = problems(examine(root), "warning")
    finally:
        ask(root, "SET GLOBAL binlog_expire_logs_seconds = 0")

    assert "2.0 hours" in found["retention"]


def test_a_server_without_a_log_is_unfit_with_every_reason(tracker_server: MariadbServer) -> None:
    server = MysqlServer(tracker_server.host, tracker_server.port, tracker_server.user, tracker_server.password)

    with contextlib.closing(connect(server)) as connection, pytest.raises(UnfitServerError) as caught:
        require_fit(connection)

    assert caught.value.exit_code == 2
    assert "log_bin" in caught.value.message
    assert "binlog_format" in caught.value.message
    assert "set binlog_format=ROW" in caught.value.hint


def test_missing_grants_are_named_with_the_statement_that_gives_them(
    root: pymysql.Connection, plain: MysqlServer, fresh_database: str, wanted: Callable[[TableId], bool]
) -> None:
    ask(root, f"GRANT SELECT (a), INSERT ON {fresh_database}.t TO plain")

    with contextlib.closing(connect(plain)) as connection:
        found = problems(examine(connection, wanted))

    assert list(found) == ["grant REPLICATION SLAVE", "grant REPLICATION CLIENT"]

    ask(root, f"REVOKE SELECT (a) ON {fresh_database}.t FROM plain")
    with contextlib.closing(connect(plain)) as connection:
        found = problems(examine(connection, wanted))

    assert f"{fresh_database}.t" in found["grant SELECT"]
    assert f"GRANT SELECT ON `{fresh_database}`.`t` TO plain" in found["grant SELECT"]


def test_grants_through_a_role_count(root: pymysql.Connection, plain: MysqlServer) -> None:
    for statement in (
        "CREATE OR REPLACE ROLE capture",
        *(f"GRANT {grant} TO capture" for grant in GRANTS),
        "GRANT capture TO plain",
        "SET DEFAULT ROLE capture FOR plain",
    ):
        ask(root, statement)

    with contextlib.closing(connect(plain)) as connection:
        assert problems(examine(connection)) == {}

    ask(root, "DROP ROLE capture")


def test_the_grants_that_are_asked_for_are_enough(
    root: pymysql.Connection, plain: MysqlServer, fresh_database: str, wanted: Callable[[TableId], bool]
) -> None:
    for grant in (*GRANTS, f"SELECT ON {fresh_database}.*"):
        ask(root, f"GRANT {grant} TO plain")

    with contextlib.closing(connect(plain)) as connection:
        require_fit(connection, wanted)
        assert head(connection) == head(root)
        log_is_whole(connection, wanted)
    with open_copy(plain, wanted) as copy:
        rows = [len(batch) for batch in copy.rows(TableId(fresh_database, "t"), 10)]

    assert rows == [2]


def test_foreign_keys_that_change_rows_behind_the_log_are_warned_about(
    root: pymysql.Connection, fresh_database: str, wanted: Callable[[TableId], bool]
) -> None:
    ask(root, "CREATE TABLE u (a INT, CONSTRAINT goes FOREIGN KEY (a) REFERENCES t (a) ON DELETE CASCADE)")
    ask(root, "CREATE TABLE v (a INT, CONSTRAINT stays FOREIGN KEY (a) REFERENCES t (a))")

    assert list(problems(examine(root, wanted), "warning")) == [f"foreign key {fresh_database}.u.goes"]


def test_a_cascade_is_not_in_the_log_indeed(root: pymysql.Connection) -> None:
    ask(root, "CREATE TABLE u (a INT, FOREIGN KEY (a) REFERENCES t (a) ON DELETE CASCADE)")
    ask(root, "INSERT INTO u VALUES (1)")
    before = head(root)

    ask(root, "DELETE FROM t WHERE a = 1")

    kinds = [event[2] for event in ask(root, f"SHOW BINLOG EVENTS IN '{before.file}' FROM {before.offset}")]
    assert ask(root, "SELECT * FROM u") == []
    assert len([kind for kind in kinds if kind.startswith("Delete_rows")]) == 1


def test_patterns_that_match_nothing_are_told(root: pymysql.Connection, fresh_database: str) -> None:
    patterns = [f"{fresh_database}.*", f"{fresh_database}.t", f"{fresh_database}.missing", "nowhere.*", "!nowhere.*"]

    assert missing_tables(root, patterns) == [f"{fresh_database}.missing", "nowhere.*"]
