"""A server whose log lacks changes of its tables is refused, and told of before."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.mysql.connection import MysqlServer, ask, connect
from penstock.adapters.mysql.log_coverage import examine_coverage, require_whole_log
from penstock.config.load import load
from penstock.core.errors import UnfitServerError
from penstock.embedded.mariadb import MariadbServer, start_mariadb
from penstock.embedded.mysql import OracleMysql, start_mysql
from penstock.links.capture.spec import CaptureSpec
from penstock.wiring.capture_kinds import capture_kind
from penstock.wiring.source_status import ask_source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pymysql

    from penstock.core.tables import TableId

_FILE = """\
pipeline: shop
sources:
  - {{name: db, kind: mysql, {login}, tables: ["kept.*", "lost.*"]}}
sinks:
  - {{name: warehouse, kind: duckdb, path: warehouse.duckdb}}
links:
  - {{from: db, to: warehouse}}
"""
_FILTERED = ("--server-id=77", "--binlog-do-db=kept", "--binlog-do-db=also")


def opened(server: MariadbServer | OracleMysql) -> contextlib.closing[pymysql.Connection]:
    return contextlib.closing(connect(MysqlServer(server.host, server.port, server.user, server.password)))


@pytest.fixture(scope="module", params=["mariadb", pytest.param("mysql_server", marks=pytest.mark.nightly)])
def master(request: pytest.FixtureRequest) -> MariadbServer | OracleMysql:
    server: MariadbServer | OracleMysql = request.getfixturevalue(request.param)
    return server


@pytest.fixture(scope="module")
def filtered(
    master: MariadbServer | OracleMysql, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[pymysql.Connection]:
    """A server that logs two databases only, and nothing that a master would send."""
    home = tmp_path_factory.mktemp("filtered")
    if isinstance(master, MariadbServer):
        started: MariadbServer | OracleMysql = start_mariadb(home, options=(*_FILTERED, "--skip-log-slave-updates"))
    else:
        started = start_mysql(home, options=(*_FILTERED, "--log-replica-updates=OFF"))
    with started as server, opened(server) as connection:
        for database in ("kept", "lost"):
            ask(connection, f"CREATE DATABASE {database}")
            ask(connection, f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
        yield connection


def test_a_server_that_goes_on_without_a_log_is_warned_of(master: MariadbServer | OracleMysql) -> None:
    with opened(master) as connection:
        if isinstance(master, MariadbServer):
            assert "binlog_error_action" not in {each.subject for each in examine_coverage(connection, None)}
            return
        ask(connection, "SET GLOBAL binlog_error_action = 'IGNORE_ERROR'")
        findings = {each.subject: each for each in examine_coverage(connection, None)}
        ask(connection, "SET GLOBAL binlog_error_action = 'ABORT_SERVER'")

    assert findings["binlog_error_action"].level == "warning"


def test_a_whole_log_is_told_as_that(master: MariadbServer | OracleMysql) -> None:
    with opened(master) as connection:
        findings = examine_coverage(connection, lambda _: True)

    assert [finding for finding in findings if finding.level != "ok"] == []


def test_tables_of_a_database_that_is_not_logged_are_named(filtered: pymysql.Connection) -> None:
    with pytest.raises(
        UnfitServerError, match=r"binlog_do_db: it is kept, also, so changes of lost.t are not"
    ) as caught:
        require_whole_log(filtered, lambda table: table.schema in {"kept", "lost"})

    assert "take binlog_do_db out of the server's configuration file" in caught.value.hint


def test_each_start_of_a_capture_refuses_such_a_log_and_status_warns_of_it(
    filtered: pymysql.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILTERED", filtered.password.decode())
    file = tmp_path / "shop.yaml"
    login = f"host: {filtered.host}, port: {filtered.port}, user: penstock, password_env: FILTERED"
    file.write_text(_FILE.format(login=login))
    capture = CaptureSpec(load(file), "db", 1)
    kind = capture_kind(capture.source)

    for _ in range(2):
        with pytest.raises(UnfitServerError, match=r"lost\.t are not logged"), kind.look(capture):
            pytest.fail("it was taken")
    ((why, hint), *_) = ask_source(capture.source, None).incomplete

    assert "lost.t are not logged" in why
    assert "take binlog_do_db out" in hint


def test_where_all_that_is_wanted_is_logged_a_filter_is_warned_of(filtered: pymysql.Connection) -> None:
    def wanted(table: TableId) -> bool:
        return table.schema == "kept"

    require_whole_log(filtered, wanted)

    (found,) = [each for each in examine_coverage(filtered, wanted) if each.level == "warning"]
    assert "by the database that its session used" in found.message


def test_a_replica_that_does_not_log_what_its_master_sends_is_refused(
    filtered: pymysql.Connection, master: MariadbServer | OracleMysql
) -> None:
    is_mariadb = isinstance(master, MariadbServer)
    word, role = ("MASTER", "SLAVE") if is_mariadb else ("SOURCE", "REPLICA")
    login = f"{word}_HOST = '{master.host}', {word}_PORT = {master.port}, {word}_USER = '{master.user}'"
    to = "MASTER" if is_mariadb else "REPLICATION SOURCE"
    require_whole_log(filtered, lambda table: table.schema == "kept")
    ask(filtered, f"CHANGE {to} TO {login}, {word}_PASSWORD = '{master.password}'")
    ask(filtered, f"START {role}")
    try:
        deadline = time.monotonic() + 30
        while is_mariadb and ask(filtered, "SHOW GLOBAL STATUS LIKE 'Slaves_running'")[0][1] == "0":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with pytest.raises(UnfitServerError, match="this is a replica: what its master sends is not logged") as caught:
            require_whole_log(filtered, lambda table: table.schema == "kept")
    finally:
        ask(filtered, f"STOP {role}")
        ask(filtered, f"RESET {role} ALL")

    assert "or name its master as the source" in caught.value.hint
