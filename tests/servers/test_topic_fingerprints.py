"""A link that is opened again holds its record against its topics, and says what does not fit."""

from __future__ import annotations

import json
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

from penstock.adapters.kafka.cluster import KafkaCluster
from penstock.adapters.kafka.publisher import TransactionalPublisher, read_position
from penstock.adapters.kafka.reader import TopicReader
from penstock.adapters.kafka.topics import fingerprint_topic, position_topic
from penstock.core.changes import Messages
from penstock.core.errors import PositionError
from penstock.core.schema_changes import SchemaChange
from penstock.core.tables import TableId
from penstock.links.objects.plan import ObjectsPlan
from penstock.links.objects.publish import BatchPublisher
from penstock.links.objects.trimming import BatchTrimming

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from penstock.embedded.kafka import KafkaBroker

LINK = "db"
EVENT = SchemaChange(LINK, TableId("shop", "users"), "db.shop.users", "", 1, 2, 1, (1, 1, 0))


class TextCheck:
    """Messages of ours begin with "ours"."""

    def is_shared(self, topic: str) -> bool:
        return topic.endswith(".shared")

    def is_of_one_table(self, topic: str) -> bool:
        return topic.endswith(".table")

    def fault(self, topic: str, value: bytes | None, record: Mapping[str, object]) -> str:
        del topic, record
        return "" if value is not None and value.startswith(b"ours") else "it does not begin with ours"


class Case:
    """One link with a topic of its own."""

    def __init__(self, kafka: KafkaBroker, partitions: int = 1) -> None:
        self.cluster = KafkaCluster(kafka.bootstrap_servers, partitions)
        self.admin = AdminClient(self.cluster.client_settings())
        self.pipeline = uuid4().hex
        self.topic = f"{self.pipeline}.t"

    def open(self) -> TransactionalPublisher:
        return TransactionalPublisher(self.cluster, self.pipeline, LINK, check=TextCheck())

    def publish(self, *counts: int, settle: bool = False) -> None:
        """Open the link and publish so many messages in each transaction."""
        with closing(self.open()) as publisher:
            for count in counts:
                publisher.publish([messages(self.topic, count)], lambda: {"n": 0})
            if settle:
                publisher.settle()

    def write(self, topic: str, *values: bytes) -> None:
        """Write as somebody else."""
        producer = Producer(self.cluster.client_settings())
        for value in values:
            producer.produce(topic, value, key=value)
        assert producer.flush(30) == 0

    def throw_away(self, before: int) -> Mapping[TopicPartition, Future[Any]]:
        return self.admin.delete_records([TopicPartition(self.topic, 0, before)])

    def record(self) -> Mapping[str, object]:
        with closing(TopicReader(self.cluster)) as reader:
            record = read_position(reader, position_topic(self.pipeline, LINK))
        assert record is not None
        return record

    def delete(self, topic: str) -> None:
        done(self.admin.delete_topics([topic]))

    def create(self, topic: str, partitions: int = 1, cleanup: str = "delete") -> None:
        done(self.admin.create_topics([NewTopic(topic, partitions, 1, config={"cleanup.policy": cleanup})]))

    def refusal(self) -> str:
        """What opening the link is refused with."""
        with pytest.raises(PositionError) as caught:
            self.open()
        assert caught.value.hint
        return caught.value.message


def done(futures: Mapping[Any, Future[Any]]) -> None:
    for future in futures.values():
        future.result(30)


def messages(topic: str, count: int) -> Messages:
    values = pa.array([b"ours %d" % number for number in range(count)], pa.binary())
    return Messages(topic, values, values, np.arange(count, dtype=np.int64))


def announce(publisher: BatchPublisher, start: int, end: int) -> None:
    """Publish a batch message for each of so many schema-change events."""
    publisher.publish(ObjectsPlan(end, tuple((offset, EVENT) for offset in range(start, end)), ()), ())


@pytest.fixture
def case(kafka: KafkaBroker) -> Case:
    return Case(kafka)


@pytest.mark.parametrize("partitions", [1, 4])
def test_what_is_as_it_was_left_is_gone_on_with(kafka: KafkaBroker, partitions: int) -> None:
    case = Case(kafka, partitions)

    case.publish(3, 1, 40)
    case.publish(2, settle=True)
    case.publish(12_000, settle=True)
    case.publish(5)
    case.publish(1, settle=True)

    assert case.record()["since"] == {case.topic: 1}


