"""A private Kafka broker: one KRaft node, from pinned jars, on loopback.

Settings are those of the Kafka documentation, "Broker Configs" and "KRaft".
"""

from __future__ import annotations

import base64
import os
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from penstock.embedded.class_archive import kafka_archive
from penstock.embedded.jars import JarSet, ensure_jars
from penstock.embedded.java import java
from penstock.embedded.ports import LOOPBACK, choose_port, is_listening
from penstock.embedded.processes import run_to_end, start_child, wait_until_ready
from penstock.embedded.server import OneProcessServer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_START_SECONDS = 120.0
_FORMAT_SECONDS = 120.0
_METADATA_SECONDS = 5.0
_STATES = "__transaction_state-0"
_STOPPED = ".kafka_cleanshutdown"
"""A file that a broker leaves when it is stopped, and takes away when it starts."""
_KILLED = "was-killed"
"""A file of ours that is there until a broker that was killed has been looked at."""

_JVM_OPTIONS = (
    *("-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-Djava.awt.headless=true", "-Dlog4j2.level=WARN"),
    # The second compiler takes up to half of what a quiet broker does in its first minutes, and saves a fifth in bulk.
    *("-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
)

_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{advertised_port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={data}

auto.create.topics.enable=false
default.replication.factor=1
min.insync.replicas=1
# Nothing is thrown away that a stopped pipeline has not read yet.
log.retention.ms=-1
message.max.bytes=16777216
replica.fetch.max.bytes=16777216

# Internal topics: there is only this one node to keep them.
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
transaction.max.timeout.ms=900000
# What a killed publisher left open holds readers up until it is looked for: not for ten seconds more.
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000

# Quick on a small machine.
group.initial.rebalance.delay.ms=0
num.network.threads=2
num.io.threads=4
background.threads=2
log.cleaner.dedupe.buffer.size=16777216
# After kill -9 a restarted broker may register again only when its old session has ended.
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=500
"""

_FLUSHING = "\n# What is acknowledged is on the disk.\nlog.flush.interval.messages=1\n"


@dataclass(frozen=True, slots=True)
class KafkaBroker(OneProcessServer):
    """A running broker."""

    @property
    def bootstrap_servers(self) -> str:
        """What clients call its address."""
        return f"{self.host}:{self.port}"

    def facts(self) -> Mapping[str, str | int]:
        """Address, and the same as clients take it."""
        return {**OneProcessServer.facts(self), "bootstrap_servers": self.bootstrap_servers}


def start_kafka(
    home: Path,
    *,
    port: int | None = None,
    advertised_port: int | None = None,
    class_options: Sequence[str] | None = None,
    flushes: bool = False,
) -> KafkaBroker:
    """Start a broker with its data under `home`; the first start formats it, later ones find the data and port.

    Clients are told to connect to `advertised_port`, where that is another: a proxy's.
    `class_options` tell the broker's JVM where its classes are archived, if that is
    not where they usually are. With `flushes` nothing is acknowledged that is not on the
    disk: a broker that is alone has no other one that remembers it after a power cut.
    After kill -9 transactions that were decided are ended: it may forget to do so itself.
    Raises UsageError without Java or when the port is in use, UnavailableError
    when the jars cannot be fetched.
    """
    home = home.resolve()
    class_path = ["-cp", os.pathsep.join(map(str, ensure_jars(JarSet.KAFKA_BROKER)))]
    archive = kafka_archive().options()
    home.mkdir(parents=True, exist_ok=True)
    chosen = choose_port(home / "port", port)
    settings = home / "server.properties"
    settings.write_text(
        _SETTINGS.format(
            host=LOOPBACK,
            port=chosen,
            advertised_port=advertised_port or chosen,
            controller_port=choose_port(home / "controller-port"),
            data=home / "data",
        )
        + (_FLUSHING if flushes else "")
    )
    log = home / "kafka.log"
    if not (home / "data" / "meta.properties").exists():
        tool = ["kafka.tools.StorageTool", "format", "--ignore-formatted", f"--cluster-id={_new_cluster_id()}"]
        command = [java(), *_JVM_OPTIONS, *archive, *class_path, *tool, "-c", str(settings)]
        run_to_end("Kafka's StorageTool", command, log, _FORMAT_SECONDS)
    options = archive if class_options is None else class_options
    if (home / "data" / _STATES).exists() and not (home / "data" / _STOPPED).exists():
        (home / _KILLED).touch()
    child = start_child("Kafka", [java(), *_JVM_OPTIONS, *options, *class_path, "kafka.Kafka", str(settings)], log)
    wait_until_ready(child, lambda: _answers(chosen), _START_SECONDS)
    if (home / _KILLED).exists():
        from penstock.wiring.embedded_broker import end_transactions  # noqa: PLC0415 - it takes a second, seldom used

        if end_transactions(f"{LOOPBACK}:{chosen}"):
            (home / _KILLED).unlink()
    return KafkaBroker(chosen, home, child)


def _new_cluster_id() -> str:
    """A random id in Kafka's own form: 16 bytes in URL-safe base 64, no padding."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


def _answers(port: int) -> bool:
    """Whether the broker lists itself in its cluster, which it does once it takes requests."""
    if not is_listening(port):
        return False
    client = AdminClient({"bootstrap.servers": f"{LOOPBACK}:{port}", "log_level": 0})
    try:
        return len(client.list_topics(timeout=_METADATA_SECONDS).brokers) == 1
    except KafkaException:
        return False
