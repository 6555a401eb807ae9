"""A S3 spolt in memory, whose batch topic begins later with every sweep."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.unit.links.conftest import MemoryPublisher, MemoryTopics

from penstock.adapters.kafka.topics import position_topic
from penstock.core.batches import Batch, read_batch
from penstock.core.errors import FencedError, PositionError
from penstock.core.schema_changes import Move, SchemaChange, SchemaChangeKind
from penstock.core.tables import TableId
from penstock.links.objects.plan import ObjectsPlan, TopicRange
from penstock.links.objects.publish import BatchPublisher
from penstock.links.objects.trimming import BatchTrimming
from penstock.links.objects.write import RangeWritten
from penstock.wiring.fills import SnapshotFills, deleted_topics
from penstock.wiring.open import OBJECTS_LINK, batch_topic, schema_changes_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from penstock.config.specs import PipelineSpec
    from penstock.core.changes import Messages


JOINED = "joined"
CREATE, DROP, RENAME, SCHEMA, TRUNCATE = (
    SchemaChangeKind.CREATE,
    SchemaChangeKind.DROP,
    SchemaChangeKind.RENAME,
    SchemaChangeKind.SCHEMA,
    SchemaChangeKind.TRUNCATE,
)


class TrimmedTopics(MemoryTopics):
    """Topics of which the messages before `first` are gone, and nobody reads them."""

    admin = None

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Sequence[tuple[int, bytes]]]:
        if start < self.first.get((topic, partition), 0):
            message = f"{start} of {topic} was thrown away"
            raise PositionError(message, "")
        return super().read(topic, partition, start, end)

    def newest(self, topic: str) -> bytes | None:
        return next(reversed(self.values[topic, 0]), None)


@dataclass
class Tail:
    """Follows one place of them."""

    log: TrimmedTopics
    starts: Mapping[tuple[str, int], int]

    def take(self, _messages_max: int, _wait_seconds: float) -> Sequence[tuple[tuple[str, int], int, bytes]]:
        ((place, start),) = self.starts.items()
        return [(place, *each) for part in self.log.read(*place, start, start + 1) for each in part]

    def close(self) -> None:
        """Nothing is open."""


class TopicsPublisher(MemoryPublisher):
    """Publishes to `TrimmedTopics`, unless another one has taken over."""

    def __init__(self, topics: TrimmedTopics) -> None:
        super().__init__()
        self._topics = topics
        self.is_replaced = False

    def publish(self, messages: Iterable[Messages], record: Callable[[], Mapping[str, object]]) -> None:
        if self.is_replaced:
            message = "another producer has taken over"
            raise FencedError(message, "")
        told = list(messages)
        super().publish(told, record)
        for part in told:
            self._topics.values[part.topic, 0].extend(value for value in part.values.to_pylist() if value is not None)
        self._topics.values[position_topic("p", OBJECTS_LINK), 0].append(json.dumps(self.records[-1]).encode())


@dataclass
class World:
    """What captures told, and a S3 spolt that passes it on."""

    spec: PipelineSpec
    log: TrimmedTopics = field(default_factory=TrimmedTopics)
    order: int = 0
    topics: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kafka = TopicsPublisher(self.log)
        self.publisher = BatchPublisher(self.kafka, self.batches, 1)
        self.told = self.log.values[schema_changes_topic(self.spec), 0]

    @property
    def batches(self) -> str:
        return batch_topic(self.spec)

    @property
    def end(self) -> int:
        return len(self.log.values[self.batches, 0])

    @property
    def begin(self) -> int:
        return self.log.first.get((self.batches, 0), 0)

    def messages(self) -> list[Batch]:
        """Every message that there ever was."""
        return [read_batch(offset, value) for offset, value in enumerate(self.log.values[self.batches, 0])]

    def tell(self, kind: SchemaChangeKind, tables: tuple[str, str], *, has_key: bool, source: str = "s") -> None:
        """Tell of a statement as captures do: of each table that gets rows or a schema, and of those that end."""
        self.order += 1
        first, second = (f"shop.{name}" for name in tables)
        is_known = first in self.topics
        if kind is not CREATE and not is_known:
            kind = SCHEMA
        if kind is RENAME and second in self.topics:
            # The one takes the other's rows; every other time, both are swapped.
            moves = [Move(second, first, 2), *([Move(first, second, 2)] if self.order % 2 else [])]
            self._announce(RENAME, first, moves, has_key=has_key, source=source)
            self._announce(RENAME if self.order % 2 else DROP, second, moves, has_key=has_key, source=source)
            if not self.order % 2:
                del self.topics[second]
            return
        self._announce(SCHEMA if kind is RENAME else kind, first, [], has_key=has_key, source=source)
        if kind is DROP:
            del self.topics[first]

    def _announce(
        self, kind: SchemaChangeKind, table: str, moves: Sequence[Move], *, has_key: bool, source: str
    ) -> None:
        topic = self.topics[table] if kind in {DROP, TRUNCATE} else f"{source}.{table}.{has_key}"
        self.topics[table] = topic
        key = 1 if topic.endswith("True") else None
        place = (1, self.order, 0)
        change = SchemaChange(source, TableId.parse(table), topic, "", key, 2, 1, place, kind, moves=tuple(moves))
        if kind is SCHEMA:
            # A snapshot for one link; each third begins, each third ends for it.
            links = ("", "s-to-a", ""), ("", "", "s-to-a")
            change = replace(change, begins_for=links[0][self.order % 3], ends_for=links[1][self.order % 3])
        self.told.append(change.to_json())

    def pass_on(self, behind: Collection[str]) -> None:
        """Pass on what the spolt may, and a file of each table that it reads to its end."""
        record = self.publisher.record
        told = [SchemaChange.from_json(value) for value in self.told]
        new = tuple((offset, each) for offset, each in enumerate(told) if not record.has_passed(offset))
        self.order += 1
        written = [self._write(table, topic, is_behind=table[5:] in behind) for table, topic in self.topics.items()]
        self.publisher.publish(ObjectsPlan(len(told), new, ()), written)

    def _write(self, table: str, topic: str, *, is_behind: bool) -> RangeWritten:
        start = self.publisher.record.places.get((topic, 0), (0, 0))[0]
        source = topic.partition(".")[0]
        asked = TopicRange(source, table, topic, 0, start, start, start + 1, (), not is_behind)
        place = (1, self.order, 0)
        batch = Batch(
            source, TableId.parse(table), topic, 0, start, start + 1, 1, "f", 1, "parquet", 2, place, place, 1
        )
        return RangeWritten(asked, start if is_behind else start + 1, () if is_behind else (batch,))

    def sweep(self, deleted_to: int, loaded: int) -> bool:
        """Let messages go behind files that are deleted."""
        self.publisher.forget_files(deleted_to, deleted_to)
        return self.trim(loaded)

    def trim(self, loaded: int) -> bool:
        place = (self.batches, 0)
        trimming = BatchTrimming(self.log, self.batches, lambda before: self.log.first.update({place: before}))
        return trimming.trim(self.publisher, loaded, deleted_topics(self.spec, self.log, self.publisher.record))

    def fills(self) -> SnapshotFills:
        return SnapshotFills(self.spec, self.spec.links[0], self.publisher.record)
