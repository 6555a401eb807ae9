"""Whether a cluster keeps what it has acknowledged: copies of topics, how many an answer waits for, and limits.

Source: Apache Kafka documentation, "Topic Configs", min.insync.replicas: a write
with acks=all, as all of ours are, waits for the replicas that are in sync, of
which there must be that many; retention.bytes: a partition that is larger loses
its oldest segments, whether anybody has read them or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from penstock.adapters.kafka.cluster import explain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from confluent_kafka.admin import ConfigEntry  # type: ignore[attr-defined]

    from penstock.adapters.kafka.cluster import KafkaCluster

_SETTING = "min.insync.replicas"
_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Durability:
    """How many `copies` of `what` (a topic, or new topics) there are, and how many a write waits for at least.

    `bytes_max` is how large a partition gets before its oldest messages go; -1 where size does not matter.
    """

    what: str
    copies: int
    in_sync_min: int
    bytes_max: int = -1


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
        in_sync_min = int(settings[topic][_SETTING].value)
        found.append(Durability(f"topic {topic}", copies, in_sync_min, bytes_max_of(settings[topic])))
    return found


def bytes_max_of(settings: Mapping[str, ConfigEntry]) -> int:
    """How large a partition of a topic with these settings gets before its oldest messages go; -1 for no limit."""
    deletes = "delete" in str(settings["cleanup.policy"].value)
    return int(str(settings["retention.bytes"].value)) if deletes else -1


def judge_size(durability: Durability) -> Weakness | None:
    """Say what a limit of a topic's size may take away; None where it has none."""
    if durability.bytes_max < 0:
        return None
    topic = durability.what.removeprefix("topic ")
    message = (
        f"{durability.what} has retention.bytes={durability.bytes_max}: what is beyond goes, "
        "also what a link has not read yet"
    )
    command = f"kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config retention.bytes=-1"
    return Weakness("warning", message, f"lift the limit: {command}")


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
