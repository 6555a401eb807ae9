"""Two brokers, of which one goes away: what needs both waits, says why, and is neither lost nor written twice."""

from __future__ import annotations

import os
import re
from contextlib import closing
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from penstock.adapters.kafka import producer
from penstock.adapters.kafka.cluster import KafkaCluster
from penstock.adapters.kafka.publisher import TransactionalPublisher
from penstock.adapters.kafka.reader import TopicReader
from penstock.core.changes import Messages
from penstock.core.errors import UnavailableError
from penstock.embedded.class_archive import kafka_archive
from penstock.embedded.jars import JarSet, ensure_jars
from penstock.embedded.java import java
from penstock.embedded.kafka import _JVM_OPTIONS as FRUGAL
from penstock.embedded.kafka import start_kafka
from penstock.embedded.ports import choose_port
from penstock.embedded.processes import Child, run_to_end, start_child, wait_until_ready

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker


def start_second(first: KafkaBroker, home: Path) -> Child:
    """Start another broker of the cluster; the first one controls it."""
    class_path = os.pathsep.join(map(str, ensure_jars(JarSet.KAFKA_BROKER)))
    run_class = [java(), "-Xmx256m", *FRUGAL, *kafka_archive().options(), "-cp", class_path]
    home.mkdir(exist_ok=True)
    port, settings = choose_port(home / "port"), home / "server.properties"
    text = (first.home / "server.properties").read_text()
    text = re.sub(r"(?m)^process\.roles=.*", "process.roles=broker", text)
    text = re.sub(r"(?m)^node\.id=.*", "node.id=2", text)
    text = re.sub(r"(?m)^listeners=.*", f"listeners=PLAINTEXT://127.0.0.1:{port}", text)
    text = re.sub(r"(?m)^advertised.listeners=.*", f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}", text)
    settings.write_text(re.sub(r"(?m)^log\.dirs=.*", f"log.dirs={home}/data", text))
    meta = (first.home / "data" / "meta.properties").read_text()
    (cluster_id,) = re.findall(r"(?m)^cluster\.id=(.*)$", meta)
    tool = [
        "kafka.tools.StorageTool",
        "format",
        "--ignore-formatted",
        f"--cluster-id={cluster_id}",
        "-c",
        str(settings),
    ]
    run_to_end("StorageTool", [*run_class, *tool], home / "kafka.log", 120.0)
    child = start_child("Kafka", [*run_class, "kafka.Kafka", str(settings)], home / "kafka.log")
    wait_until_ready(child, lambda: brokers(first) == 2, 120.0)
    return child


def brokers(first: KafkaBroker) -> int:
    return len(AdminClient({"bootstrap.servers": first.bootstrap_servers}).list_topics(timeout=10).brokers)


def messages(topic: str, number: int) -> Messages:
    values = pa.array([str(number).encode()], pa.binary())
    return Messages(topic, values, values, np.zeros(1, np.int64))


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_topic_short_of_replicas_is_named_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start_kafka(tmp_path / "first") as first:
        # Kafka's own topic of transactions has one replica here, which has to be on the broker that stays.
        TransactionalPublisher(KafkaCluster(first.bootstrap_servers), uuid4().hex, "db").close()
        second = start_second(first, tmp_path / "second")
        cluster, pipeline = KafkaCluster(first.bootstrap_servers, replication=2), uuid4().hex
        topic = f"{pipeline}.t"
        admin = AdminClient(cluster.client_settings())
        config = {"min.insync.replicas": "2"}
        for future in admin.create_topics([NewTopic(topic, 1, 2, config=config)]).values():
            future.result(30)
        with closing(TransactionalPublisher(cluster, pipeline, "db")) as publisher:
            publisher.publish([messages(topic, 1)], lambda: {"n": 1})
            second.kill()
            wait_until_ready(first.child, lambda: brokers(first) == 1, 60.0)

            with monkeypatch.context() as patched:
                # Nobody mends it, however long one tries.
                patched.setattr(producer, "REQUEST_TIMEOUT_SECONDS", 3.0)
                with pytest.raises(UnavailableError) as caught:
                    publisher.publish([messages(topic, 2)], lambda: {"n": 2})

        assert f"{topic}/0 has 1 of its 2 replicas in sync, and min.insync.replicas=2" in caught.value.message
        second = start_second(first, tmp_path / "second")
        try:
            again = open_patiently(cluster, pipeline)
            with closing(again), closing(TopicReader(cluster)) as reader:
                record = again.position() or {}
                for number in range(int(str(record["n"])) + 1, 4):
                    again.publish([messages(topic, number)], lambda number=number: {"n": number})  # type: ignore[misc]
                again.settle()
                end = reader.ends([(topic, 0)])[topic, 0]
                found = [value for part in reader.read(topic, 0, 0, end) for _, value in part]
            assert found == [b"1", b"2", b"3"]
        finally:
            second.kill()


def open_patiently(cluster: KafkaCluster, pipeline: str) -> TransactionalPublisher:
    """Open as the supervisor does: what is unavailable is tried again."""
    for _ in range(5):
        try:
            return TransactionalPublisher(cluster, pipeline, "db")
        except UnavailableError:
            continue
    return TransactionalPublisher(cluster, pipeline, "db")
