"""The transactional publisher against a real broker."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYetError
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from penstock.adapters.kafka.cluster import LARGEST_MESSAGE, KafkaCluster, create_topics
from penstock.adapters.kafka.ends import written_ends
from penstock.adapters.kafka.preflight import read_durability
from penstock.adapters.kafka.publisher import TransactionalPublisher, read_position
from penstock.adapters.kafka.reader import TopicReader
from penstock.adapters.kafka.topics import position_topic
from penstock.core.changes import Messages
from penstock.core.errors import FencedError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.embedded.kafka import KafkaBroker


def _message(topic: str, number: int) -> Messages:
    values = pa.array([str(number).encode()], pa.binary())
    return Messages(topic, values, values, np.zeros(1, np.int64))


def test_what_is_settled_is_what_readers_see(kafka: KafkaBroker) -> None:
    cluster, pipeline = KafkaCluster(kafka.bootstrap_servers), uuid4().hex
    admin = AdminClient(cluster.client_settings())
    topics = [f"{pipeline}.{number}" for number in range(20)]
    publisher = TransactionalPublisher(cluster, pipeline, "link")
    with closing(publisher), closing(TopicReader(cluster)) as reader:
        for number in range(30):
            publisher.publish([_message(topic, number) for topic in topics], partial(dict, number=number))
            publisher.settle()

            assert number_of(read_position(reader, position_topic(pipeline, "link"))) == number
            places = [(topic, 0) for topic in topics]
            assert reader.ends(places) == written_ends(admin, places)


def _large(topic: str, size: int) -> Messages:
    """One message that nothing makes smaller."""
    return Messages(
        topic, pa.array([b"key"], pa.binary()), pa.array([os.urandom(size)], pa.binary()), np.zeros(1, np.int64)
    )


def test_a_message_larger_than_brokers_take_by_default_arrives(kafka: KafkaBroker) -> None:
    cluster, pipeline = KafkaCluster(kafka.bootstrap_servers), uuid4().hex
    message = _large(f"{pipeline}.t", 20_000_000)
    with closing(TransactionalPublisher(cluster, pipeline, "link")) as publisher:
        publisher.publish([message], dict)
        publisher.settle()

    with closing(TopicReader(cluster)) as reader:
        ((read,),) = reader.read(message.topic, 0, 0, 1)
    assert read == (0, message.values[0].as_py())


def test_a_topic_that_does_not_take_a_message_is_named_with_what_to_do(kafka: KafkaBroker) -> None:
    cluster, pipeline = KafkaCluster(kafka.bootstrap_servers), uuid4().hex
    topic = f"{pipeline}.t"
    small = NewTopic(topic, 1, 1, config={LARGEST_MESSAGE: "1000"})
    admin = AdminClient(cluster.client_settings())
    admin.create_topics([small])[topic].result(30)
    publisher = TransactionalPublisher(cluster, pipeline, "link")
    with closing(publisher), pytest.raises(PenstockError, match=r"a batch of 10,.* is more than .*/0 takes") as caught:
        publisher.publish([_large(topic, 10_000)], dict)

    assert not caught.value.retryable
    assert topic in caught.value.message
    assert "raise max.message.bytes of that topic" in caught.value.hint


def test_topics_take_what_the_brokers_let_them_where_that_is_less_than_ours(kafka: KafkaBroker) -> None:
    cluster, topic = KafkaCluster(kafka.bootstrap_servers), uuid4().hex

    create_topics(cluster, [topic], {LARGEST_MESSAGE: "-1", "retention.ms": "1000000"}, partitions=1)

    assert topic in AdminClient(cluster.client_settings()).list_topics(timeout=30).topics


@pytest.mark.parametrize("headers", [None, [[]] * 200_000], ids=["in batches", "one by one"])
def test_a_fenced_publisher_says_so_at_whichever_message_kafka_tells_it(
    kafka: KafkaBroker, headers: list[list[tuple[str, bytes]]] | None
) -> None:
    """Kafka's answer about the first message comes while later ones are handed over: at another one each time."""
    cluster = KafkaCluster(kafka.bootstrap_servers)
    values = pa.array([b"value"] * 200_000, pa.binary())
    for _ in range(5):
        pipeline = uuid4().hex
        many = Messages(f"{pipeline}.topic", values, values, np.zeros(len(values), np.int64), headers=headers)
        with closing(TransactionalPublisher(cluster, pipeline, "link")) as older:
            older.create_topics([many.topic])
            with closing(TransactionalPublisher(cluster, pipeline, "link")):
                for _ in range(2):
                    with pytest.raises(FencedError):
                        older.publish([many], dict)


def test_settling_waits_for_a_transaction_that_is_not_decided(kafka: KafkaBroker) -> None:
    """Another producer's open transaction stands in for markers that the broker has not written yet."""
    cluster, pipeline = KafkaCluster(kafka.bootstrap_servers), uuid4().hex
    admin = AdminClient(cluster.client_settings())
    topic = position_topic(pipeline, "link")
    publisher = TransactionalPublisher(cluster, pipeline, "link")
    other = Producer({**cluster.client_settings(), "transactional.id": uuid4().hex})
    with closing(publisher), closing(TopicReader(cluster)) as reader, ThreadPoolExecutor(1) as pool:
        publisher.publish((), lambda: {"number": 1})
        publisher.settle()
        other.init_transactions(30)
        other.begin_transaction()
        other.produce(topic, key=b"link", value=json.dumps({"number": 2}).encode())
        other.flush(30)
        publisher.publish((), lambda: {"number": 3})

        settled = pool.submit(publisher.settle)
        with pytest.raises(NotYetError):
            settled.result(0.5)
        assert reader.ends([(topic, 0)])[topic, 0] < written_ends(admin, [(topic, 0)])[topic, 0]
        assert number_of(read_position(reader, topic)) == 1

        other.abort_transaction(30)
        settled.result(30)
        assert number_of(read_position(reader, topic)) == 3


def number_of(record: Mapping[str, object] | None) -> object:
    """What the test put into a record; the publisher adds what it knows of the topics."""
    return None if record is None else record["number"]


def test_a_table_keeps_its_changes_whatever_their_size_and_a_limit_that_comes_later_is_found(
    kafka: KafkaBroker,
) -> None:
    cluster, pipeline = KafkaCluster(kafka.bootstrap_servers), uuid4().hex
    topic = f"{pipeline}.t"
    with closing(TransactionalPublisher(cluster, pipeline, "link")) as publisher:
        publisher.create_topics([topic])

    before = {each.what: each.bytes_max for each in read_durability(cluster, [pipeline])}
    limit = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry("retention.bytes", "1000000", incremental_operation=AlterConfigOpType.SET),
        ],
    )
    admin = AdminClient(cluster.client_settings())
    admin.incremental_alter_configs([limit])[limit].result(30)
    after = {each.what: each.bytes_max for each in read_durability(cluster, [pipeline])}

    assert before[f"topic {topic}"] == -1
    assert after[f"topic {topic}"] == 1_000_000