def test_a_transaction_that_was_aborted_is_no_riddle(case: Case) -> None:
    def breaks_off() -> Iterator[Messages]:
        yield messages(case.topic, 6_000)
        raise KeyboardInterrupt

    case.publish(2)
    with closing(case.open()) as publisher, pytest.raises(KeyboardInterrupt):
        publisher.publish(breaks_off(), lambda: {"n": 1})

    case.publish(3)
    case.publish(1)


def test_a_producer_that_was_killed_leaves_no_riddle(case: Case) -> None:
    case.publish(2)
    killed = Producer(
        {**case.cluster.client_settings(), "transactional.id": f"penstock.{case.pipeline}.{LINK}", "linger.ms": 0}
    )
    killed.init_transactions(30)
    killed.begin_transaction()
    killed.produce(case.topic, b"never seen")
    killed.flush(30)

    case.publish(3)
    case.publish(1)


def test_a_deleted_topic_is_named(case: Case) -> None:
    case.publish(4, settle=True)
    case.publish(1)
    case.delete(case.topic)

    assert f"topic {case.topic} is gone: it was deleted" in case.refusal()


def test_a_topic_that_was_made_anew_is_recognised_although_it_has_grown(case: Case) -> None:
    case.publish(4, settle=True)
    case.publish(1)
    case.delete(case.topic)
    case.create(case.topic)
    case.write(case.topic, *[b"ours"] * 50)

    assert f"topic {case.topic} was deleted and recreated" in case.refusal()


def test_a_foreign_message_is_named_with_its_place(case: Case) -> None:
    case.publish(4, settle=True)
    case.publish(1)
    case.write(case.topic, b"hello")

    message = case.refusal()

    assert f"{case.topic}/0 has a foreign message at offset 7: it does not begin with ours" in message


def test_a_foreign_message_in_the_topic_of_a_table_is_for_whoever_takes_it(case: Case) -> None:
    case.topic += ".table"
    case.publish(4, settle=True)
    case.write(case.topic, b"hello")

    for _ in range(2):
        with pytest.raises(PositionError, match="has a foreign message at offset"):
            case.publish(1)
    with closing(case.open()) as publisher:
        (error,) = publisher.take_foreign().values()
        publisher.publish([], lambda: {"n": 0})
    assert "has a foreign message at offset" in error.message
    case.publish(1)


def test_messages_that_look_like_ours_are_counted(case: Case) -> None:
    case.publish(4, settle=True)
    case.publish(1, 1)
    case.write(case.topic, b"ours 0")

    assert "has 3 messages after" in (message := case.refusal())
    assert "this pipeline wrote 2" in message


@pytest.mark.parametrize(("claimed", "found"), [(9, "8"), (10_000, "at most 10")])
def test_messages_that_the_brokers_lost_are_counted(case: Case, claimed: int, found: str) -> None:
    """A record that claims more than there is stands in for a topic that has lost what was acknowledged."""
    case.publish(4, settle=True)
    case.publish(6, 2)
    doctored = {**case.record(), "since": {case.topic: claimed}}
    case.write(position_topic(case.pipeline, LINK), json.dumps(doctored).encode())

    message = case.refusal()

    assert f"topic {case.topic} has {found} messages after {case.topic}/0:5" in message
    assert f"this pipeline wrote {claimed}: the brokers lost some" in message


def test_a_topic_that_ends_before_it_was_sealed_is_named(case: Case) -> None:
    """A topic fingerprint that claims more than there is stands in for a broker with an older disk."""
    case.publish(4, settle=True)
    case.publish(1, settle=True)
    with closing(TopicReader(case.cluster)) as reader:
        fingerprint = json.loads(reader.newest(fingerprint_topic(case.pipeline, LINK)) or b"")
    fingerprint["topics"][case.topic][1] = 1_000
    case.write(fingerprint_topic(case.pipeline, LINK), json.dumps(fingerprint).encode())

    assert f"{case.topic}/0 ends at 7, but was written up to 1000: the brokers lost the rest" in case.refusal()


def test_messages_that_have_expired_are_no_loss(case: Case) -> None:
    case.publish(4, settle=True)
    case.publish(6, 2)
    done(case.throw_away(8))

    case.publish(1)


