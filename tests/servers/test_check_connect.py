"""`penstock check --connect` against real servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pymysql
import pytest
from typer.testing import CliRunner

from penstock.cli.main import app

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.dev.kafka import KafkaBroker
    from penstock.dev.mariadb import MariadbServer


@pytest.fixture
def config(
    tmp_path: Path, mariadb: MariadbServer, kafka: KafkaBroker, fresh_database: str, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A pipeline that all servers are fit for, with one table, `orders`."""
    monkeypatch.setenv("SOURCE_PASSWORD", mariadb.password)
    with (
        pymysql.connect(
            host=mariadb.host, port=mariadb.port, user=mariadb.user, password=mariadb.password, connect_timeout=10
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(f"CREATE TABLE {fresh_database}.orders (id INT PRIMARY KEY)")
    file = tmp_path / "shop.yaml"
    file.write_text(f"""\
pipeline: shop
kafka: {{bootstrap_servers: "{kafka.bootstrap_servers}"}}
tracker: {{host: {mariadb.host}, port: {mariadb.port}, user: {mariadb.user}, password_env: SOURCE_PASSWORD}}
objects: {{url: "{(tmp_path / "objects").as_uri()}"}}
sources:
  - name: shopdb
    kind: mysql
    host: {mariadb.host}
    port: {mariadb.port}
    user: {mariadb.user}
    password_env: SOURCE_PASSWORD
    tables: ["{fresh_database}.*"]
sinks:
  - {{name: warehouse, kind: duckdb, path: ./warehouse.duckdb}}
links:
  - {{from: shopdb, to: warehouse}}
""")
    return file


def test_servers_that_are_fit_are_all_well(config: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(config), "--connect"])

    assert result.exit_code == 0, result.stdout
    assert "WRONG" not in result.stdout
    assert "source shopdb, binlog_format: ROW" in result.stdout
    assert "answers with 1 broker(s)" in result.stdout
    assert "All is well. To start it: penstock run" in result.stdout


def test_a_wrong_password_is_told_with_exit_code_2(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_PASSWORD", "not this one")

    result = CliRunner().invoke(app, ["check", str(config), "--connect"])

    assert result.exit_code == 2
    assert "Access denied" in result.stdout
    assert "not this one" not in result.stdout


def test_a_secret_that_is_not_set_is_one_finding_among_others(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_PASSWORD")

    result = CliRunner().invoke(app, ["check", str(config), "--connect"])

    assert result.exit_code == 2
    assert "WRONG source shopdb: the environment variable SOURCE_PASSWORD is not set" in result.stdout
    assert "answers with 1 broker(s)" in result.stdout


def test_a_table_that_is_not_there_is_named(config: Path, fresh_database: str) -> None:
    text = config.read_text()
    config.write_text(text.replace(f'"{fresh_database}.*"', f'"{fresh_database}.orders", "{fresh_database}.odrers"'))

    result = CliRunner().invoke(app, ["check", str(config), "--connect"])

    assert result.exit_code == 2
    assert f"WRONG source shopdb: there is no table {fresh_database}.odrers" in result.stdout


def test_a_broker_too_few_is_told(config: Path) -> None:
    config.write_text(config.read_text().replace("kafka: {", "kafka: {replication: 3, "))

    result = CliRunner().invoke(app, ["check", str(config), "--connect"])

    assert result.exit_code == 2
    assert "there are 1 brokers, fewer than kafka.replication, 3" in result.stdout


def test_servers_that_are_away_are_told_with_exit_code_1(config: Path, kafka: KafkaBroker) -> None:
    text = config.read_text().replace(f'"{kafka.bootstrap_servers}"', '"127.0.0.1:1"')
    config.write_text(f"{text}schematizer: {{url: 'http://127.0.0.1:1'}}\nstate: {{url: 'mysql://u@127.0.0.1:1/d'}}\n")

    result = CliRunner().invoke(app, ["check", str(config), "--connect"])

    assert result.exit_code == 1
    assert "WRONG kafka 127.0.0.1:1: " in result.stdout
    assert "WRONG schematizer http://127.0.0.1:1: " in result.stdout
    assert "WRONG state database: " in result.stdout
    assert "Traceback" not in result.output
