from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.mysql.catalog import read_flavour
from penstock.adapters.mysql.connection import MysqlServer, ask, connect
from penstock.adapters.mysql.history import head, what_log_lacks
from penstock.adapters.mysql.initial_snapshot import open_initial_snapshot
from penstock.adapters.mysql.preflight import examine, require_fit
from penstock.adapters.mysql.visible import UnseenPattern, unseen_patterns
from penstock.core.errors import UnfitServerError
from penstock.core.table_policy import TablePolicy
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pymysql

    from penstock.core.findings import Finding
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql


def grants(connection: pymysql.Connection) -> list[str]:
    """What the README asks for, tables apart."""
    needed = ["REPLICATION SLAVE ON *.*", "REPLICATION CLIENT ON *.*"]
    return needed if read_flavour(connection) == "mariadb" else [*needed, "RELOAD ON *.*"]


@pytest.fixture
def root(any_source: MariadbServer | OracleMysql, database: str) -> Iterator[pymysql.Connection]:
    server = MysqlServer(any_source.host, any_source.port, any_source.user, any_source.password)
    with contextlib.closing(connect(server)) as opened:
        ask(opened, f"USE {database}")
        ask(opened, "CREATE TABLE t (a INT PRIMARY KEY)")
        ask(opened, "INSERT INTO t VALUES (1), (2)")
        yield opened


@pytest.fixture
def plain(any_source: MariadbServer | OracleMysql, root: pymysql.Connection) -> Iterator[MysqlServer]:
    """A user without any rights yet."""
    ask(root, "DROP USER IF EXISTS plain")
    ask(root, "CREATE USER plain IDENTIFIED BY 'plain'")
    yield MysqlServer(any_source.host, any_source.port, "plain", "plain")
    ask(root, "DROP USER plain")


@pytest.fixture
def wanted(database: str) -> Callable[[TableId], bool]:
    return lambda table: table.schema == database


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
        ("binlog_format", "STATEMENT", "error"),
        ("binlog_row_image", "MINIMAL", "error"),
        ("binlog_alter_two_phase", "ON", "error"),
        ("binlog_row_metadata", "NO_LOG", "warning"),
        ("binlog_row_metadata", "MINIMAL", "warning"),
        ("binlog_checksum", "NONE", "warning"),
        ("gtid_strict_mode", "OFF", "warning"),
        ("gtid_mode", "ON_PERMISSIVE", "warning"),
    ],
)
def test_a_setting_that_loses_something_is_named_with_its_remedy(
    root: pymysql.Connection, *, setting: str, value: str, level: str
) -> None:
    known = dict(ask(root, "SHOW GLOBAL VARIABLES"))
    if setting not in known or (value == "NO_LOG" and read_flavour(root) == "mysql"):
        pytest.skip("this server has no such setting")
    ask(root, f"SET GLOBAL {setting} = '{value}'")
    try:
        found = problems(examine(root), level)
    finally:
        ask(root, f"SET GLOBAL {setting} = '{known[setting]}'")

    assert list(found) == [setting]
    assert value in found[setting]
    assert f"set {setting}=" in found[setting]


def test_rows_without_all_columns_are_warned_about_where_they_are_carried(root: pymysql.Connection) -> None:
    ask(root, "SET GLOBAL binlog_row_image = 'MINIMAL'")
    try:
        require_fit(root, policy=TablePolicy(row_images="partial"))
        found = problems(examine(root, policy=TablePolicy(row_images="partial")), "warning")
    finally:
        ask(root, "SET GLOBAL binlog_row_image = 'FULL'")

    assert "less is promised" in found["binlog_row_image"]


def test_updates_that_log_json_in_part_are_fine(root: pymysql.Connection) -> None:
    if read_flavour(root) == "mariadb":
        pytest.skip("this server has no such setting")
    ask(root, "SET GLOBAL binlog_row_value_options = 'PARTIAL_JSON'")
    try:
        require_fit(root)
    finally:
        ask(root, "SET GLOBAL binlog_row_value_options = ''")


def test_a_short_retention_is_warned_about(root: pymysql.Connection) -> None:
    before = ask(root, "SELECT @@GLOBAL.binlog_expire_logs_seconds")[0][0]
    ask(root, "SET GLOBAL binlog_expire_logs_seconds = 7200")
    try:
        found = problems(examine(root), "warning")
    finally:
        ask(root, f"SET GLOBAL binlog_expire_logs_seconds = {before}")

    assert "2.0 hours" in found["retention"]


