"""Publishing to brokers that encrypt, and that want to know who it is."""

from __future__ import annotations

import os
import re
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaException
from tests.servers.certificates import Authority, authority

from penstock.adapters.kafka.cluster import KafkaCluster, explain
from penstock.adapters.kafka.producer import TransactionalProducer
from penstock.adapters.kafka.publisher import TransactionalPublisher
from penstock.core.changes import Messages
from penstock.embedded.class_archive import kafka_archive
from penstock.embedded.jars import JarSet, ensure_jars
from penstock.embedded.java import java
from penstock.embedded.kafka import _JVM_OPTIONS as FRUGAL
from penstock.embedded.kafka import _new_cluster_id
from penstock.embedded.ports import choose_port, is_listening
from penstock.embedded.processes import run_to_end, start_child, wait_until_ready

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.embedded.kafka import KafkaBroker

PASSWORD = "secret=1"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_LISTENERS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class Guarded:
    """A broker with a listener for each way of logging in; `ports` are theirs by protocol."""

    ports: dict[str, int]
    trusted: Authority

    def cluster(self, protocol: str, **login: str) -> KafkaCluster:
        options = {"security.protocol": protocol}
        if protocol.endswith("SSL"):
            options["ssl.ca.location"] = login.pop("ca", self.trusted.ca)
        if protocol.startswith("SASL"):
            options |= {
                "sasl.mechanism": login["mechanism"],
                "sasl.username": login.get("user", "alice"),
                "sasl.password": login.get("password", PASSWORD),
            }
        return KafkaCluster(f"127.0.0.1:{self.ports[protocol]}", login=tuple(options.items()))


@pytest.fixture(scope="module")
def guarded(kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    home = tmp_path_factory.mktemp("guarded")
    trusted = authority(home / "ca")
    certificate, key = trusted.sign("broker", "IP:127.0.0.1")
    names = ["PLAINTEXT", "CONTROLLER", *_LISTENERS]
    ports = {name: choose_port(home / f"{name}.port") for name in names}
    settings = home / "server.properties"
    settings.write_text(properties(kafka, home, ports, (certificate, key)))
    class_path = os.pathsep.join(map(str, ensure_jars(JarSet.KAFKA_BROKER)))
    run_class = [java(), "-Xmx256m", *FRUGAL, *kafka_archive().options(), "-cp", class_path]
    tool = [*run_class, "kafka.tools.StorageTool"]
    cluster_id = _new_cluster_id()
    users = [f"--add-scram=SCRAM-SHA-{bits}=[name=alice,password={PASSWORD}]" for bits in (256, 512)]
    run_to_end("StorageTool", [*tool, "format", "-t", cluster_id, "-c", str(settings), *users], home / "log", 120.0)
    child = start_child("Kafka", [*run_class, "kafka.Kafka", str(settings)], home / "log")
    try:
        wait_until_ready(child, lambda: is_listening(ports["SASL_SSL"]), 120.0)
        yield Guarded(ports, trusted)
    finally:
        child.kill()


def properties(kafka: KafkaBroker, home: Path, ports: dict[str, int], signed: tuple[str, str]) -> str:
    """The settings of the broker of all tests, with more listeners."""
    text = (kafka.home / "server.properties").read_text()
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    advertised = ",".join(each for each in listeners.split(",") if not each.startswith("CONTROLLER"))
    for name, value in {
        "controller.quorum.voters": f"1@127.0.0.1:{ports['CONTROLLER']}",
        "listeners": listeners,
        "advertised.listeners": advertised,
        "listener.security.protocol.map": ",".join(f"{name}:{security_of(name)}" for name in ports),
        "log.dirs": f"{home}/data",
    }.items():
        text = re.sub(rf"(?m)^{re.escape(name)}=.*", f"{name}={value}", text)
    chain = home / "chain.pem"
    chain.write_text("".join(Path(file).read_text() for file in reversed(signed)))
    lines = [
        text,
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={chain}",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    ]
    for name in ("sasl_plaintext", "sasl_ssl"):
        lines.append(f'listener.name.{name}.plain.sasl.jaas.config={_PLAIN} user_alice="{PASSWORD}";')
        lines += [f"listener.name.{name}.scram-sha-{bits}.sasl.jaas.config={_SCRAM}" for bits in (256, 512)]
    return "\n".join(lines) + "\n"


def security_of(listener: str) -> str:
    return "PLAINTEXT" if listener == "CONTROLLER" else listener


LOGINS = [
    ("SSL", {}),
    *((protocol, {"mechanism": mechanism}) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS),
]


@pytest.mark.parametrize(("protocol", "login"), LOGINS, ids=str)
def test_messages_and_record_are_published_however_one_logs_in(
    guarded: Guarded, protocol: str, login: dict[str, str]
) -> None:
    pipeline, values = uuid4().hex, pa.array([b"%d" % number for number in range(20_000)])
    messages = Messages(f"{pipeline}.t", values, values, np.arange(len(values)))

    with closing(TransactionalPublisher(guarded.cluster(protocol, **login), pipeline, "link")) as publisher:
        publisher.publish([messages], partial(dict, number=1))
        publisher.settle()

        assert (publisher.position() or {})["number"] == 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told_as_that(guarded: Guarded, mechanism: str) -> None:
    with pytest.raises(KafkaException, match=r"[Aa]uthentication failed") as caught:
        TransactionalProducer(guarded.cluster("SASL_SSL", mechanism=mechanism, password="wrong"), "id", 60.0)

    assert explain(caught.value, "logging in").hint == "check user, password and mechanism of kafka.security"


def test_a_broker_whose_certificate_nobody_trusts_is_told_as_that(guarded: Guarded, tmp_path: Path) -> None:
    stranger = authority(tmp_path / "ca")

    with pytest.raises(KafkaException, match="certificate verify failed") as caught:
        TransactionalProducer(guarded.cluster("SSL", ca=stranger.ca), "id", 60.0)

    assert "check ca_file of kafka.security" in explain(caught.value, "connecting").hint


def test_a_mechanism_that_the_broker_does_not_know_is_told_with_those_that_it_does(guarded: Guarded) -> None:
    with pytest.raises(KafkaException, match=r"logs in by .*SCRAM-SHA-512.*, and not by GSSAPI"):
        TransactionalProducer(guarded.cluster("SASL_PLAINTEXT", mechanism="GSSAPI"), "id", 60.0)
