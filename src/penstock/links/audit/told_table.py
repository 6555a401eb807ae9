"""What captures have told of one table: its topics, and from where on its rows count."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from penstock.core.positions import timeline_of
from penstock.core.schema_changes import SchemaChangeKind, read_schema_change
from penstock.core.timelines import TimelineBegan, timeline_starts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.core.changes import MessageFormat
    from penstock.core.positions import Order
    from penstock.core.schema_changes import SchemaChange
    from penstock.core.tables import TableId
    from penstock.ports.topics import TopicLog

_BEGINNINGS = frozenset({SchemaChangeKind.TRUNCATE, SchemaChangeKind.CREATE, SchemaChangeKind.DROP})


@dataclass(frozen=True, slots=True)
class ToldTable:
    """The table's topics, oldest first, each with its partitions; changes before `begins` in the log count no more.

    `refusal` says why its changes cannot be folded, "" if they can. What a (topic, partition) has
    before its offset in `first_offsets` is of before the table began anew.
    """

    topics: tuple[tuple[str, int], ...] = ()
    begins: Order | None = None
    refusal: str = ""
    first_offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)


class TopicsOfTables(Protocol):
    """Who knows the topics of tables."""

    def read(self) -> None:
        """Read what is new. Raises UnavailableError."""
        ...

    def of(self, source: str, table: TableId) -> ToldTable:
        """What is known of a table."""
        ...

    def timelines(self, source: str, topic: str, partition: int) -> tuple[tuple[int, int], ...]:
        """The offsets at which timelines begin in a partition, each with its timeline."""
        ...


class NamedTopics:
    """The topics of one table, oldest first, as the registry names them.

    Statements that emptied the table, and failovers, are not known: only a pipeline tells of them.
    """

    def __init__(self, topics: Sequence[str], shapes: Callable[[Sequence[str]], Mapping[str, tuple[str, int]]]) -> None:
        """Read nothing yet. `shapes` asks for the id and the number of partitions of those topics that exist."""
        self._topics = topics
        self._shapes = shapes
        self._found: Mapping[str, tuple[str, int]] = {}

    def read(self) -> None:
        """See TopicsOfTables."""
        self._found = self._shapes(self._topics)

    def of(self, source: str, table: TableId) -> ToldTable:  # noqa: ARG002 - there is only one
        """See TopicsOfTables."""
        gone = [topic for topic in self._topics if topic not in self._found]
        refusal = f"there is no topic {gone[0]}, which has changes of its rows" if gone else ""
        there = [topic for topic in self._topics if topic in self._found]
        return ToldTable(tuple((topic, self._found[topic][1]) for topic in there), None, refusal)

    def timelines(self, source: str, topic: str, partition: int) -> tuple[tuple[int, int], ...]:  # noqa: ARG002 - as above
        """See TopicsOfTables."""
        return ((0, 0),)


class ToldTables:
    """Reads the schemas topic, and the one of timelines, of a pipeline. What was read is never changed."""

    def __init__(self, log: TopicLog, schemas_topic: str, timelines_topic: str) -> None:
        """Read nothing yet."""
        self._log = log
        self._topics = (schemas_topic, timelines_topic)
        self._read_to = dict.fromkeys(self._topics, 0)
        self._changes: list[SchemaChange] = []
        self._timelines: list[TimelineBegan] = []

    def read(self) -> None:
        """Read what is new. Raises UnavailableError."""
        schemas, timelines = self._topics
        self._changes += [read_schema_change(schemas, *message) for message in self._new(schemas)]
        self._timelines += [TimelineBegan.from_json(value) for _, value in self._new(timelines)]

    def of(self, source: str, table: TableId) -> ToldTable:
        """What is known of a table."""
        topics: dict[str, int] = {}
        begins, refusal, last = None, "", ""
        first_offsets: dict[tuple[str, int], int] = {}
        for change in self._changes:
            if (change.source, change.table) != (source, table):
                continue
            if change.topic in topics and change.topic != last:
                refusal = f"it went back to the topic {change.topic}, which it had before"
            last = change.topic
            topics[last] = change.partitions
            first_offsets |= {(last, partition): offset for partition, offset in enumerate(change.begins)}
            if change.kind in _BEGINNINGS:
                begins, refusal = change.order, ""
            elif change.kind is SchemaChangeKind.RENAME:
                refusal = "its rows came from another table by RENAME, whose topic is not looked into"
        return ToldTable(tuple(topics.items()), begins, refusal, first_offsets)

    def timelines(self, source: str, topic: str, partition: int) -> tuple[tuple[int, int], ...]:
        """The offsets at which timelines begin in a partition, each with its timeline."""
        first = min((timeline_of(each.order) for each in self._changes if each.topic == topic), default=0)
        mine = [timeline for timeline in self._timelines if timeline.source == source]
        return timeline_starts(mine, topic, partition, first)

    def format(self, topic: str) -> MessageFormat:
        """How the messages of a topic are written."""
        return next((each.format for each in reversed(self._changes) if each.topic == topic), "avro")

    def _new(self, topic: str) -> Sequence[tuple[int, bytes]]:
        end = self._log.ends([(topic, 0)]).get((topic, 0), 0)
        start, self._read_to[topic] = self._read_to[topic], max(end, self._read_to[topic])
        return [each for messages in self._log.read(topic, 0, start, end) for each in messages]