@pytest.mark.parametrize("kind", ["tracker_server", "mysql_tracker_server"])
def test_a_server_without_a_log_is_unfit_with_every_reason(request: pytest.FixtureRequest, kind: str) -> None:
    running = request.getfixturevalue(kind)
    server = MysqlServer(running.host, running.port, running.user, running.password)

    with contextlib.closing(connect(server)) as connection:
        # MySQL's is ROW by default, MariaDB's is MIXED.
        wrong = ask(connection, "SELECT @@GLOBAL.binlog_format")[0][0] != "ROW"
        with pytest.raises(UnfitServerError) as caught:
            require_fit(connection)

    assert caught.value.exit_code == 2
    assert "log_bin: the server writes no binlog" in caught.value.message
    assert wrong == ("binlog_format: " in caught.value.message) == ("set binlog_format=ROW" in caught.value.hint)


def test_missing_grants_are_named_with_the_statement_that_gives_them(
    root: pymysql.Connection, plain: MysqlServer, database: str, wanted: Callable[[TableId], bool]
) -> None:
    ask(root, f"GRANT SELECT (a), INSERT ON {database}.t TO plain")

    with contextlib.closing(connect(plain)) as connection:
        found = problems(examine(connection, wanted))

    assert list(found) == [f"grant {grant.removesuffix(' ON *.*')}" for grant in grants(root)]

    ask(root, f"REVOKE SELECT (a) ON {database}.t FROM plain")
    with contextlib.closing(connect(plain)) as connection:
        found = problems(examine(connection, wanted))

    assert f"{database}.t" in found["grant SELECT"]
    assert f"GRANT SELECT ON `{database}`.`t` TO plain" in found["grant SELECT"]


def test_grants_through_a_role_count(root: pymysql.Connection, plain: MysqlServer) -> None:
    becomes = "FOR" if read_flavour(root) == "mariadb" else "TO"
    for statement in (
        "CREATE ROLE capture",
        *(f"GRANT {grant} TO capture" for grant in grants(root)),
        "GRANT capture TO plain",
        f"SET DEFAULT ROLE capture {becomes} plain",
    ):
        ask(root, statement)

    with contextlib.closing(connect(plain)) as connection:
        assert problems(examine(connection)) == {}

    ask(root, "DROP ROLE capture")


def test_the_grants_that_are_asked_for_are_enough(
    root: pymysql.Connection, plain: MysqlServer, database: str, wanted: Callable[[TableId], bool]
) -> None:
    for grant in (*grants(root), f"SELECT ON {database}.*"):
        ask(root, f"GRANT {grant} TO plain")

    with contextlib.closing(connect(plain)) as connection:
        require_fit(connection, wanted)
        assert head(connection) == head(root)
        what_log_lacks(connection, wanted)
    with open_initial_snapshot(plain, wanted) as copy:
        rows = [len(batch) for batch in copy.rows(TableId(database, "t"), 10)]

    assert rows == [2]


def test_foreign_keys_are_warned_about_where_they_change_rows_behind_the_log(
    root: pymysql.Connection, plain: MysqlServer, database: str, wanted: Callable[[TableId], bool]
) -> None:
    for grant in (*grants(root), f"SELECT ON {database}.*"):
        ask(root, f"GRANT {grant} TO plain")
    ask(root, "CREATE TABLE u (a INT, CONSTRAINT goes FOREIGN KEY (a) REFERENCES t (a) ON DELETE CASCADE)")
    ask(root, "CREATE TABLE v (a INT, CONSTRAINT stays FOREIGN KEY (a) REFERENCES t (a))")
    ask(root, "INSERT INTO u VALUES (1)")
    before = head(root)

    with contextlib.closing(connect(plain)) as connection:
        warned = list(problems(examine(connection, wanted), "warning"))
        key = "CONSTRAINT sets FOREIGN KEY (a) REFERENCES t (a) ON DELETE SET NULL"
        ask(root, f"CREATE TABLE w (id INT PRIMARY KEY, a INT, {key})")
        found = {each.subject: each for each in examine(connection, wanted, rereads=True)}
    ask(root, "DELETE FROM t WHERE a = 1")

    kinds = [event[2] for event in ask(root, f"SHOW BINLOG EVENTS IN '{before.file}' FROM {before.offset}")]
    logged = len([kind for kind in kinds if kind.startswith("Delete_rows")])
    assert ask(root, "SELECT * FROM u") == []
    # MariaDB, and MySQL before 9.6, log the one row that the statement names; later ones both.
    assert (logged, warned) in [(1, [f"foreign key {database}.u.goes"]), (2, [])]
    assert logged == 1 or read_flavour(root) == "mysql"
    # With `cascades: reread` only those without a primary key stop.
    if warned:
        keyless, keyed = (found[f"foreign key {database}.{name}"] for name in ("u.goes", "w.sets"))
        assert (keyless.level, keyed.level) == ("warning", "ok")
        assert "has no primary key" in keyless.message
        assert f"{database}.w is read again after each such change" in keyed.message


