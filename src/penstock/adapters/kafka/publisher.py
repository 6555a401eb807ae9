"""The transactional publisher: messages and their position record in one Kafka transaction.

Fencing is Kafka's own (KIP-98): `init_transactions` raises the epoch of the
transactional id, aborts what an older producer left open, and every later
request of that older producer is refused.
"""

from __future__ import annotations

import json
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from penstock.adapters.kafka.cluster import TRANSACTION_SECONDS, KafkaCluster, create_topics, explain
from penstock.adapters.kafka.described import describe_topics, explain_publishing
from penstock.adapters.kafka.ends import ends_now
from penstock.adapters.kafka.producer import TransactionalProducer
from penstock.adapters.kafka.reader import TopicReader
from penstock.adapters.kafka.topic_fingerprints import TopicFingerprints
from penstock.adapters.kafka.topics import POSITION_SETTINGS, create_own_topics, fingerprint_topic, position_topic
from penstock.config.crash_points import CrashPoint
from penstock.core.errors import PenstockError, PositionError
from penstock.core.kafka.records import encode_listed
from penstock.core.kafka.shares import shares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.core.changes import Messages
    from penstock.ports.publisher import MessageCheck

_FINGERPRINT_MESSAGES = 200_000
"""So many are read again, at most, to hold the topics against the record: about a second."""
_FINGERPRINT_AT_ONCE_MESSAGES = 10_000
"""After so many a topic fingerprint does not wait for the next transaction: whoever comes next would read them all."""

_FENCED_OTHERS = CrashPoint("publisher.opened", "older publishers are fenced, nothing is committed by this one")
_SENT_MESSAGES = CrashPoint("publish.messages_sent", "messages are with the producer, their record is not")
_SENT_ALL = CrashPoint("publish.sent", "brokers have messages and record, nothing is committed")
_COMMITTED = CrashPoint("publish.committed", "the transaction is committed, and only Kafka knows")


