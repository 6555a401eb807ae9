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
        done = False
        for fetched in self._fetches(topic):
            messages: list[tuple[int, bytes]] = []
            for message in fetched:
                done = done or _ends_at(message, end)
                if not done and message.error() is None:
                    messages.append(_entry(message))
            done = done or (bool(messages) and messages[-1][0] == end - 1)
            if messages:
                yield messages
            if done:
                self._consumer.unassign()
                return

    def read_together(
        self, ranges: Mapping[tuple[str, int], tuple[int, int]], bytes_max: int
    ) -> Mapping[tuple[str, int], Sequence[tuple[int, bytes]]]:
        """Read many ranges at once; see ports/topics.TopicLog."""
        read: dict[tuple[str, int], list[tuple[int, bytes]]] = {place: [] for place in ranges}
        room = {place: bytes_max for place, (start, end) in ranges.items() if start < end}
        self._consumer.assign([TopicPartition(*place, ranges[place][0]) for place in room])
        for fetched in self._fetches(f"{len(room)} topics") if room else ():
            for message in fetched:
                place = (message.topic() or "", message.partition() or 0)
                if place not in room:
                    continue
                end = ranges[place][1]
                if _ends_at(message, end):
                    del room[place]
                elif message.error() is None:
                    offset, value = _entry(message)
                    read[place].append((offset, value))
                    room[place] -= len(value)
                    if offset == end - 1 or room[place] <= 0:
                        del room[place]
            if not room:
                break
        # Whatever stays assigned is fetched on and on in the background.
        self._consumer.unassign()
        return read

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

    def _fetches(self, what: str) -> Iterator[list[Message]]:
        """Yield what comes in, for ever. `consume` alone would wait for its whole number of messages."""
        deadline = time.monotonic() + REQUEST_TIMEOUT_SECONDS
        while True:
            first = self._consumer.poll(_POLL_SECONDS)
            if first is not None:
                deadline = time.monotonic() + REQUEST_TIMEOUT_SECONDS
                yield [first, *self._consumer.consume(_FETCH_MESSAGES, timeout=0)]
            elif time.monotonic() > deadline:
                text = f"Kafka sent nothing of {what} for {REQUEST_TIMEOUT_SECONDS:.0f} s"
                raise UnavailableError(text, "check that the brokers run and can be reached")

    def _open_admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient(self._cluster.client_settings())
        return self._admin


def undecided(admin: AdminClient, partitions: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return those (topic, partition) that hold messages of transactions which have not ended there yet."""
    written = _list_offsets(admin, partitions, _LATEST, IsolationLevel.READ_UNCOMMITTED)
    committed = _list_offsets(admin, partitions, _LATEST)
    return [place for place, end in written.items() if committed.get(place, end) < end]


def _ends_at(message: Message, end: int) -> bool:
    """Whether nothing before `end` can follow in the message's partition. Raises for errors that do not pass."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
        _judge(error, message)
        return False
    return (message.offset() or 0) >= end


def _entry(message: Message) -> tuple[int, bytes]:
    return message.offset() or 0, message.value() or b""


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
    admin: AdminClient,
    partitions: Sequence[tuple[str, int]],
    which: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> Mapping[tuple[str, int], int]:
    if not partitions:
        return {}
    answers = admin.list_offsets(
        {TopicPartition(topic, partition): which for topic, partition in partitions},
        isolation_level=isolation,
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
