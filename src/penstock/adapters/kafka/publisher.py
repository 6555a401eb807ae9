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
from penstock.adapters.kafka.described import describe_topics, explain_publishing
from penstock.adapters.kafka.pieces import (
    PIECE_MESSAGES,
    QUEUE_KIBIBYTES,
    QUEUE_MESSAGES,
    ROOM_BYTES,
    ROOM_MESSAGES,
    cut,
)
from penstock.adapters.kafka.reader import TopicReader, settled_ends
from penstock.adapters.kafka.seals import TopicSeals
from penstock.adapters.kafka.topics import POSITION_SETTINGS, create_own_topics, position_topic
from penstock.config.crash_points import CrashPoint
from penstock.core.errors import PenstockError, PositionError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.core.changes import Messages
    from penstock.ports.publisher import MessageCheck

_SEAL_MESSAGES = 200_000
"""So many are read again, at most, to hold the topics against the record: about a second."""
_SEAL_AT_ONCE_MESSAGES = 10_000
"""After so many a seal does not wait for the next transaction: whoever comes next would read them all."""

_FENCED_OTHERS = CrashPoint("publisher.opened", "older publishers are fenced, nothing is committed by this one")
_SENT_MESSAGES = CrashPoint("publish.messages_sent", "messages are on their way, their position record is not")
_SENT_ALL = CrashPoint("publish.sent", "messages and record are on their way, the transaction is open")
_COMMITTED = CrashPoint("publish.committed", "the transaction is committed, and only Kafka knows")