class TransactionalPublisher:
    """Publishes for one link of one pipeline (ports/publisher.Publisher)."""

    def __init__(
        self,
        cluster: KafkaCluster,
        pipeline: str,
        link: str,
        transaction_timeout_seconds: float = TRANSACTION_SECONDS,
        check: MessageCheck | None = None,
        reader: TopicReader | None = None,
    ) -> None:
        """Fence older publishers of the link, and hold its record against its topics; see ports/publisher.Publisher.

        Topics are read with `reader`, which stays open; without it, with one that is
        opened for that. Raises UnavailableError when Kafka does not answer.
        """
        self._cluster = cluster
        self._position_topic = position_topic(pipeline, link)
        self._link = link
        self._unsettled: set[str] = set()
        with ExitStack() as opened:
            reader = reader or opened.enter_context(closing(TopicReader(cluster)))
            own = [self._position_topic, fingerprint_topic(pipeline, link)]
            create_topics(cluster, own, POSITION_SETTINGS, partitions=1, admin=reader.admin)
            try:
                identity = f"penstock.{pipeline}.{link}"
                self._producer = TransactionalProducer(cluster, identity, transaction_timeout_seconds)
            except KafkaException as error:
                raise explain(error, f"starting transactions of {link}") from error
            opened_producer = opened.enter_context(ExitStack())
            opened_producer.callback(self._producer.close)
            _FENCED_OTHERS.maybe_crash()
            # Kafka has ended every transaction before ours by now.
            self._position = reader.newest(self._position_topic)
            self._admin = reader.admin
            self._fingerprints = TopicFingerprints(cluster, self._admin, pipeline, link, check)
            self._fingerprints.verify(self.position(), reader)
            self._fingerprints.meet([self._position_topic])
            opened_producer.pop_all()

    def position(self) -> Mapping[str, object] | None:
        """Return the newest committed record of this link, None before the first."""
        return None if self._position is None else json.loads(self._position)

    def left_over(self, topic: str) -> int:
        """How many messages of ours are in `topic`, at most; see ports/publisher.Publisher."""
        return self._fingerprints.found(topic)

    def take_foreign(self) -> Mapping[str, PositionError]:
        """See ports/publisher.CapturePublisher: what was found when this was opened."""
        found, self._fingerprints.foreign = self._fingerprints.foreign, {}
        return found

    def partitions(self, topic: str) -> int:
        """See ports/publisher.CapturePublisher."""
        return self._fingerprints.partitions(topic)

    def ends(self, topic: str) -> Sequence[int]:
        """See ports/publisher.CapturePublisher."""
        return ends_now(self._admin, topic, self._fingerprints.partitions(topic))

    def create_topics(self, topics: Iterable[str]) -> None:
        """Create those of `topics` that do not exist; see ports/publisher.Publisher."""
        new = [topic for topic in topics if not self._fingerprints.knows(topic)]
        if new:
            create_own_topics(self._cluster, new, self._admin)
            self._fingerprints.meet(new)

    def publish(self, messages: Iterable[Messages], record: Callable[[], Mapping[str, object]]) -> None:
        """Commit `messages` and `record` together; see ports/publisher.Publisher."""
        for error in self._fingerprints.foreign.values():
            raise error
        if self._fingerprints.messages >= _FINGERPRINT_MESSAGES:
            self.settle()
        try:
            self._producer.begin()
            self._unsettled.add(self._position_topic)
            for topic_messages in messages:
                self._unsettled.add(topic_messages.topic)
                self.create_topics([topic_messages.topic])
                self._produce(topic_messages)
                self._fingerprints.count(topic_messages.topic, len(topic_messages))
            self._produce_fingerprint()
            _SENT_MESSAGES.maybe_crash()
            value = json.dumps(self._fingerprints.stamp(record())).encode()
            self._produce_own(self._position_topic, value)
            self._producer.flush()
            _SENT_ALL.maybe_crash()
            self._commit()
            self._position = value
            _COMMITTED.maybe_crash()
        except KafkaException as error:
            ended = self._producer.abort(error)
            self._require_topics(error)
            raise explain_publishing(self._cluster, self._unsettled, ended, self._link) from error
        except BaseException:
            self._producer.abort()
            raise

    def save(self) -> None:
        """Do nothing: a record is committed with its messages."""

    def settle(self) -> None:
        """Wait until the markers of our commits are written; see ports/publisher.Publisher."""
        described = describe_topics(self._admin, self._unsettled)
        partitions = [(topic, number) for topic, (_, count) in described.items() for number in range(count)]
        ends = self._fingerprints.settled_ends(partitions)
        counted = self._fingerprints.messages
        self._fingerprints.take(described, ends)
        self._unsettled.clear()
        if counted >= _FINGERPRINT_AT_ONCE_MESSAGES:
            self._fingerprint()

    def _fingerprint(self) -> None:
        """Commit the fingerprint alone: the newest record builds on an older one, so nothing came behind this one."""
        try:
            self._producer.begin()
            self._produce_fingerprint()
            self._commit()
        except KafkaException as error:
            raise explain(self._producer.abort(error), f"publishing for {self._link}") from error

    def _produce_fingerprint(self) -> None:
        fingerprint = self._fingerprints.uncommitted()
        if fingerprint is not None:
            self._produce_own(self._fingerprints.topic, fingerprint)

    def _produce_own(self, topic: str, value: bytes) -> None:
        for records in encode_listed([self._link.encode()], [value]):
            self._producer.produce(topic, 0, records)

    def _commit(self) -> None:
        self._producer.commit()
        self._fingerprints.commit()

    def _require_topics(self, failure: KafkaException) -> None:
        """Raise PositionError if publishing failed because a topic was deleted; nothing if that cannot be known now."""
        try:
            self._fingerprints.require_topics()
        except PositionError as error:
            raise error from failure
        except PenstockError:
            return

    def close(self) -> None:
        """Abort what is open and drop the connection."""
        self._producer.abort()
        self._producer.close()

    def _produce(self, messages: Messages) -> None:
        for partition, records in shares(messages, self._fingerprints.partitions(messages.topic)):
            self._producer.produce(messages.topic, partition, records)


def read_position(reader: TopicReader, topic: str) -> Mapping[str, object] | None:
    """Return the newest committed record in a position topic, None if there is none."""
    newest = reader.newest(topic)
    return None if newest is None else json.loads(newest)
