"""Transactions that a broker has ended and whose ends it never wrote: docs/decisions/0096."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock.adapters.kafka.cluster import explain, open_admin
from penstock.adapters.kafka.ends import committed_ends, undecided_places, written_ends
from penstock.adapters.kafka.wire import Wire, read_brokers
from penstock.core.errors import UnavailableError
from penstock.core.kafka.undecided import (
    DESCRIBE_PRODUCERS,
    WRITE_MARKERS,
    ask_producers,
    find_ending,
    read_marked,
    read_open,
    write_marker,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka.admin import AdminClient

    from penstock.adapters.kafka.cluster import KafkaCluster
    from penstock.core.kafka.requests import Place

_STATES: Final = "__transaction_state"
_SECONDS: Final = 30.0
_TO_THE_END: Final = {
    "group.id": "penstock",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_uncommitted",
}
_POLL_SECONDS: Final = 0.1


def write_forgotten_markers(cluster: KafkaCluster) -> Sequence[Place]:
    """End, in each partition of a cluster of one broker, transactions that it has ended and takes for open there.

    They are committed or aborted as their coordinator has noted; what it is about to end is waited for. Return the
    partitions. What is open stays open. Raises UnavailableError where the broker does not answer.
    """
    ended: list[Place] = []
    deadline = time.monotonic() + _SECONDS
    try:
        admin = open_admin(cluster)
        (broker,) = read_brokers(cluster.bootstrap_servers)
        with closing(Wire(broker, dict(cluster.login), _SECONDS)) as wire:
            while _end_some(cluster, admin, wire, ended) and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
    except KafkaException as error:
        raise explain(error, "looking for transactions without an end") from error
    except (OSError, ValueError) as error:
        message = f"Kafka failed looking for transactions without an end: {error}"
        raise UnavailableError(message, "read the broker's log") from error
    return ended


def _end_some(cluster: KafkaCluster, admin: AdminClient, wire: Wire, ended: list[Place]) -> bool:
    """Add partitions to `ended`; return whether the coordinator is about to end something."""
    topics = admin.list_topics(timeout=_SECONDS).topics
    places = [(name, number) for name, topic in topics.items() for number in topic.partitions]
    undecided = undecided_places(written_ends(admin, places), committed_ends(admin, places))
    if not undecided or _STATES not in topics:
        return False
    states, waits = _read_states(cluster, [place for place in places if place[0] == _STATES]), False
    for place in undecided:
        code, found = read_open(wire.ask(DESCRIBE_PRODUCERS, ask_producers(*place)))
        _require(code)
        for transaction in found:
            ending = find_ending(states, place, transaction)
            if ending is not None and ending.is_complete:
                _require(read_marked(wire.ask(WRITE_MARKERS, write_marker(*place, transaction, ending))))
                ended.append(place)
            waits |= ending is not None and not ending.is_complete
    return waits


def _read_states(cluster: KafkaCluster, places: Sequence[Place]) -> Sequence[bytes]:
    """What coordinators have noted of transactions, in its order for each of them."""
    found: list[bytes] = []
    left = len(places)
    consumer = Consumer({**cluster.client_settings(), **_TO_THE_END})
    try:
        consumer.assign([TopicPartition(*place, 0) for place in places])
        while left:
            message = consumer.poll(_SECONDS)
            if message is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"reading {_STATES}"))  # noqa: SLF001
            error = message.error()
            if error is None:
                if (value := message.value()) is not None:
                    found.append(value)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                left -= 1
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
    return found


def _require(code: int) -> None:
    if code:
        raise KafkaException(KafkaError(code))
