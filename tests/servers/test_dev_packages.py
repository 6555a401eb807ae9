"""Servers of other Debian releases run from a private directory, or say why they cannot be had."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.sessions import log_in

from penstock.config.load import parse
from penstock.core.errors import UsageError
from penstock.embedded.debian import DebianPackage, ensure_prefix
from penstock.embedded.mysql import OracleMysql, start_mysql
from penstock.embedded.ports import is_listening
from penstock.embedded.tracker import examine_tracker, start_tracker

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.config.specs import PipelineSpec
    from penstock.embedded.mariadb import MariadbServer

_NOWHERE = "http://127.0.0.1:1/debian"


def ask(server: MariadbServer | OracleMysql, *statements: str) -> list[tuple[object, ...]]:
    with (
        closing(log_in(server)) as connection,
        connection.cursor() as cursor,
    ):
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def dev(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock.cli.main", "dev", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment}
    )


def test_mysql_is_a_source_with_whole_rows_and_gtids(mysql_server: OracleMysql) -> None:
    settings = ask(
        mysql_server,
        "SELECT @@log_bin, @@binlog_format, @@binlog_row_image, @@binlog_row_metadata, @@gtid_mode, @@version",
    )

    *found, version = settings[0]
    assert found == [1, "ROW", "FULL", "FULL", "ON"]
    assert "MariaDB" not in str(version)


def test_the_newer_mariadb_knows_vectors(newer_mariadb: MariadbServer) -> None:
    assert ask(newer_mariadb, "SELECT VEC_ToText(VEC_FromText('[1,2]')), @@log_bin, @@binlog_row_metadata") == [
        ("[1,2]", 1, "FULL")
    ]


@pytest.mark.nightly
def test_mysql_keeps_rows_and_port_across_kill_9(tmp_path: Path, mysql_package: DebianPackage) -> None:
    del mysql_package
    with start_mysql(tmp_path) as server:
        ask(server, "CREATE DATABASE kept", "CREATE TABLE kept.t (id INT PRIMARY KEY)", "INSERT kept.t VALUES (7)")
        server.kill()

    with start_mysql(tmp_path) as again:
        assert again.port == server.port
        assert ask(again, "SELECT id FROM kept.t") == [(7,)]


@pytest.mark.nightly
def test_mysql_runs_from_up_to_down(tmp_path: Path, mysql_package: DebianPackage) -> None:
    del mysql_package
    home = ("--home", str(tmp_path / "dev"))
    up = dev({}, "up", "mysql", *home, "--json")
    facts = json.loads(up.stdout)["mysql"]
    status = dev({}, "status", "mysql", *home, "--json")
    was_there = is_listening(facts["port"])

    down = dev({}, "down", *home)

    assert json.loads(status.stdout)["mysql"] == facts
    assert was_there
    assert "mysql: stopped" in down.stdout
    assert not is_listening(facts["port"])


def test_without_a_mirror_mysql_ends_up_with_exit_code_2(tmp_path: Path) -> None:
    elsewhere = {"XDG_CACHE_HOME": str(tmp_path), "PENSTOCK_DEBIAN_MIRROR": _NOWHERE}

    up = dev(elsewhere, "up", "mysql", "--home", str(tmp_path / "dev"))

    assert up.returncode == 2
    assert "mysql-server-core of Debian sid cannot be had on this machine" in up.stderr
    assert _NOWHERE in up.stderr


@pytest.mark.nightly
def test_the_tracker_of_a_mysql_source_is_a_mysql(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mysql_server: OracleMysql
) -> None:
    spec = pipeline(monkeypatch, tmp_path, mysql_server)
    said: list[str] = []

    assert examine_tracker(spec, spec.mysql_sources[0]).startswith("MySQL")
    with start_tracker(spec, spec.mysql_sources[0], said.append) as tracker:
        assert isinstance(tracker, OracleMysql)
        version = ask(tracker, "SELECT @@version, @@log_bin")

    assert said == []
    assert version == ask(mysql_server, "SELECT @@version, 0")


def test_without_a_mirror_the_tracker_of_a_mysql_source_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mysql_server: OracleMysql
) -> None:
    spec = pipeline(monkeypatch, tmp_path, mysql_server)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PENSTOCK_DEBIAN_MIRROR", _NOWHERE)

    with pytest.raises(UsageError, match="the schema tracker of a MySQL source is a MySQL too") as caught:
        start_tracker(spec, spec.mysql_sources[0], print)

    assert "tracker: {host: ..., user: ..., password_env: ...}" in caught.value.hint


def pipeline(monkeypatch: pytest.MonkeyPatch, directory: Path, source: OracleMysql) -> PipelineSpec:
    monkeypatch.setenv("SOURCE_PASSWORD", source.password)
    where = f"host: {source.host}, port: {source.port}, user: {source.user}, password_env: SOURCE_PASSWORD"
    return parse(f"pipeline: p\nsources: [{{name: s, kind: mysql, {where}, tables: [a.*]}}]\n", "p.yaml", directory)


def test_without_apt_that_is_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UsageError, match="there is no apt-get on this machine"):
        ensure_prefix(DebianPackage("sid", "mysql-server-core"))


@pytest.mark.nightly
def test_a_package_that_the_release_lacks_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mysql_package: DebianPackage
) -> None:
    # That the mirror can be reached is what the package in the cache shows.
    del mysql_package
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    with pytest.raises(UsageError, match="no-such-server of Debian trixie cannot be had on this machine"):
        ensure_prefix(DebianPackage("trixie", "no-such-server"))

    assert [path for path in (tmp_path / "penstock" / "debian").iterdir() if path.is_dir()] == []