def test_what_we_threw_away_hides_no_message_that_the_brokers_lost_later(case: Case) -> None:
    case.create(case.topic)
    with closing(case.open()) as opened, closing(TopicReader(case.cluster)) as log:
        publisher = BatchPublisher(opened, case.topic, 1)
        announce(publisher, 0, 6)
        publisher.forget_files(4, 4)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("penstock.links.objects.trimming._BATCHES_AT_ONCE", 4)
            trimming = BatchTrimming(log, case.topic, lambda before: done(case.throw_away(before)))
            trimming.trim(publisher, 9, {EVENT.topic})
        announce(publisher, 6, 8)
        begin = log.begins([(case.topic, 0)])[case.topic, 0]
    record: dict[str, Any] = dict(case.record())
    doctored = {**record, "since": {case.topic: record["since"][case.topic] + 1}}
    case.write(position_topic(case.pipeline, LINK), json.dumps(doctored).encode())

    message = case.refusal()

    assert begin == 4
    assert f"topic {case.topic} has 2 messages after {case.topic}/0:7" in message
    assert "this pipeline wrote 3: the brokers lost some" in message


def test_a_compacted_topic_may_have_fewer_messages(case: Case) -> None:
    case.create(case.topic, cleanup="compact")
    case.publish(4, settle=True)
    case.publish(6, 2)
    doctored = {**case.record(), "since": {case.topic: 9}}
    case.write(position_topic(case.pipeline, LINK), json.dumps(doctored).encode())

    case.publish(1)


def test_a_position_topic_that_was_deleted_does_not_begin_anew(case: Case) -> None:
    case.publish(1)
    case.delete(position_topic(case.pipeline, LINK))

    assert "has no position, although its link has published before" in case.refusal()


def test_a_topic_fingerprint_topic_that_was_deleted_is_missed(case: Case) -> None:
    case.publish(1)
    case.delete(fingerprint_topic(case.pipeline, LINK))

    assert "builds on topic fingerprint 1, but the newest in Kafka is 0" in case.refusal()


def test_partitions_that_were_added_are_recognised(case: Case) -> None:
    case.publish(1)
    done(case.admin.create_partitions([NewPartitions(case.topic, 3)]))

    assert "had 1 partition(s) and now has 3" in case.refusal()


def test_a_topic_with_partitions_that_nobody_would_read_is_refused(case: Case) -> None:
    case.create(case.topic, 3)

    with closing(case.open()) as publisher, pytest.raises(PositionError, match=r"has 3 partitions, and .* is 1"):
        publisher.publish([messages(case.topic, 1)], lambda: {"n": 0})


def test_what_others_write_into_a_shared_topic_is_theirs(case: Case) -> None:
    shared = f"{case.pipeline}.shared"
    with closing(case.open()) as publisher:
        publisher.publish([messages(shared, 2)], lambda: {"n": 0})
    case.write(shared, b"theirs")

    case.publish(1)
    case.delete(shared)

    assert f"topic {shared} is gone" in case.refusal()


def test_a_topic_that_is_made_anew_while_the_link_runs_is_recognised_when_it_settles(case: Case) -> None:
    with closing(case.open()) as publisher:
        publisher.publish([messages(case.topic, 3)], lambda: {"n": 0})
        publisher.settle()
        case.delete(case.topic)
        case.create(case.topic)

        with pytest.raises(PositionError, match="was deleted and recreated"):
            publish_and_settle(publisher, [messages(case.topic, 3)])


def test_a_topic_that_is_deleted_while_the_link_runs_is_told_in_words(case: Case) -> None:
    with closing(case.open()) as publisher:
        publisher.publish([messages(case.topic, 3)], lambda: {"n": 0})
        case.delete(case.topic)
        deadline = time.monotonic() + 30
        while case.topic in described(case):
            assert time.monotonic() < deadline

        with pytest.raises(PositionError, match="is gone: it was deleted"):
            publish_and_settle(publisher, [messages(case.topic, 3)])


def publish_and_settle(publisher: TransactionalPublisher, parts: Sequence[Messages]) -> None:
    publisher.publish(parts, lambda: {"n": 1})
    publisher.settle()


def described(case: Case) -> set[str]:
    answers = case.admin.describe_topics(TopicCollection([case.topic]), request_timeout=30)
    return {topic for topic, answer in answers.items() if answer.exception(30) is None}
