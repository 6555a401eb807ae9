"""What the brokers say of topics: their ids (KIP-516), their partitions and where those end."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from penstock.adapters.kafka.cluster import REQUEST_TIMEOUT_SECONDS, KafkaCluster, explain
from penstock.core.errors import PenstockError, UnavailableError
from penstock.core.topic_fingerprints import TopicState, too_many_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    Ends: TypeAlias = Callable[[Sequence[tuple[str, int]]], Mapping[tuple[str, int], int]]

_POLL_SECONDS = 0.02
_MEET_SECONDS = 5.0
_MET_ONE_BY_ONE = 16
"""Of more topics than these the whole cluster is asked at once: it may have thousands of others."""
_LEADERS_SECONDS = 300.0
"""Less than the client remembers who leads a topic (metadata.max.age.ms: 900 s)."""
_leaders_known: WeakKeyDictionary[AdminClient, dict[str, float]] = WeakKeyDictionary()
_IN_SYNC_MIN = "min.insync.replicas"
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""Sixteen zero bytes: what a broker without topic ids answers."""


def describe_topics(admin: AdminClient, topics: Collection[str]) -> Mapping[str, tuple[str, int]]:
    """For each topic: its id ("" where the brokers give none) and how many partitions it has. Absent ones are left out.

    Asking creates no topic. Raises UnavailableError or PenstockError.
    """
    if not topics:
        return {}
    found = {}
    asked = TopicCollection(sorted(set(topics)))
    answers = admin.describe_topics(asked, request_timeout=REQUEST_TIMEOUT_SECONDS)
    for topic, answer in answers.items():
        try:
            described = answer.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise explain(error, f"being asked what topic {topic} is") from error
        else:
            topic_id = str(described.topic_id)
            found[topic] = ("" if topic_id == _NO_ID else topic_id, len(described.partitions))
    return found


def learn_leaders(admin: AdminClient, topics: Collection[str]) -> None:
    """Let the client learn who leads those of `topics` that it was not told of lately.

    librdkafka (2.16), asked for the offsets of a topic that it knows nothing of, first asks who leads it, and in
    one of twenty times the answer is there before it waits for it: then it waits for three seconds. Nor does it
    ask again, for minutes, of a topic that was absent.
    """
    lately = time.monotonic() - _LEADERS_SECONDS
    known = _leaders_known.setdefault(admin, {})
    found = describe_topics(admin, {topic for topic in topics if known.get(topic, lately) <= lately})
    known.update(dict.fromkeys(found, time.monotonic()))


def meet(consumer: Consumer, topics: Collection[str]) -> None:
    """Let a consumer learn who leads `topics`: it looks once a second by itself; when it is asked, at once."""
    with suppress(KafkaException):
        for topic in topics if len(topics) <= _MET_ONE_BY_ONE else [None]:
            consumer.list_topics(topic, timeout=_MEET_SECONDS)


def read_states(admin: AdminClient, topics: Collection[str], read_ends: Ends) -> dict[str, TopicState]:
    """What those of `topics` are that exist; `read_ends` tells where their partitions end."""
    described = describe_topics(admin, topics)
    ends = read_ends([(topic, number) for topic, (_, count) in described.items() for number in range(count)])
    return {
        topic: TopicState(topic_id, tuple(ends[topic, number] for number in range(count)))
        for topic, (topic_id, count) in described.items()
        if all((topic, number) in ends for number in range(count))
    }


def wait_for_states(admin: AdminClient, topics: Collection[str], read_ends: Ends) -> dict[str, TopicState]:
    """What topics are that were created just now. Raises UnavailableError if brokers do not show them."""
    deadline = time.monotonic() + REQUEST_TIMEOUT_SECONDS
    while True:
        try:
            states = read_states(admin, topics, read_ends)
        except UnavailableError:
            # A broker may not know yet that it leads a partition.
            states = {}
        if len(states) == len(topics):
            return states
        if time.monotonic() > deadline:
            missing = ", ".join(sorted(set(topics) - set(states)))
            message = f"Kafka does not show {missing}, {REQUEST_TIMEOUT_SECONDS:.0f} s after creating it"
            raise UnavailableError(message, "check that all brokers run")
        time.sleep(_POLL_SECONDS)


def require_readable(cluster: KafkaCluster, states: Mapping[str, TopicState]) -> None:
    """Raise PositionError for a topic with more partitions than anybody would read."""
    for topic, state in states.items():
        wanted = 1 if topic.startswith("penstock.") else cluster.partitions_max
        if len(state.ends) > wanted:
            raise too_many_partitions(topic, len(state.ends), wanted)


def explain_publishing(
    cluster: KafkaCluster, topics: Collection[str], error: KafkaException, link: str
) -> PenstockError:
    """Turn the error that ended a publication to `topics` into ours."""
    # A client that was there before the error may go on asking the very broker that went away.
    short = out_of_sync(AdminClient(cluster.client_settings()), topics)
    if short:
        hint = "start the brokers that are down; nothing is lost, and this is tried again"
        return UnavailableError(f"Kafka takes no messages of {link} now: {short}", hint)
    return explain(error, f"publishing for {link}")


def forgetful_topics(admin: AdminClient, topics: Collection[str]) -> Sequence[str]:
    """Those of `topics` whose messages are thrown away when they are old, newer ones with the same key or not.

    Raises UnavailableError when the brokers are away.
    """
    found = []
    for topic, settings in _settings(admin, topics).items():
        kept = (settings["retention.ms"], settings["retention.bytes"])
        if "delete" in settings["cleanup.policy"] and kept != ("-1", "-1"):
            found.append(topic)
    return found


def compacted_topics(admin: AdminClient, topics: Collection[str]) -> Sequence[str]:
    """Those of `topics` whose messages are thrown away when newer ones have the same key.

    Raises as `forgetful_topics`.
    """
    return [topic for topic, settings in _settings(admin, topics).items() if "compact" in settings["cleanup.policy"]]


def _settings(admin: AdminClient, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
    """The settings of each topic, in the order of their names."""
    if not topics:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in set(topics)]
    try:
        answers = admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_SECONDS)
        found = {
            resource.name: {name: str(entry.value) for name, entry in answer.result().items()}
            for resource, answer in answers.items()
        }
    except KafkaException as error:
        raise explain(error, "being asked how it keeps topics") from error
    return dict(sorted(found.items()))


def out_of_sync(admin: AdminClient, topics: Collection[str]) -> str:
    """Say which of `topics` takes no messages because too few of its replicas are in sync; "" if none is known to.

    Source: Apache Kafka documentation, "Topic Configs", min.insync.replicas.
    """
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in sorted(topics)]
    try:
        asked = admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=REQUEST_TIMEOUT_SECONDS)
        settings = admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_SECONDS)
        for resource, answer in settings.items():
            wanted = int(answer.result()[_IN_SYNC_MIN].value)
            for partition in asked[resource.name].result().partitions:
                replicas, in_sync = len(partition.replicas), len(partition.isr)
                # A topic with fewer replicas than that asks for all of them.
                if in_sync < min(wanted, replicas):
                    where = f"{resource.name}/{partition.id}"
                    return f"{where} has {in_sync} of its {replicas} replicas in sync, and {_IN_SYNC_MIN}={wanted}"
    except KafkaException:
        # It explains another failure, and must not hide that.
        return ""
    return ""