@pytest.mark.parametrize("any_source", ["mysql_server"], indirect=True)
def test_foreign_keys_are_warned_about_where_a_master_may_change_rows_behind_the_log(
    root: pymysql.Connection, database: str, wanted: Callable[[TableId], bool]
) -> None:
    ask(root, "CREATE TABLE u (a INT, CONSTRAINT goes FOREIGN KEY (a) REFERENCES t (a) ON DELETE CASCADE)")
    assert problems(examine(root, wanted), "warning") == {}

    ask(root, "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1'")
    try:
        warned = problems(examine(root, wanted), "warning")
    finally:
        ask(root, "RESET REPLICA ALL")

    assert "if its master is older than MySQL 9.6" in warned[f"foreign key {database}.u.goes"]


def test_engines_of_which_no_snapshot_can_be_made_are_warned_about(
    root: pymysql.Connection, database: str, wanted: Callable[[TableId], bool]
) -> None:
    ask(root, "CREATE TABLE old (a INT PRIMARY KEY) ENGINE=MyISAM")

    warned = problems(examine(root, wanted), "warning")

    assert f"no other can be made of them: {database}.old (MyISAM)" in warned["engine"]
    assert "ENGINE=InnoDB before the first start" in warned["engine"]


def test_patterns_that_match_nothing_are_told(root: pymysql.Connection, database: str) -> None:
    patterns = [f"{database}.*", f"{database}.t", f"{database}.missing", "nowhere.*", "!nowhere.*"]

    assert unseen_patterns(root, patterns) == [
        UnseenPattern(f"{database}.missing", is_missing=True, grant=""),
        UnseenPattern("nowhere.*", is_missing=True, grant=""),
    ]


def test_tables_that_our_user_may_not_see_are_told_from_tables_that_are_not_there(
    root: pymysql.Connection, plain: MysqlServer, database: str
) -> None:
    ask(root, "CREATE TABLE u (a INT PRIMARY KEY, b INT)")
    escaped = database.replace("_", "\\_")
    whole, one = f"GRANT SELECT ON `{database}`.* TO plain", f"GRANT SELECT ON `{database}`.`u` TO plain"
    patterns = [f"{database}.*", f"{database}.u", "!nowhere.*"]

    def told() -> list[tuple[str, bool, str]]:
        with contextlib.closing(connect(plain)) as connection:
            found = unseen_patterns(connection, patterns)
            return [(each.pattern, each.is_missing, each.grant) for each in found]

    nothing = told()
    ask(root, f"GRANT SELECT ON {database}.t TO plain")
    one_table = told()
    ask(root, f"GRANT SELECT (a), INSERT ON {database}.u TO plain")
    some_columns = told()
    ask(root, one)
    both = told()
    ask(root, f"GRANT SELECT ON `{escaped}`.* TO plain")
    all_tables = told()

    assert nothing == [(patterns[0], True, whole), (patterns[1], True, one)]
    assert one_table == [(patterns[0], False, whole), (patterns[1], True, one)]
    assert some_columns == both == [(patterns[0], False, whole)]
    assert all_tables == []


def test_with_select_on_everything_all_tables_show(root: pymysql.Connection, plain: MysqlServer, database: str) -> None:
    ask(root, "GRANT SELECT, RELOAD ON *.* TO plain")

    with contextlib.closing(connect(plain)) as connection:
        found = unseen_patterns(connection, ["*.t", f"{database}.*", f"{database}.missing"])

    assert found == [UnseenPattern(f"{database}.missing", is_missing=True, grant="")]
