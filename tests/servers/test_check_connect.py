"""`penstock check --connect` against real servers."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs
from tests.servers.sessions import log_in
from typer.testing import CliRunner

from penstock.adapters.kafka.cluster import KafkaCluster, create_topics
from penstock.cli.main import app
from penstock.config.load import load
from penstock.core.errors import UsageError
from penstock.embedded.ports import LOOPBACK, free_port
from penstock.wiring.mirror import LinkCondition, Mirror
from penstock.wiring.open import batch_topic, kafka_cluster, open_lock
from penstock.wiring.waiting import wait_for_sources

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.dev.zookeeper import ZookeeperServer
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer


@pytest.fixture
def config(
    tmp_path: Path, mariadb: MariadbServer, kafka: KafkaBroker, fresh_database: str, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A pipeline that all servers are fit for, with one table, `orders`."""
    monkeypatch.setenv("SOURCE_PASSWORD", mariadb.password)
    with (
        log_in(mariadb) as connection,
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
    assert "new topics have one copy" in result.stdout
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


def test_a_missing_select_is_told_with_the_grant_to_make(
    config: Path, mariadb: MariadbServer, fresh_database: str
) -> None:
    with (
        log_in(mariadb) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(f"CREATE OR REPLACE USER blind IDENTIFIED BY '{mariadb.password}'")
        cursor.execute("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO blind")
        cursor.execute(f"CREATE TABLE {fresh_database}.refunds (id INT PRIMARY KEY)")
        config.write_text(config.read_text().replace(f"    user: {mariadb.user}\n", "    user: blind\n"))
        grant = f"GRANT SELECT ON `{fresh_database}`.* TO blind"
        blind = CliRunner().invoke(app, ["check", str(config), "--connect"])
        with pytest.raises(UsageError, match="that blind may see") as refused:
            wait_for_sources(load(config), lambda _: None, wait_seconds=5.0)
        cursor.execute(f"GRANT SELECT ON {fresh_database}.orders TO blind")
        half_blind = CliRunner().invoke(app, ["check", str(config), "--connect"])
        with capture_logs() as logged:
            wait_for_sources(load(config), lambda _: None, wait_seconds=5.0)
        cursor.execute("DROP USER blind")

    assert blind.exit_code == 2, blind.stdout
    assert f"WRONG source shopdb: there is no table {fresh_database}.* that blind may see" in blind.stdout
    assert grant in blind.stdout
    assert grant in refused.value.hint
    assert f"blind may not read all of {fresh_database}.*" in half_blind.stdout
    assert grant in half_blind.stdout
    assert [(event["event"], event["hint"]) for event in logged] == [
        ("tables may be hidden from the source's user", grant)
    ]


def test_a_broker_too_few_is_told(config: Path) -> None:
    config.write_text(config.read_text().replace("kafka: {", "kafka: {replication: 3, "))

    result = CliRunner().invoke(app, ["check", str(config), "--connect"])

    assert result.exit_code == 2
    assert "there are 1 brokers, fewer than kafka.replication, 3" in result.stdout


def test_topics_that_nothing_can_be_written_to_are_told(config: Path, kafka: KafkaBroker, fresh_name: str) -> None:
    config.write_text(config.read_text().replace("shopdb", fresh_name))
    cluster = KafkaCluster(kafka.bootstrap_servers)
    create_topics(cluster, [f"{fresh_name}.shop.orders"], {"min.insync.replicas": "2"}, partitions=1)

    result = CliRunner().invoke(app, ["check", str(config), "--connect"])

    assert result.exit_code == 2
    assert f"topic {fresh_name}.shop.orders has one copy, and min.insync.replicas=2" in " ".join(result.stdout.split())


def test_servers_that_are_away_are_told_with_exit_code_1(config: Path, kafka: KafkaBroker) -> None:
    text = config.read_text().replace(f'"{kafka.bootstrap_servers}"', '"127.0.0.1:1"')
    config.write_text(f"{text}schematizer: {{url: 'http://127.0.0.1:1'}}\nstate: {{url: 'mysql://u@127.0.0.1:1/d'}}\n")

    result = CliRunner().invoke(app, ["check", str(config), "--connect"])

    assert result.exit_code == 1
    assert "WRONG kafka 127.0.0.1:1: " in result.stdout
    assert "WRONG schematizer http://127.0.0.1:1: " in result.stdout
    assert result.stdout.count("WRONG state database: ") == 1
    assert "Traceback" not in result.output


def test_a_lock_in_zookeeper_is_looked_at(config: Path, zookeeper: ZookeeperServer, fresh_name: str) -> None:
    _write_lock(config, f"{zookeeper.address}/{fresh_name}")
    lock = open_lock(load(config))

    free = CliRunner().invoke(app, ["check", str(config), "--connect"])
    lock.acquire(0)
    try:
        taken = CliRunner().invoke(app, ["check", str(config), "--connect"])
    finally:
        lock.release()

    subject = f"lock in zookeeper {zookeeper.address}/{fresh_name}"
    assert (free.exit_code, taken.exit_code) == (0, 0)
    assert f"{subject}: free: this pipeline does not run" in free.stdout
    assert f"{subject}: this pipeline runs: pid {os.getpid()} on " in taken.stdout
    assert "Instances on other machines would not share what is private here (schematizer, state)" in free.stdout


def test_a_zookeeper_that_is_away_is_told_with_exit_code_1(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.adapters.lock.zookeeper_client._CONNECT_SECONDS", 1.0)
    address = f"{LOOPBACK}:{free_port()}"
    _write_lock(config, address)

    checked = CliRunner().invoke(app, ["check", str(config), "--connect"])
    shown = CliRunner().invoke(app, ["status", str(config)])
    told = CliRunner().invoke(app, ["status", str(config), "--json"])

    assert checked.exit_code == 1
    assert f"WRONG lock in zookeeper {address}: ZooKeeper at {address} does not answer" in checked.stdout
    assert (shown.exit_code, told.exit_code) == (0, 0)
    assert f"whether shop is running is not known: ZooKeeper at {address}" in shown.stdout
    assert (json.loads(told.stdout)["running"], json.loads(told.stdout)["holder"]) == (None, None)


def test_status_names_the_leader(config: Path, zookeeper: ZookeeperServer, fresh_name: str) -> None:
    _write_lock(config, f"{zookeeper.address}/{fresh_name}")
    lock = open_lock(load(config))
    lock.acquire(0)

    shown = CliRunner().invoke(app, ["status", str(config)])
    lock.release()
    gone = CliRunner().invoke(app, ["status", str(config)])

    assert f"shop is running (pid {os.getpid()} on {socket.gethostname()} since" in shown.stdout.replace("\n", " ")
    assert "shop is not running" in gone.stdout


def _write_lock(config: Path, place: str) -> None:
    config.write_text(f'{config.read_text()}lock: {{zookeeper: "{place}", session_seconds: 1.5}}\n')


LOOSE = "`columns` names {}.odrers.id, qyt, which no table of the link has now"


def test_a_misspelled_column_or_table_to_hide_is_told_ahead_and_while_the_link_runs(
    config: Path, fresh_database: str
) -> None:
    columns = f"drop: ['{fresh_database}.odrers.id', ID, '!iid'], mask: [qyt, 'q*', {{columns: [qyt]}}]"
    config.write_text(config.read_text().replace("to: warehouse}", f"to: warehouse, columns: {{{columns}}}}}"))
    spec, said = load(config), LOOSE.format(fresh_database)
    create_topics(kafka_cluster(spec), [batch_topic(spec)], {}, partitions=1)

    checked = CliRunner().invoke(app, ["check", str(config), "--connect"])
    until, told = time.monotonic() + 30, ""
    with Mirror(spec, {"shopdb-to-warehouse": LinkCondition("running")}):
        while "shopdb-to-warehouse: a value may come to the target as it is" not in told:
            assert time.monotonic() < until
            told = CliRunner().invoke(app, ["status", str(config)]).stdout

    assert f"link shopdb-to-warehouse, columns: {said}" in checked.stdout
    assert f"what to do: {said}: correct it" in told
