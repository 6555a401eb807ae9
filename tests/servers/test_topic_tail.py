"""Waiting at the end of topics: what is committed comes at once, and nothing else does."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from penstock.adapters.kafka.cluster import KafkaCluster, create_topics
from penstock.adapters.kafka.tail import TopicTail
from penstock.core.errors import PositionError

if TYPE_CHECKING:
    from penstock.embedded.kafka import KafkaBroker

_SECONDS = 30.0


@pytest.fixture
def cluster(kafka: KafkaBroker) -> KafkaCluster:
    return KafkaCluster(kafka.bootstrap_servers)


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    name = uuid4().hex
    create_topics(cluster, [name], {}, partitions=1)
    return name


def open_transaction(cluster: KafkaCluster, *messages: tuple[str, bytes]) -> Producer:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": uuid4().hex})
    producer.init_transactions(_SECONDS)
    producer.begin_transaction()
    for topic, value in messages:
        producer.produce(topic, value)
    producer.flush(_SECONDS)
    return producer


def test_a_message_comes_when_it_is_committed_and_not_before(cluster: KafkaCluster, topic: str) -> None:
    with closing(TopicTail(cluster, {(topic, 0): 0})) as tail:
        assert tail.take(10, 0.5) == []
        producer = open_transaction(cluster, (topic, b"one"), (topic, b"two"))
        assert tail.take(10, 1.0) == []
        threading.Timer(0.2, producer.commit_transaction, [_SECONDS]).start()

        began = time.monotonic()
        taken = [*tail.take(1, _SECONDS), *tail.take(10, _SECONDS)]

    assert taken == [((topic, 0), 0, b"one"), ((topic, 0), 1, b"two")]
    assert time.monotonic() - began < 5


def test_what_was_rolled_back_wakes_nobody(cluster: KafkaCluster, topic: str) -> None:
    with closing(TopicTail(cluster, {(topic, 0): 0})) as tail:
        open_transaction(cluster, (topic, b"one")).abort_transaction(_SECONDS)

        assert tail.take(10, 1.0) == []


@pytest.mark.nightly
def test_a_topic_that_is_made_later_is_followed_too(cluster: KafkaCluster, topic: str) -> None:
    other = uuid4().hex
    with closing(TopicTail(cluster, {(topic, 0): 0})) as tail:
        assert tail.take(10, 0.2) == []
        create_topics(cluster, [other], {}, partitions=1)
        open_transaction(cluster, (other, b"of it"), (topic, b"of the first")).commit_transaction(_SECONDS)

        first = tail.take(10, _SECONDS)
        tail.include({(topic, 0): 0, (other, 0): 0})
        taken = [*first, *tail.take(10, _SECONDS)]

    assert taken == [((topic, 0), 0, b"of the first"), ((other, 0), 0, b"of it")]


def test_an_offset_that_is_not_there_is_told(cluster: KafkaCluster, topic: str) -> None:
    with closing(TopicTail(cluster, {(topic, 0): 7})) as tail, pytest.raises(PositionError, match="no longer holds"):
        tail.take(10, _SECONDS)
