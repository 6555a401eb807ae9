"""Live figures of a topic, asked of Kafka: short time limits, few questions, answers kept for some seconds.

Source: Kafka's protocol, ListOffsets (earliest, latest and the greatest
timestamp of a partition, KIP-734), ListGroups and OffsetFetch. Ends are asked
at read_committed. They count places in the log: what compaction removed and what
transactions wrote for themselves is in them.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from concurrent.futures import Future

_REQUEST_SECONDS = 2.0
_KEPT_SECONDS = 5.0
_TOPICS_KEPT_MAX = 1000
_GROUPS_MAX = 100


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """A consumer group that has committed offsets of the topic, and how many messages it has before it."""

    name: str
    state: str
    lag: int


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """What Kafka says of a topic; `last_message_ms` is None for an empty one, `problem` "" where all was answered."""

    partitions: int = 0
    messages: int = 0
    last_message_ms: int | None = None
    groups: tuple[GroupFigures, ...] = ()
    groups_not_asked: int = 0
    problem: str = ""


class KafkaFigures:
    """Asks one cluster. Any number of threads may share it; one of them asks at a time, for all that wait."""

    def __init__(self, bootstrap_servers: str) -> None:
        """Name the brokers; nothing is asked yet."""
        self.bootstrap_servers = bootstrap_servers
        self._lock = threading.Lock()
        self._client: AdminClient | None = None
        self._kept: dict[str, tuple[float, TopicFigures]] = {}

    def read(self, topic: str) -> TopicFigures:
        """Return the figures of `topic`, at most some seconds old. What goes wrong is in `problem`."""
        if not self._lock.acquire(timeout=2 * _REQUEST_SECONDS):
            return TopicFigures(problem="Kafka is slow to answer others; try again in a moment")
        try:
            asked, figures = self._kept.get(topic, (-_KEPT_SECONDS, TopicFigures()))
            if time.monotonic() - asked < _KEPT_SECONDS:
                return figures
            figures = self._ask(topic)
            if len(self._kept) >= _TOPICS_KEPT_MAX:
                self._kept.clear()
            self._kept[topic] = (time.monotonic(), figures)
            return figures
        finally:
            self._lock.release()

    def _ask(self, topic: str) -> TopicFigures:
        try:
            if self._client is None:
                self._client = AdminClient(
                    {"bootstrap.servers": self.bootstrap_servers, "client.id": "penstock-schematizer", "log_level": 2}
                )
            found = self._client.list_topics(topic, timeout=_REQUEST_SECONDS).topics[topic]
            if found.error is not None:
                return TopicFigures(problem=f"Kafka has no such topic yet ({found.error.str()})")
            return self._figures(self._client, topic, list(found.partitions))
        except (KafkaException, TimeoutError) as error:
            return TopicFigures(problem=f"Kafka at {self.bootstrap_servers} did not answer: {_reason(error)}")

    def _figures(self, client: AdminClient, topic: str, partitions: list[int]) -> TopicFigures:
        begins = _offsets(client, topic, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        ends = _offsets(client, topic, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        newest = _offsets(client, topic, partitions, OffsetSpec.max_timestamp())  # type: ignore[no-untyped-call]
        last = max((timestamp for _, timestamp in newest.values()), default=-1)
        groups, not_asked = _groups(client, topic, {number: end for number, (end, _) in ends.items()})
        return TopicFigures(
            len(partitions),
            sum(end - begins[number][0] for number, (end, _) in ends.items()),
            last if last >= 0 else None,
            groups,
            not_asked,
        )


def _offsets(
    client: AdminClient, topic: str, partitions: Iterable[int], wanted: OffsetSpec
) -> Mapping[int, tuple[int, int]]:
    """Return offset and timestamp of each partition."""
    asked = {TopicPartition(topic, number): wanted for number in partitions}
    futures = client.list_offsets(
        asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_REQUEST_SECONDS
    )
    answers = {place.partition: future.result(_REQUEST_SECONDS) for place, future in futures.items()}
    return {number: (answer.offset, answer.timestamp) for number, answer in answers.items()}


def _groups(client: AdminClient, topic: str, ends: Mapping[int, int]) -> tuple[tuple[GroupFigures, ...], int]:
    """Return the groups that have offsets of `topic`, and how many there are that were not asked."""
    listed = client.list_consumer_groups(request_timeout=_REQUEST_SECONDS).result(_REQUEST_SECONDS).valid
    places = [TopicPartition(topic, number) for number in ends]
    asked = sorted(listed, key=lambda group: group.group_id)[:_GROUPS_MAX]
    futures: list[tuple[str, str, Future[ConsumerGroupTopicPartitions]]] = []
    for group in asked:
        request = [ConsumerGroupTopicPartitions(group.group_id, places)]
        answers = client.list_consumer_group_offsets(request, request_timeout=_REQUEST_SECONDS)
        state = group.state.name.lower().replace("_", " ") if group.state is not None else ""
        futures.append((group.group_id, state, answers[group.group_id]))
    found = []
    for name, state, future in futures:
        offsets = {each.partition: each.offset for each in future.result(_REQUEST_SECONDS).topic_partitions or ()}
        # A group has no place in a partition that it never committed: librdkafka says a negative number.
        if any(offset >= 0 for offset in offsets.values()):
            lag = sum(max(end - max(offsets.get(number, 0), 0), 0) for number, end in ends.items())
            found.append(GroupFigures(name, state, lag))
    return tuple(found), max(len(listed) - len(asked), 0)


def _reason(error: Exception) -> str:
    if isinstance(error, KafkaException):
        return str(error.args[0].str())
    return f"no answer within {_REQUEST_SECONDS:g} seconds"
