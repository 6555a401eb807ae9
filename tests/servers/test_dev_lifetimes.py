"""Servers never outlive the process that started them, however that ends, and their data outlives them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.servers.sessions import log_in

from penstock.embedded.kafka import start_kafka
from penstock.embedded.mariadb import MariadbServer, start_mariadb
from penstock.embedded.ports import is_listening

if TYPE_CHECKING:
    from collections.abc import Callable

_OWNER = """
import sys, threading, time
from pathlib import Path
from penstock.{module} import {function}

def start():
    server = {function}(Path(sys.argv[1]))
    print(server.pid, server.port, flush=True)

# A thread that ends at once: the server must stay for as long as the process does.
thread = threading.Thread(target=start)
thread.start()
thread.join()
time.sleep(600)
"""
_GONE_SECONDS = 5.0


@pytest.mark.parametrize(
    ("module", "function"),
    [
        ("embedded.mariadb", "start_mariadb"),
        ("embedded.kafka", "start_kafka"),
        ("embedded.schematizer", "start_schematizer"),
        pytest.param("dev.spark", "start_spark", marks=pytest.mark.nightly),
        pytest.param("dev.zookeeper", "start_zookeeper", marks=pytest.mark.nightly),
        pytest.param("dev.s3", "start_s3", marks=pytest.mark.nightly),
        pytest.param("dev.redshift", "start_redshift", marks=pytest.mark.nightly),
        pytest.param("embedded.mysql", "start_mysql", marks=pytest.mark.nightly),
    ],
)
def test_a_server_is_gone_soon_after_its_owner_is_killed(
    request: pytest.FixtureRequest, tmp_path: Path, module: str, function: str
) -> None:
    if module == "embedded.mysql":
        request.getfixturevalue("mysql_package")
    script = _OWNER.format(module=module, function=function)
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid, port = map(int, owner.stdout.readline().split())
        # Longer than the thread that started it lived.
        time.sleep(0.5)
        was_there = is_listening(port)

        owner.send_signal(signal.SIGKILL)

    assert was_there
    # The port too: a process may seem gone while its other threads still end.
    _wait_until(lambda: not _exists(pid) and not is_listening(port))


def test_ctrl_c_in_the_owners_terminal_does_not_reach_a_server(mariadb: MariadbServer) -> None:
    assert os.getsid(mariadb.pid) == mariadb.pid


def test_mariadb_keeps_rows_and_port_across_kill_9(tmp_path: Path) -> None:
    with start_mariadb(tmp_path) as server:
        _execute(server, "CREATE DATABASE kept", "CREATE TABLE kept.t (id INT PRIMARY KEY)", "INSERT kept.t VALUES (7)")
        server.kill()

    with start_mariadb(tmp_path) as again:
        assert again.port == server.port
        assert _execute(again, "SELECT id FROM kept.t") == [(7,)]


def test_a_source_writes_whole_rows_with_their_columns_names_into_its_binlog(mariadb: MariadbServer) -> None:
    settings = _execute(
        mariadb, "SELECT @@log_bin, @@binlog_format, @@binlog_row_image, @@binlog_row_metadata, @@gtid_strict_mode"
    )

    assert settings == [(1, "ROW", "FULL", "FULL", 1)]


def test_a_tracker_writes_no_binlog(tracker_server: MariadbServer) -> None:
    assert _execute(tracker_server, "SELECT @@log_bin") == [(0,)]


def test_a_binlog_rotates_where_it_is_told_to(tmp_path: Path) -> None:
    with start_mariadb(tmp_path, max_binlog_size_bytes=4096) as server:
        _execute(server, "CREATE DATABASE rotating", "CREATE TABLE rotating.t (filling VARCHAR(2000))")
        _execute(server, *["INSERT rotating.t VALUES (REPEAT('x', 2000))"] * 5)

        assert len(_execute(server, "SHOW BINARY LOGS")) > 2


@pytest.mark.nightly
def test_kafka_keeps_messages_and_port_across_kill_9(tmp_path: Path) -> None:
    with start_kafka(tmp_path) as broker:
        admin = AdminClient(_client(broker.bootstrap_servers))
        admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(30)
        producer = Producer(_client(broker.bootstrap_servers) | {"acks": "all"})
        producer.produce("kept", b"seven")
        assert producer.flush(10) == 0
        broker.kill()

    with start_kafka(tmp_path) as again:
        assert again.port == broker.port
        assert _first_message(again.bootstrap_servers, "kept") == b"seven"


def _client(bootstrap_servers: str) -> dict[str, str | int | float | bool]:
    # Silent, because these clients see their broker killed.
    return {"bootstrap.servers": bootstrap_servers, "log_level": 0}


def _first_message(bootstrap_servers: str, topic: str) -> bytes | None:
    consumer = Consumer(_client(bootstrap_servers) | {"group.id": "reader", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(30)
        return message.value() if message is not None else None
    finally:
        consumer.close()


def _execute(server: MariadbServer, *statements: str) -> list[tuple[object, ...]]:
    connection = log_in(server)
    with connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def _exists(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    # A zombie that init has not collected yet no longer runs.
    return state != "Z"


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _GONE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
