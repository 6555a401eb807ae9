"""Transactions that are decided and still open in a partition, as brokers leave them that lose a leader meanwhile."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined]

from penstock.adapters.kafka.cluster import KafkaCluster, create_topics, open_admin
from penstock.adapters.kafka.ends import committed_ends, undecided_places, written_ends
from penstock.adapters.kafka.reader import TopicReader
from penstock.adapters.kafka.wire import Wire
from penstock.core.kafka import requests
from penstock.core.kafka.records import encode_listed, render_batch
from penstock.core.kafka.requests import Broker
from penstock.embedded.kafka import start_kafka

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from penstock.core.kafka.records import ProducerIdentity
    from penstock.core.kafka.requests import Api, Place
    from penstock.embedded.kafka import KafkaBroker

_COMMITTED, _ABORTED, _OPEN = _PLACES = [("committed", 0), ("aborted", 0), ("open", 0)]
_WAIT_SECONDS = 20.0
_VERIFICATION = "transaction.partition.verification.enable"


@dataclass(slots=True)
class Producer:
    """What a producer in transactions says, request by request."""

    wire: Wire
    id: str
    identity: ProducerIdentity = field(init=False)
    sequence: int = 0

    def __post_init__(self) -> None:
        # The first who asks has the book of transactions made.
        _await(
            lambda: (
                requests.read_coordinator(self._ask(requests.FIND_COORDINATOR, requests.ask_coordinator(self.id)))[0]
                == 0
            )
        )
        _await(self._initialize)

    def _initialize(self) -> bool:
        code, self.identity = requests.read_identity(
            self._ask(requests.INIT_PRODUCER_ID, requests.initialize(self.id, 60_000))
        )
        return code == 0

    def add(self, places: Sequence[Place]) -> None:
        body = requests.add_partitions(self.id, self.identity, places)
        _await(lambda: not any(requests.read_added(self._ask(requests.ADD_PARTITIONS, body)).values()))

    def produce(self, place: Place) -> None:
        (records,) = encode_listed([b"k"], [b"v"])
        batch = render_batch(records, int(time.time() * 1000), self.identity, self.sequence)
        self.sequence += 1
        answer = self._ask(requests.PRODUCE, requests.produce(self.id, 10_000, {place: batch}))
        assert not any(requests.read_produced(answer, [place]).values())

    def end(self, *, commit: bool) -> None:
        body = requests.end_transaction(self.id, self.identity, commit=commit)
        assert requests.read_ended(self._ask(requests.END_TRANSACTION, body)) == 0

    def _ask(self, api: Api, body: bytes) -> requests.Answer:
        return self.wire.ask(api, body)


@pytest.mark.nightly
def test_a_killed_broker_ends_what_was_decided_and_leaves_open_what_is_open(tmp_path: Path) -> None:
    with start_kafka(tmp_path) as broker:
        cluster = _prepared(broker)
        with closing(_wire(broker)) as wire:
            for commit, place in ((True, _COMMITTED), (False, _ABORTED)):
                _leave_open(cluster, Producer(wire, place[0]), place, commit=commit)
            goes_on = Producer(wire, "goes on")
            goes_on.add([_OPEN])
            goes_on.produce(_OPEN)
        broker.kill()

    with start_kafka(tmp_path) as broker:
        cluster = KafkaCluster(broker.bootstrap_servers)
        undecided = _undecided(cluster)
        with closing(_wire(broker)) as goes_on.wire:
            goes_on.end(commit=True)
            _await(lambda: not _undecided(cluster))
        with closing(TopicReader(cluster)) as reader:
            ends = committed_ends(open_admin(cluster), _PLACES)
            read = [sum(len(part) for part in reader.read(*place, 0, ends[place])) for place in _PLACES]

    assert undecided == [_OPEN]
    assert read == [2, 0, 1]


def _leave_open(cluster: KafkaCluster, producer: Producer, place: Place, *, commit: bool) -> None:
    """End a transaction, and write to its partition as if that had not been told: to its coordinator it is over."""
    producer.add([place])
    producer.produce(place)
    producer.end(commit=commit)
    _await(lambda: place not in _undecided(cluster))
    producer.produce(place)


def _prepared(broker: KafkaBroker) -> KafkaCluster:
    """Have topics, in a broker that takes messages into transactions that it was not told of, as those before 3.6."""
    cluster = KafkaCluster(broker.bootstrap_servers)
    create_topics(cluster, [topic for topic, _ in _PLACES], {}, 1)
    off = ConfigEntry(_VERIFICATION, "false", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[off])
    admin = open_admin(cluster)
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result()
    return cluster


def _wire(broker: KafkaBroker) -> Wire:
    return Wire(Broker(broker.host, broker.port), {}, _WAIT_SECONDS)


def _undecided(cluster: KafkaCluster) -> list[Place]:
    admin = open_admin(cluster)
    return list(undecided_places(written_ends(admin, _PLACES), committed_ends(admin, _PLACES)))


def _await(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
