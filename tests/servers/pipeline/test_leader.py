"""Two instances of a pipeline with its lock in ZooKeeper: one leads, one waits, and the leader falls asleep."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from tests.servers.sessions import log_in

from penstock.adapters.lock.zookeeper import ZookeeperLock
from penstock.adapters.lock.zookeeper_client import ZookeeperPlace
from penstock.dev.zookeeper import start_zookeeper
from penstock.wiring.tether import tethered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

_SESSION_SECONDS = 2.0
_READ_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Instance:
    """One `penstock run`, in a session of its own, so that all of its processes can be found."""

    process: subprocess.Popen[bytes]
    log: Path

    def says(self, words: str) -> bool:
        return words in self.log.read_text()

    def signal_all(self, number: int) -> None:
        """Send a signal to every process: the driver, Spark's JVM and its Python workers, which have a group each."""
        for pid in self.pids():
            # The first to wake may have ended others by now.
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def pids(self) -> list[int]:
        listed = subprocess.run(["/bin/ps", "-eo", "pid=,sess="], capture_output=True, text=True, check=True).stdout
        return [int(pid) for pid, session in map(str.split, listed.splitlines()) if int(session) == self.process.pid]


class Writer:
    """Inserts rows with rising ids, one transaction each, until told to stop."""

    def __init__(self, server: MariadbServer, database: str) -> None:
        self.rows = 0
        self._server = server
        self._database = database
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with closing(log_in(self._server, self._database)) as connection, connection.cursor() as cursor:
            while not self._stop.wait(0.02):
                cursor.execute(f"INSERT INTO numbers VALUES ({self.rows + 1}, 'x')")
                self.rows += 1


@pytest.fixture
def start_instance(
    tmp_path: Path,
    mariadb: MariadbServer,
    tracker_server: MariadbServer,
    kafka: KafkaBroker,
    schematizer: str,
    fresh_database: str,
) -> Iterator[Callable[..., Instance]]:
    """Start an instance with a home of its own, whose lock is in the ZooKeeper at `address`."""
    started: list[Instance] = []
    login = {"host": mariadb.host, "port": mariadb.port, "user": mariadb.user, "password_env": "CASE_PASSWORD"}

    def start(name: str, address: str, *options: str) -> Instance:
        config = {
            "pipeline": fresh_database,
            "home": str(tmp_path / name),
            "lock": {"zookeeper": f"{address}/cdc/shop", "session_seconds": _SESSION_SECONDS},
            "kafka": {"bootstrap_servers": kafka.bootstrap_servers},
            "schematizer": {"url": schematizer},
            "state": {"url": f"sqlite:///{tmp_path / 'state.db'}"},
            "tracker": {**login, "port": tracker_server.port},
            "objects": {"url": (tmp_path / "objects").as_uri()},
            "sources": [
                {"name": "db", "kind": "mysql", **login, "tables": [f"{fresh_database}.*"], "start": "snapshot"}
            ],
        }
        file, log = tmp_path / f"{name}.yaml", tmp_path / f"{name}.log"
        file.write_text(yaml.safe_dump(config))
        with log.open("wb") as output:
            process = subprocess.Popen(
                tethered([sys.executable, "-m", "penstock", "run", str(file), "--only", "db", *options]),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        started.append(Instance(process, log))
        return started[-1]

    yield start
    for instance in started:
        instance.signal_all(signal.SIGKILL)
        instance.process.wait(30)


@pytest.mark.timeout(400)
def test_a_leader_that_slept_while_another_took_over_publishes_nothing_when_it_wakes(
    tmp_path: Path,
    start_instance: Callable[..., Instance],
    mariadb: MariadbServer,
    kafka: KafkaBroker,
    fresh_database: str,
) -> None:
    _execute(mariadb, fresh_database, "CREATE TABLE numbers (id INT PRIMARY KEY, word VARCHAR(10) NOT NULL)")
    topic, positions = f"db.{fresh_database}.numbers", f"penstock.{fresh_database}.position.db"
    with start_zookeeper(tmp_path / "zookeeper") as zookeeper:
        first = start_instance("first", zookeeper.address)
        lock = ZookeeperLock(ZookeeperPlace(zookeeper.address, "/cdc/shop", _SESSION_SECONDS), fresh_database)
        _wait_for(lambda: lock.holder().startswith(f"pid {first.process.pid} on "))
        second = start_instance("second", zookeeper.address, "--standby")
        _wait_for(lambda: second.says(f"standing by: another instance of pipeline {fresh_database} runs (pid"))
        _wait_for(lambda: _epoch(kafka, positions) == 1)
        with Writer(mariadb, fresh_database) as writer:
            _wait_for(lambda: len(_read(kafka, topic)) > 50)
            first.signal_all(signal.SIGSTOP)
            _wait_for(lambda: _epoch(kafka, positions) == 2)
            first.signal_all(signal.SIGCONT)
            slept = first.process.wait(30)
        _wait_for(lambda: len(_read(kafka, topic)) >= writer.rows)
        zookeeper.kill()
        orphaned = second.process.wait(30)

    assert (slept, orphaned) == (1, 1)
    assert first.says(f"this instance of pipeline {fresh_database} no longer leads: ")
    assert second.says(f"{fresh_database} no longer leads: the connection to ZooKeeper at {zookeeper.address} was lost")
    _wait_for(lambda: not first.pids() and not second.pids(), seconds=10)
    # Keys, of which each row has one of its own.
    keys = _read(kafka, topic)
    assert len(set(keys)) == len(keys) == writer.rows
    # Whoever reads uncommitted sees the same order: nothing of the first one's came after the second one's.
    epochs = [json.loads(value)["epoch"] for value in _read(kafka, positions, part="value", level="read_uncommitted")]
    assert epochs == sorted(epochs)
    assert set(epochs) == {1, 2}


def _epoch(kafka: KafkaBroker, positions: str) -> int:
    records = _read(kafka, positions, part="value")
    return int(json.loads(records[-1])["epoch"]) if records else 0


def _read(kafka: KafkaBroker, topic: str, part: str = "key", level: str = "read_committed") -> list[bytes]:
    """The keys or values of a topic's one partition, as any Kafka client sees them; none if there is no topic."""
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": "outside",
        "isolation.level": level,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 20,
        "log_level": 0,
    }
    found: list[bytes] = []
    consumer = Consumer(settings)
    try:
        if consumer.list_topics(timeout=_READ_SECONDS).topics.get(topic) is None:
            return []
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + _READ_SECONDS
        end = _end(consumer, TopicPartition(topic, 0), deadline)
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                # Its end was reached, which may never be where somebody writes all the time.
                return found
            found.append((message.value() if part == "value" else message.key()) or b"")
            if (message.offset() or 0) >= end - 1:
                return found
    finally:
        consumer.close()
    text = f"{topic} has no end"
    raise AssertionError(text)


def _end(consumer: Consumer, partition: TopicPartition, deadline: float) -> int:
    """The offset behind the last message; a topic that was just made is listed before its leader knows of it."""
    while True:
        try:
            return int(consumer.get_watermark_offsets(partition, timeout=_READ_SECONDS)[1])
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _execute(server: MariadbServer, database: str, statement: str) -> None:
    with closing(log_in(server, database)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)


def _wait_for(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
