"""The transactional publisher: messages and their position record in one Kafka transaction.

Fencing is Kafka's own (KIP-98): `init_transactions` raises the epoch of the
transactional id, aborts what an older producer left open, and every later
request of that older producer is refused.
"""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from penstock.adapters.kafka.cluster import REQUEST_TIMEOUT_SECONDS, KafkaCluster, create_topics, explain
from penstock.adapters.kafka.reader import TopicReader, undecided
from penstock.adapters.kafka.topics import LEDGER_SETTINGS, POSITION_SETTINGS, TABLE_SETTINGS, position_topic
from penstock.core.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.core.changes import Messages

_PRODUCE_MESSAGES = 5_000
_QUEUE_MESSAGES = 500_000
_SETTLE_POLL_SECONDS = 0.005


class TransactionalPublisher:
    """Publishes for one link of one pipeline (ports/publisher.Publisher)."""

    def __init__(
        self, cluster: KafkaCluster, pipeline: str, link: str, transaction_timeout_seconds: float = 60.0
    ) -> None:
        """Fence older publishers of the link. Raises UnavailableError when Kafka does not answer."""
        self._cluster = cluster
        self._position_topic = position_topic(pipeline, link)
        self._link = link
        self._known_topics: set[str] = set()
        self._unsettled: set[str] = set()
        self._admin = AdminClient(cluster.client_settings())
        create_topics(cluster, [self._position_topic], POSITION_SETTINGS, partitions=1)
        self._producer = Producer(
            {
                **cluster.client_settings(),
                "transactional.id": f"penstock.{pipeline}.{link}",
                "transaction.timeout.ms": int(transaction_timeout_seconds * 1000),
                "acks": "all",
                "linger.ms": 1,
                "compression.type": "lz4",
                "partitioner": "murmur2_random",
                "queue.buffering.max.messages": _QUEUE_MESSAGES,
                "queue.buffering.max.kbytes": 1_048_576,
                "message.max.bytes": 104_857_600,
            }
        )
        try:
            self._producer.init_transactions(REQUEST_TIMEOUT_SECONDS)
        except KafkaException as error:
            raise explain(error, f"starting transactions of {link}") from error

    def position(self) -> Mapping[str, object] | None:
        """Return the newest committed record of this link, None before the first."""
        reader = TopicReader(self._cluster)
        try:
            return read_position(reader, self._position_topic)
        finally:
            reader.close()

    def create_topics(self, topics: Iterable[str]) -> None:
        """Create those of `topics` that do not exist; see ports/publisher.Publisher."""
        new = [topic for topic in topics if topic not in self._known_topics]
        ledgers = [topic for topic in new if topic.startswith("penstock.")]
        tables = [topic for topic in new if topic not in ledgers]
        create_topics(self._cluster, ledgers, LEDGER_SETTINGS, partitions=1)
        create_topics(self._cluster, tables, TABLE_SETTINGS, partitions=self._cluster.partitions)
        self._known_topics.update(new)

    def publish(self, messages: Iterable[Messages], record: Callable[[], Mapping[str, object]]) -> None:
        """Commit `messages` and `record` together; see ports/publisher.Publisher."""
        try:
            self._producer.begin_transaction()
            self._unsettled.add(self._position_topic)
            for topic_messages in messages:
                self._unsettled.add(topic_messages.topic)
                self.create_topics([topic_messages.topic])
                self._produce(topic_messages)
            value = json.dumps(record()).encode()
            self._producer.produce(self._position_topic, key=self._link.encode(), value=value, partition=0)
            self._producer.commit_transaction(REQUEST_TIMEOUT_SECONDS)
        except KafkaException as error:
            self._abort()
            raise explain(error, f"publishing for {self._link}") from error
        except BaseException:
            self._abort()
            raise

    def settle(self) -> None:
        """Wait until the markers of our commits are written; see ports/publisher.Publisher."""
        try:
            known = self._producer.list_topics(timeout=REQUEST_TIMEOUT_SECONDS).topics
        except KafkaException as error:
            raise explain(error, f"publishing for {self._link}") from error
        partitions = [
            (topic, number) for topic in self._unsettled if topic in known for number in known[topic].partitions
        ]
        deadline = time.monotonic() + REQUEST_TIMEOUT_SECONDS
        while partitions := undecided(self._admin, partitions):
            if time.monotonic() > deadline:
                text = f"Kafka has not finished the transactions of {self._link} for {REQUEST_TIMEOUT_SECONDS:.0f} s"
                raise UnavailableError(text, "check that all brokers run")
            time.sleep(_SETTLE_POLL_SECONDS)
        self._unsettled.clear()

    def close(self) -> None:
        """Abort what is open and drop the connection."""
        self._abort()
        self._producer.flush(1.0)

    def _abort(self) -> None:
        """Abort the open transaction if there is one; the error that led here is the one worth telling."""
        with contextlib.suppress(KafkaException):
            self._producer.abort_transaction(REQUEST_TIMEOUT_SECONDS)

    def _produce(self, messages: Messages) -> None:
        keys = messages.keys.to_pylist()
        values = messages.values.to_pylist()
        for start in range(0, len(values), _PRODUCE_MESSAGES):
            chunk = [
                {"key": key, "value": value}
                for key, value in zip(
                    keys[start : start + _PRODUCE_MESSAGES], values[start : start + _PRODUCE_MESSAGES], strict=True
                )
            ]
            self._make_room(len(chunk))
            queued = self._producer.produce_batch(messages.topic, chunk)
            if queued != len(chunk):
                failed = next(message["_error"] for message in chunk if "_error" in message)
                raise KafkaException(failed)

    def _make_room(self, count: int) -> None:
        """Wait until the producer's queue takes `count` more, so that its memory stays bounded."""
        deadline = time.monotonic() + REQUEST_TIMEOUT_SECONDS
        while len(self._producer) + count > _QUEUE_MESSAGES // 2:
            self._producer.poll(0.05)
            if time.monotonic() > deadline:
                text = f"Kafka took nothing for {REQUEST_TIMEOUT_SECONDS:.0f} s"
                raise UnavailableError(text, "check that the brokers run and have room on their disks")
        self._producer.poll(0)


def read_position(reader: TopicReader, topic: str) -> Mapping[str, object] | None:
    """Return the newest committed record in a position topic, None if there is none."""
    newest = reader.newest(topic)
    return None if newest is None else json.loads(newest)
