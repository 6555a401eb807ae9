"""Whether a cluster keeps what it has acknowledged: copies of topics, and how many of them an answer waits for.

Source: Apache Kafka documentation, "Topic Configs", min.insync.replicas: a write
with acks=all, as all of ours are, waits for the replicas that are in sync, of
which there must be that many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from penstock.adapters.kafka.cluster import explain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.adapters.kafka.cluster import KafkaCluster

_SETTING = "min.insync.replicas"
_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Durability:
    """How many `copies` of `what` (a topic, or new topics) there are, and how many a write waits for at least."""

    what: str
    copies: int
    in_sync_min: int


@dataclass(frozen=True, slots=True)
class Weakness:
    """What may be lost, or cannot be written at all (an error), and what to do about it."""

    level: Literal["warning", "error"]
    message: str
    hint: str


def read_durability(cluster: KafkaCluster, prefixes: Sequence[str]) -> Sequence[Durability]:
    """Read how new topics of ours are kept, and the topics that there are with one of `prefixes`.

    Raises UnavailableError if the cluster does not answer, PenstockError if we may not ask.
    """
    admin = AdminClient(cluster.client_settings())
    try:
        known = admin.list_topics(timeout=_TIMEOUT_SECONDS)
        topics = sorted(name for name in known.topics if name.startswith(tuple(prefixes)))
        broker = ConfigResource(ResourceType.BROKER, str(min(known.brokers)))
        resources = [broker, *(ConfigResource(ResourceType.TOPIC, topic) for topic in topics)]
        answers = admin.describe_configs(resources, request_timeout=_TIMEOUT_SECONDS)
        settings = {resource.name: answer.result() for resource, answer in answers.items()}
    except KafkaException as error:
        raise explain(error, "being asked how it keeps topics") from error
    found = [Durability("new topics", cluster.replication, int(settings[broker.name][_SETTING].value))]
    for topic in topics:
        copies = min(len(part.replicas) for part in known.topics[topic].partitions.values())
        found.append(Durability(f"topic {topic}", copies, int(settings[topic][_SETTING].value)))
    return found


def judge(durability: Durability) -> Weakness | None:
    """Say what is wrong with it; None if nothing is."""
    what, copies, in_sync_min = durability.what, durability.copies, durability.in_sync_min
    have = "have" if what == "new topics" else "has"
    counted = "one copy" if copies == 1 else f"{copies} copies"
    if in_sync_min > copies:
        message = f"{what} {have} {counted}, and {_SETTING}={in_sync_min}: nothing can be written"
        return Weakness("error", message, f"lower {_SETTING}, or raise kafka.replication and the copies of topics")
    if copies == 1:
        message = f"{what} {have} {counted}: a broker that loses its disk loses rows that were acknowledged"
        return Weakness("warning", message, "run three brokers, with kafka.replication: 3; topics keep what they have")
    if in_sync_min == 1:
        message = f"{what} {have} {counted}, but {_SETTING}=1: a write may be on one broker only, and lost with it"
        return Weakness("warning", message, f"set {_SETTING}=2 on the brokers, and on topics that set it themselves")
    return None
