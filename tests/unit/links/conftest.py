"""Topics and a publisher in memory, which keep the promises of their ports."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from penstock.core.errors import UnavailableError
from penstock.core.schema_changes import SchemaChange
from penstock.core.spolts.raw import RawMessage
from penstock.core.tables import TableId
from penstock.ports.topics import Fetched

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from penstock.core.changes import Messages
    from penstock.core.errors import PositionError

SCHEMAS = "schemas"


class MemoryTopics:
    """Topics as lists of values; `before_ends` runs when somebody asks for ends of tables' topics."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        self.before_ends: list[Callable[[], None]] = []
        self.asked: list[str] = []
        self.topic_ids: dict[str, str] = {}
        self.first: dict[tuple[str, int], int] = {}
        self.undecided: dict[tuple[str, int], int] = {}
        """From which message on readers see nothing, as somebody's transaction is open."""

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Sequence[tuple[int, bytes]]]:
        yield list(enumerate(self.values[topic, partition]))[start:end]

    def read_together(
        self, ranges: Mapping[tuple[str, int], tuple[int, int]], bytes_max: int
    ) -> Iterator[tuple[tuple[str, int], Fetched]]:
        for place, (start, end) in ranges.items():
            room = bytes_max
            for offset, value in list(enumerate(self.values[place]))[start:end]:
                if room > 0:
                    yield place, Fetched([offset], [value], len(value))
                room -= len(value)

    def ends(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        if self.before_ends and partitions[0][0] != SCHEMAS:
            self.before_ends.pop(0)()
        self.asked.extend(topic for topic, _ in partitions)
        return {place: self.undecided.get(place, len(self.values[place])) for place in partitions}

    def settled_ends(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        for topic, _ in self.undecided.keys() & set(partitions):
            message = f"Kafka has not finished the transactions in {topic}"
            raise UnavailableError(message, "wait")
        return self.ends(partitions)

    def ids(self, topics: Collection[str]) -> Mapping[str, str]:
        return {topic: self.topic_ids.get(topic, f"id of {topic}") for topic in topics}

    def shapes(self, topics: Collection[str]) -> Mapping[str, tuple[str, int]]:
        counts = {topic: max(n for name, n in self.values if name == topic) + 1 for topic, _ in self.values}
        return {topic: (self.ids([topic])[topic], counts[topic]) for topic in topics if topic in counts}

    def begins(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        return {place: self.first.get(place, 0) for place in partitions}

    def read_messages(
        self,
        ranges: Mapping[tuple[str, int], tuple[int, int]],
        bytes_max: int,
    ) -> Mapping[tuple[str, int], Sequence[RawMessage]]:
        found: dict[tuple[str, int], list[RawMessage]] = {place: [] for place in ranges}
        for (topic, partition), (start, end) in ranges.items():
            room = bytes_max
            for offset in range(start, end):
                value = self.values[topic, partition][offset]
                if room > 0:
                    found[topic, partition].append(RawMessage(topic, partition, offset, 1, b"key", value))
                room -= len(value) + len(b"key")
        return found

    def close(self) -> None:
        """Nothing is open."""

    def announce(self, order: int, topic: str, *, follows: str = "", partitions: int = 1) -> None:
        """Announce a schema of the one table there is."""
        table = TableId("shop", "users")
        schema_change = SchemaChange("db", table, topic, follows, 1, order, partitions, (1, order, 0))
        self.values[SCHEMAS, 0].append(schema_change.to_json())

    def fill(self, topic: str, count: int, partition: int = 0) -> None:
        """Append messages that nobody will decode."""
        self.values[topic, partition].extend([b"message"] * count)


class MemoryPublisher:
    """Keeps what was committed; like Kafka's, it shows messages and record together or not at all."""

    def __init__(self) -> None:
        self.committed: list[bytes] = []
        self.records: list[Mapping[str, Any]] = []
        self.topic_ends: Sequence[int] = (0,)
        self.foreign: Mapping[str, PositionError] = {}

    def position(self) -> Mapping[str, object] | None:
        return self.records[-1] if self.records else None

    def left_over(self, topic: str) -> int:
        del topic
        return 0

    def take_foreign(self) -> Mapping[str, PositionError]:
        found, self.foreign = self.foreign, {}
        return found

    def partitions(self, topic: str) -> int:
        return len(self.ends(topic))

    def ends(self, topic: str) -> Sequence[int]:
        del topic
        return self.topic_ends

    def create_topics(self, topics: Iterable[str]) -> None:
        """Topics need no making."""

    def publish(self, messages: Iterable[Messages], record: Callable[[], Mapping[str, object]]) -> None:
        values = [value for part in messages for value in part.values.to_pylist() if value is not None]
        self.records.append(json.loads(json.dumps(record())))
        self.committed.extend(values)

    def save(self) -> None:
        """A record is there when it is published."""

    def settle(self) -> None:
        """Readers see at once what is published."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def topics() -> MemoryTopics:
    return MemoryTopics()


@pytest.fixture
def publisher() -> MemoryPublisher:
    return MemoryPublisher()
