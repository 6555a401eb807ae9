"""Reading topics by offset, committed messages only."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from penstock.adapters.kafka.cluster import REQUEST_TIMEOUT_SECONDS, KafkaCluster, explain
from penstock.core.errors import PositionError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_FETCH_MESSAGES = 10_000
_TAIL_OFFSETS = 64
_POLL_SECONDS = 0.5
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_ABSENT = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - librdkafka's own codes have an underscore
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError._NOENT,  # noqa: SLF001
    }
)


class TopicReader:
    """Reads ranges of offsets (ports/topics.TopicLog). It belongs to no consumer group and commits nothing."""

    def __init__(self, cluster: KafkaCluster) -> None:
        """Make the client; nothing is sent before the first read."""
        self._cluster = cluster
        self._admin: AdminClient | None = None
        self._consumer = Consumer(
            {
                **cluster.client_settings(),
                "group.id": "penstock-reader",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 20,
                "fetch.queue.backoff.ms": 5,
                "queued.max.messages.kbytes": 65_536,
            }
        )

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Sequence[tuple[int, bytes]]]:
        """Yield (offset, value) of the committed messages of `[start, end)`; see ports/topics.TopicLog."""
        if start >= end:
            return
        self._consumer.assign([TopicPartition(topic, partition, start)])
        deadline = time.monotonic() + REQUEST_TIMEOUT_SECONDS
        while True:
            fetched = self._fetch()
            if fetched:
                deadline = time.monotonic() + REQUEST_TIMEOUT_SECONDS
            messages, done = _messages_before(end, fetched)
            if messages:
                yield messages
            if done:
                return
            if time.monotonic() > deadline:
                text = f"Kafka sent nothing of {topic}/{partition} for {REQUEST_TIMEOUT_SECONDS:.0f} s"
                raise UnavailableError(text, "check that the brokers run and can be reached")

    def ends(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """For each (topic, partition): the first offset that is not yet committed. Absent ones are left out."""
        ends = _list_offsets(self._open_admin(), partitions, _LATEST)
        if len(ends) < len(partitions):
            # The client would remember for minutes that they are absent; a new one asks again.
            self._admin = None
        return ends

    def newest(self, topic: str, partition: int = 0) -> bytes | None:
        """Return the last committed value of a partition; None if the topic is empty or does not exist."""
        asked = [(topic, partition)]
        high = self.ends(asked).get((topic, partition))
        if high is None:
            return None
        low = _list_offsets(self._open_admin(), asked, _EARLIEST)[topic, partition]
        back = _TAIL_OFFSETS
        while True:
            start = max(low, high - back)
            newest = None
            for messages in self.read(topic, partition, start, high):
                newest = messages[-1][1]
            if newest is not None or start == low:
                return newest
            back *= 8

    def close(self) -> None:
        """Drop the connection."""
        self._consumer.close()

    def _fetch(self) -> list[Message]:
        """Return what is there. `consume` alone would wait for its whole number of messages."""
        first = self._consumer.poll(_POLL_SECONDS)
        return [] if first is None else [first, *self._consumer.consume(_FETCH_MESSAGES, timeout=0)]

    def _open_admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient(self._cluster.client_settings())
        return self._admin


def _messages_before(end: int, fetched: Sequence[Message]) -> tuple[list[tuple[int, bytes]], bool]:
    """Keep the messages before `end`; the flag says that nothing before `end` can follow."""
    messages: list[tuple[int, bytes]] = []
    for message in fetched:
        error, offset = message.error(), message.offset() or 0
        if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
            _judge(error, message)
        elif offset >= end:
            return messages, True
        elif error is None:
            messages.append((offset, message.value() or b""))
    return messages, bool(messages) and messages[-1][0] == end - 1


def _judge(error: KafkaError, message: Message) -> None:
    """Raise what reading cannot go on from; the client itself tries again after the rest."""
    if error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
        text = f"{message.topic()}/{message.partition()} no longer holds our offset: {error.str()}"
        raise PositionError(
            text, "the topic was deleted, recreated or expired while this link was away: copy its table again"
        )
    if not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
        raise explain(error, f"reading {message.topic()}")


def _list_offsets(
    admin: AdminClient, partitions: Sequence[tuple[str, int]], which: OffsetSpec
) -> Mapping[tuple[str, int], int]:
    if not partitions:
        return {}
    answers = admin.list_offsets(
        {TopicPartition(topic, partition): which for topic, partition in partitions},
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=REQUEST_TIMEOUT_SECONDS,
    )
    offsets = {}
    for partition, answer in answers.items():
        try:
            offsets[partition.topic, partition.partition] = answer.result(timeout=REQUEST_TIMEOUT_SECONDS).offset
        except KafkaException as error:
            if error.args[0].code() not in _ABSENT:
                raise explain(error, f"asking for the offsets of {partition.topic}") from error
    return offsets
