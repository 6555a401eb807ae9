"""Live figures of topics, asked of a real broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.unit.schematizer.served import served
from tests.unit.schematizer.test_schematizer_app import register

from penstock.schematizer.web.figures import KafkaFigures

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker

TOPIC = "figures.shop.orders"
SENT_MS = 1_767_225_600_000


def commit(consumer: Consumer, place: TopicPartition) -> None:
    """Commit an offset as soon as the broker can: just after its start it says that it cannot yet."""
    deadline = time.monotonic() + 60
    while True:
        try:
            consumer.commit(offsets=[place], asynchronous=False)
        except KafkaException:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        else:
            return


@pytest.fixture(scope="module")
def broker(kafka: KafkaBroker) -> str:
    """The broker's address; it has a topic of two partitions with five messages, and a group that read three."""
    address = kafka.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": address})
    for topic in (TOPIC, f"{TOPIC}.empty"):
        admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": address, "transactional.id": "figures"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(5):
        producer.produce(TOPIC, str(number), partition=number % 2, timestamp=SENT_MS + number)
    producer.flush(30)
    producer.commit_transaction(30)
    consumer = Consumer({"bootstrap.servers": address, "group.id": "figures-readers", "enable.auto.commit": False})
    deadline = time.monotonic() + 60
    # The marks of the commit come a little after the broker's answer.
    while [consumer.get_watermark_offsets(TopicPartition(TOPIC, number))[1] for number in (0, 1)] != [4, 3]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    commit(consumer, TopicPartition(TOPIC, 0, 3))
    consumer.close()
    # An open transaction is not there for those who read what is committed.
    open_one = Producer({"bootstrap.servers": address, "transactional.id": "figures-open"})
    open_one.init_transactions(30)
    open_one.begin_transaction()
    open_one.produce(TOPIC, "open", partition=0, timestamp=SENT_MS)
    open_one.flush(30)
    return address


def test_figures_tell_partitions_messages_the_last_one_and_who_is_behind(broker: str) -> None:
    figures = KafkaFigures(broker).read(TOPIC)

    assert figures.problem == ""
    assert figures.partitions == 2
    # Three and two, and each partition's mark of the commit.
    assert figures.messages == 7
    assert figures.last_message_ms is not None
    assert [(each.name, each.lag) for each in figures.groups if each.name == "figures-readers"] == [
        ("figures-readers", 4)
    ]


def test_an_empty_topic_and_none_are_told(broker: str) -> None:
    figures = KafkaFigures(broker)

    empty, none = figures.read(f"{TOPIC}.empty"), figures.read("none")

    assert (empty.messages, empty.last_message_ms, empty.problem) == (0, None, "")
    assert "Kafka has no such topic yet" in none.problem


def test_a_kafka_that_is_away_is_told_soon() -> None:
    began = time.monotonic()

    figures = KafkaFigures("127.0.0.1:1").read(TOPIC)

    assert "did not answer" in figures.problem
    assert time.monotonic() - began < 30


def test_the_page_of_figures_has_them(broker: str, tmp_path: Path) -> None:
    with served(f"sqlite:///{tmp_path}/schematizer.db", kafka=broker) as client:
        register(client, "figures")
        page = client.get(f"/ui/topics/{TOPIC}/figures").text

    assert "<strong>7</strong> messages" in page
    assert "figures-readers" in page
