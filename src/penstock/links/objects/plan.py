"""Planning the S3 spolt: which offsets of which topics the next files hold.

A table whose type changes incompatibly goes on in a new topic, and its rows must
reach the target in the order of the log. So that no batch of the new topic
overtakes rows of the old one, the ends of topics are asked for newest first: by
the time the older topic's end is asked for, everything before the newer topic's
messages is committed in it. Schema-change events are read before the ends and again after
them, until none came in between: then every schema-change event that lies among the
planned rows is known, and all rows before it are planned or filed. All sources share
their topic, so it is read to where nothing is undecided: behind a message of one
source's open transaction readers see no event of another, while they see its rows. No file holds
rows from both sides of a schema-change event, and the schema-change events of a table that is
too far behind to be read to its end wait. Timelines are read after the ends, so that
of every planned row the timeline is known. What waits for more rows (`closing`) is not
planned, unless a schema-change event of its table is: those wait for all of its rows.
Of tables that have stopped nothing is planned (`stopping`).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.core.positions import Order, timeline_of
from penstock.core.schema_changes import read_schema_change
from penstock.core.timelines import TimelineBegan, timeline_starts
from penstock.core.topic_fingerprints import require_id, require_place
from penstock.links.objects.closing import AT_ONCE, Waiting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.changes import MessageFormat
    from penstock.core.schema_changes import SchemaChange
    from penstock.links.objects.closing import BatchClosing
    from penstock.links.objects.record import ObjectsRecord
    from penstock.ports.topics import TopicLog

_RANGE_OFFSETS_MAX = 250_000
_SETTLING_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class TopicRange:
    """Offsets `[start, end)` of one topic partition, to become files.

    The first file speaks for everything from `batch_start` on. `cuts` are places
    in the source's log that no file may span. `is_whole` says that the partition
    ended at `end` when it was planned, `topic_id` which topic of that name it was.
    What was read before ends in the source's log at `after`. `timelines` are the offsets
    at which the partition's timelines begin, each with its timeline. `format` is how
    its messages are written.
    """

    source: str
    table: str
    topic: str
    partition: int
    batch_start: int
    start: int
    end: int
    cuts: tuple[Order, ...]
    is_whole: bool = True
    topic_id: str = ""
    after: Order | None = None
    timelines: tuple[tuple[int, int], ...] = ((0, 0),)
    format: MessageFormat = "avro"


@dataclass(frozen=True, slots=True)
class ObjectsPlan:
    """One micro-batch: schema-change events that were not passed on yet, with their offsets, and ranges to write.

    Those from `settled` on came while we looked: rows before them may be missing here.
    """

    settled: int
    schema_changes: tuple[tuple[int, SchemaChange], ...]
    ranges: tuple[TopicRange, ...]


class ObjectsPlanner:
    """Knows every schema-change event so far, and asks Kafka what is new."""

    def __init__(
        self, log: TopicLog, schemas_topic: str, timelines_topic: str, closing: BatchClosing = AT_ONCE
    ) -> None:
        """Read nothing yet."""
        self._log = log
        self._waiting = Waiting(closing)
        self._schemas_topic = schemas_topic
        self._timelines_topic = timelines_topic
        self._timelines: list[TimelineBegan] = []
        self._timelines_read_to = 0
        self._schema_changes: list[tuple[int, SchemaChange]] = []
        self._read_to = 0

    def plan(self, record: ObjectsRecord, now_seconds: float = 0.0) -> ObjectsPlan:
        """Plan what lies between `record` and now; an empty plan if there is nothing, or all of it may wait for more.

        `now_seconds` is of any clock that only goes forward, the same in each call.
        Raises PositionError for a topic that is gone, was made anew or cut short, and
        UnavailableError where events, or timelines, stay undecided.
        """
        if not self._schema_changes:
            self._read_ledgers()
        for _ in range(_SETTLING_ROUNDS):
            known = self._read_to
            ends = self._ends()
            self._read_ledgers()
            if self._read_to == known:
                break
        new = [
            (offset, schema_change) for offset, schema_change in self._schema_changes if not record.has_passed(offset)
        ]
        told = {name for _, a in new for name in ((a.source, str(a.table)), *((a.source, m.origin) for m in a.moves))}
        self._waiting.begin(now_seconds, told, record.message_bytes)
        ranges = self._identified(record, self._ranges(record, ends))
        return ObjectsPlan(max(known, record.schemas_offset), tuple(new), tuple(ranges))

    def _identified(self, record: ObjectsRecord, ranges: Sequence[TopicRange]) -> list[TopicRange]:
        """Tell in each range which topic of that name it is of, the one that was read before."""
        ids = self._log.ids(sorted({r.topic for r in ranges}))
        for topic, topic_id in ids.items():
            require_id(topic, record.ids.get(topic, ""), topic_id)
        return [replace(r, topic_id=ids.get(r.topic, "")) for r in ranges]

    def stop_waiting(self) -> None:
        """Plan all that there is from now on."""
        self._waiting = Waiting(AT_ONCE)

    def starts(self, record: ObjectsRecord) -> Mapping[tuple[str, int], int]:
        """Behind what of each (topic, partition) something is new to a plan from `record`."""
        read = [a for topic, a in self._topics().items() if record.reads(a.source, str(a.table), topic)]
        topics = {(a.topic, number) for a in read for number in range(a.partitions)}
        tables = {place: record.places.get(place, (0, 0))[1] for place in topics}
        return {(self._schemas_topic, 0): self._read_to, (self._timelines_topic, 0): self._timelines_read_to, **tables}

    def _read_ledgers(self) -> None:
        """Read the schema-change events and the timelines that are new."""
        schemas, timelines = (self._schemas_topic, 0), (self._timelines_topic, 0)
        ends = self._log.settled_ends([schemas, timelines])
        for messages in self._log.read(*schemas, self._read_to, ends.get(schemas, 0)):
            self._schema_changes.extend(
                (offset, read_schema_change(self._schemas_topic, offset, value)) for offset, value in messages
            )
        self._read_to = max(self._read_to, ends.get(schemas, 0))
        for messages in self._log.read(*timelines, self._timelines_read_to, ends.get(timelines, 0)):
            self._timelines.extend(TimelineBegan.from_json(value) for _, value in messages)
        self._timelines_read_to = max(self._timelines_read_to, ends.get(timelines, 0))

    def _topics(self) -> dict[str, SchemaChange]:
        """The newest schema-change event of each topic, with the most partitions that any event said of it.

        A topic does not lose partitions; older releases said how many the config asked for by then.
        """
        newest: dict[str, SchemaChange] = {}
        for _, told in self._schema_changes:
            before = newest.get(told.topic)
            fewer = before is not None and before.partitions > told.partitions
            newest[told.topic] = replace(told, partitions=before.partitions) if before and fewer else told
        return newest

    def _ends(self) -> Mapping[tuple[str, int], int]:
        topics = self._topics()
        by_generation: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for topic, schema_change in topics.items():
            by_generation[_generation(topic, topics)].extend((topic, p) for p in range(schema_change.partitions))
        ends: dict[tuple[str, int], int] = {}
        for generation in sorted(by_generation, reverse=True):
            ends.update(self._log.ends(by_generation[generation]))
        return ends

    def _ranges(self, record: ObjectsRecord, ends: Mapping[tuple[str, int], int]) -> list[TopicRange]:
        """Plan the ranges; nothing of a topic that follows one which they do not read to its end."""
        topics, cuts, begins = self._topics(), self._cuts(), self._begins()
        ranges: list[TopicRange] = []
        behind: set[str] = set()
        for topic in sorted(topics, key=lambda name: (_generation(name, topics), name)):
            schema_change = topics[topic]
            if not record.reads(schema_change.source, str(schema_change.table), topic):
                continue
            if schema_change.follows in behind:
                behind.add(topic)
                continue
            table = (schema_change.source, str(schema_change.table))
            for partition in range(schema_change.partitions):
                batched, start = record.places.get((topic, partition), (0, 0))
                if start == begins.get((topic, partition)) and ends.get((topic, partition), start) < start:
                    # Before the table's new beginning somebody's transaction is not decided yet.
                    continue
                require_place(topic, partition, start, ends.get((topic, partition)))
                last = ends.get((topic, partition), 0)
                end = min(last, start + _RANGE_OFFSETS_MAX)
                waits = end > start and self._waiting.waits(table, (topic, partition), start, last)
                if end < last or waits:
                    behind.add(topic)
                if end > start and not waits:
                    place = (partition, batched, start, end)
                    timelines = self._timelines_of(schema_change.source, topic, partition)
                    after = record.reached.get((topic, partition))
                    planned = TopicRange(*table, topic, *place, tuple(cuts[table]), timelines=timelines)
                    ranges.append(replace(planned, is_whole=end == last, after=after, format=schema_change.format))
        return ranges

    def _timelines_of(self, source: str, topic: str, partition: int) -> tuple[tuple[int, int], ...]:
        """The offsets at which timelines begin; the first one is that in which the topic was announced."""
        if not self._timelines:
            return ((0, 0),)
        first = min(timeline_of(a.order) for _, a in self._schema_changes if a.topic == topic)
        return timeline_starts(
            [timeline for timeline in self._timelines if timeline.source == source], topic, partition, first
        )

    def _begins(self) -> Mapping[tuple[str, int], int]:
        """Where each (topic, partition) ended when its table began anew for the last time."""
        return {(a.topic, partition): end for _, a in self._schema_changes for partition, end in enumerate(a.begins)}

    def _cuts(self) -> Mapping[tuple[str, str], list[Order]]:
        """Where each (source, table) was announced."""
        cuts: dict[tuple[str, str], list[Order]] = defaultdict(list)
        for _, schema_change in self._schema_changes:
            cuts[schema_change.source, str(schema_change.table)].append(schema_change.order)
        return cuts


def _generation(topic: str, topics: Mapping[str, SchemaChange]) -> int:
    """How many topics of the same table came before this one."""
    generation = 0
    while (before := topics[topic].follows) in topics:
        topic = before
        generation += 1
    return generation