class TransactionalPublisher:
    """Publishes for one link of one pipeline (ports/publisher.Publisher)."""

    def __init__(
        self,
        cluster: KafkaCluster,
        pipeline: str,
        link: str,
        transaction_timeout_seconds: float = 60.0,
        check: MessageCheck | None = None,
    ) -> None:
        """Fence older publishers of the link, and hold its record against its topics; see ports/publisher.Publisher.

        Raises UnavailableError when Kafka does not answer.
        """
        self._cluster = cluster
        self._position_topic = position_topic(pipeline, link)
        self._link = link
        self._known_topics: set[str] = set()
        self._unsettled: set[str] = set()
        self._queued_bytes = 0
        self._admin = AdminClient(cluster.client_settings())
        self._seals = TopicSeals(cluster, self._admin, pipeline, link, check)
        create_topics(cluster, [self._position_topic, self._seals.topic], POSITION_SETTINGS, partitions=1)
        self._producer = Producer(_producer_settings(cluster, pipeline, link, transaction_timeout_seconds))
        try:
            self._producer.init_transactions(REQUEST_TIMEOUT_SECONDS)
        except KafkaException as error:
            raise explain(error, f"starting transactions of {link}") from error
        _FENCED_OTHERS.pass_by()
        # Kafka has ended every transaction before ours by now.
        self._seals.verify(self.position())
        self._seals.meet([self._position_topic])

    def position(self) -> Mapping[str, object] | None:
        """Return the newest committed record of this link, None before the first."""
        reader = TopicReader(self._cluster)
        try:
            return read_position(reader, self._position_topic)
        finally:
            reader.close()

    def left_over(self, topic: str) -> int:  # noqa: ARG002 - the port's name
        """Return 0: what a crash broke off was aborted."""
        return 0

    def create_topics(self, topics: Iterable[str]) -> None:
        """Create those of `topics` that do not exist; see ports/publisher.Publisher."""
        new = [topic for topic in topics if topic not in self._known_topics]
        if new:
            create_own_topics(self._cluster, new)
            self._seals.meet(new)
            self._known_topics.update(new)

    def publish(self, messages: Iterable[Messages], record: Callable[[], Mapping[str, object]]) -> None:
        """Commit `messages` and `record` together; see ports/publisher.Publisher."""
        if self._seals.messages >= _SEAL_MESSAGES:
            self.settle()
        try:
            self._producer.begin_transaction()
            self._unsettled.add(self._position_topic)
            for topic_messages in messages:
                self._unsettled.add(topic_messages.topic)
                self.create_topics([topic_messages.topic])
                self._produce(topic_messages)
                self._seals.count(topic_messages.topic, len(topic_messages))
            self._produce_seal()
            _SENT_MESSAGES.pass_by()
            value = json.dumps(self._seals.stamp(record())).encode()
            self._producer.produce(self._position_topic, key=self._link.encode(), value=value, partition=0)
            _SENT_ALL.pass_by()
            self._commit()
            _COMMITTED.pass_by()
        except KafkaException as error:
            ended = self._abort()
            self._require_topics(error)
            raise explain_publishing(self._cluster, self._unsettled, ended or error, self._link) from error
        except BaseException:
            self._abort()
            raise

    def save(self) -> None:
        """Do nothing: a record is committed with its messages."""

    def settle(self) -> None:
        """Wait until the markers of our commits are written; see ports/publisher.Publisher."""
        described = describe_topics(self._admin, self._unsettled)
        partitions = [(topic, number) for topic, (_, count) in described.items() for number in range(count)]
        ends = settled_ends(self._admin, partitions)
        counted = self._seals.messages
        self._seals.take(described, ends)
        self._unsettled.clear()
        if counted >= _SEAL_AT_ONCE_MESSAGES:
            self._seal()

    def _seal(self) -> None:
        """Commit the seal alone: the newest record then builds on an older one, so nothing came behind this one."""
        try:
            self._producer.begin_transaction()
            self._produce_seal()
            self._commit()
        except KafkaException as error:
            raise explain(self._abort() or error, f"publishing for {self._link}") from error

    def _produce_seal(self) -> None:
        seal = self._seals.uncommitted()
        if seal is not None:
            self._producer.produce(self._seals.topic, key=self._link.encode(), value=seal, partition=0)

    def _commit(self) -> None:
        self._producer.commit_transaction(REQUEST_TIMEOUT_SECONDS)
        self._seals.commit()

    def _require_topics(self, failure: KafkaException) -> None:
        """Raise PositionError if publishing failed because a topic was deleted; nothing if that cannot be known now."""
        try:
            self._seals.require_topics()
        except PositionError as error:
            raise error from failure
        except PenstockError:
            return

    def close(self) -> None:
        """Abort what is open and drop the connection."""
        self._abort()
        # Of a producer that Kafka has given up on, the error that led here is the one worth telling.
        with contextlib.suppress(KafkaException):
            self._producer.flush(1.0)

    def _abort(self) -> KafkaException | None:
        """Abort the open transaction if there is one, and return what ended this producer for good, if anything did.

        A producer that was fenced while messages were handed to it says of each only that it failed, and not why.
        """
        try:
            self._producer.abort_transaction(REQUEST_TIMEOUT_SECONDS)
        except KafkaException as error:
            return error if error.args[0].fatal() else None
        return None

    def _produce(self, messages: Messages) -> None:
        if messages.headers is not None or (messages.lanes is not None and messages.keys.null_count):
            self._produce_singly(messages)
            return
        for keys, values, size in cut(*messages.lists()):
            chunk = [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)]
            self._make_room(len(chunk), size)
            queued = self._producer.produce_batch(messages.topic, chunk)
            if queued != len(chunk):
                failed = next(message["_error"] for message in chunk if "_error" in message)
                raise KafkaException(failed)

    def _produce_singly(self, messages: Messages) -> None:
        """Produce one by one: in batches the client takes no headers, and passes over each message's partition."""
        partitions = self._seals.partitions(messages.topic)
        keys, values = messages.lists()
        for index, (key, value) in enumerate(zip(keys, values, strict=True)):
            self._make_room(PIECE_MESSAGES if index % PIECE_MESSAGES == 0 else 0, len(value or b""))
            headers: list[tuple[str, str | bytes | None]] = []
            headers += () if messages.headers is None else messages.headers[index]
            if key is None and messages.lanes is not None:
                lane = int(messages.lanes[index]) % partitions
                self._producer.produce(messages.topic, value, partition=lane, headers=headers)
            else:
                self._producer.produce(messages.topic, value, key, headers=headers)

    def _make_room(self, count: int, size: int) -> None:
        """Wait until the producer's queue takes `count` more of `size` bytes, so that its memory stays bounded."""
        if self._queued_bytes + size > ROOM_BYTES:
            self._wait_until_queued(0)
            self._queued_bytes = 0
        self._queued_bytes += size
        if count:
            self._wait_until_queued(ROOM_MESSAGES - count)
            self._producer.poll(0)

    def _wait_until_queued(self, messages: int) -> None:
        """Wait until no more than so many are in the queue. Raises UnavailableError when Kafka takes none of them."""
        fewest, deadline = len(self._producer), time.monotonic() + REQUEST_TIMEOUT_SECONDS
        while (queued := len(self._producer)) > messages:
            if queued < fewest:
                fewest, deadline = queued, time.monotonic() + REQUEST_TIMEOUT_SECONDS
            if time.monotonic() > deadline:
                text = f"Kafka took nothing for {REQUEST_TIMEOUT_SECONDS:.0f} s"
                raise UnavailableError(text, "check that the brokers run and have room on their disks")
            self._producer.poll(0.05)


def _producer_settings(
    cluster: KafkaCluster, pipeline: str, link: str, transaction_timeout_seconds: float
) -> dict[str, str | int | float | bool]:
    return {
        **cluster.client_settings(),
        "transactional.id": f"penstock.{pipeline}.{link}",
        "transaction.timeout.ms": int(transaction_timeout_seconds * 1000),
        "acks": "all",
        "linger.ms": 1,
        "compression.type": "lz4",
        "partitioner": "murmur2_random",
        "queue.buffering.max.messages": QUEUE_MESSAGES,
        "queue.buffering.max.kbytes": QUEUE_KIBIBYTES,
        "message.max.bytes": 104_857_600,
    }


def read_position(reader: TopicReader, topic: str) -> Mapping[str, object] | None:
    """Return the newest committed record in a position topic, None if there is none."""
    newest = reader.newest(topic)
    return None if newest is None else json.loads(newest)
