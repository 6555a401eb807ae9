"""Planning a spolt: which offsets of which topics its next micro-batch reads.

A table whose type changes incompatibly goes on in a new topic. Nothing of that is
read before the older topic was read to its end: by the time the new one is
announced, everything that will ever be in the old one is committed. Ends are
asked for behind the schema-change events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.schema_changes import read_schema_change
from penstock.core.topic_fingerprints import require_id, require_place
from penstock.links.spolts.emptied import EmptiedTables

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.config.spolts import InputSpec, SpoltSpec
    from penstock.core.schema_changes import SchemaChange
    from penstock.links.spolts.record import SpoltRecord
    from penstock.ports.messages import MessageLog
    from penstock.ports.topics import TopicLog

_RANGE_OFFSETS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class InputRange:
    """Offsets `[start, end)` of one topic partition. `topic_id` says which topic of that name it is.

    When it was planned, the schema-change events before the offset `told` were known.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str
    input: InputSpec
    told: int = -1


class SpoltPlanner:
    """Knows the topics of a spolt's inputs, and asks Kafka what is new."""

    def __init__(self, spolt: SpoltSpec, sources: Sequence[str], schemas_topic: str) -> None:
        """Read nothing yet."""
        self._spolt = spolt
        self._tables = [(each, each.tables(sources)) for each in spolt.inputs]
        self._schemas_topic = schemas_topic
        self._announced: dict[str, SchemaChange] = {}
        self._emptied = EmptiedTables(spolt)
        self._read_to = 0

    def plan(self, log: TopicLog, messages: MessageLog, record: SpoltRecord) -> Sequence[InputRange]:
        """Plan what lies between `record` and now; nothing if nothing does.

        Where nothing does, and a table was emptied, which passes, a range without offsets
        takes note of it: it brings what was `told` into the record. Raises PositionError for
        a topic that is gone, was made anew or cut short, and SpoltError where transforms have
        read a table that was emptied, as the file says.
        """
        self._read_schema_changes(log)
        inputs = self._topics()
        shapes = messages.shapes(sorted(inputs))
        for topic, before in record.ids.items():
            if topic in shapes:
                require_id(topic, before, shapes[topic][0])
        places = [(topic, number) for topic in inputs if topic in shapes for number in range(shapes[topic][1])]
        ends = log.ends(places)
        for (topic, partition), offset in record.places.items():
            if topic in inputs:
                require_place(topic, partition, offset, ends.get((topic, partition)))
        # What retention has taken was never to be read: a partition begins with what is kept of it.
        starts = {**messages.begins([place for place in places if place not in record.places]), **record.places}
        passed = self._judge(record, inputs, [place for place, end in ends.items() if starts.get(place, 0) < end])
        ranges: list[InputRange] = []
        for topic, given in inputs.items():
            if topic in shapes and not self._waits(topic, starts, ends):
                for partition in range(shapes[topic][1]):
                    place = (topic, partition)
                    start, end = starts.get(place, 0), ends.get(place, 0)
                    if start < end:
                        stop = min(end, start + _RANGE_OFFSETS_MAX)
                        topic_id = shapes[topic][0]
                        ranges.append(InputRange(topic, partition, start, stop, topic_id, given, self._read_to))
        place = next((each for each in record.places if each in ends), None)
        if passed and not ranges and place is not None:
            at, topic_id = record.places[place], shapes[place[0]][0]
            return [InputRange(*place, at, at, topic_id, inputs[place[0]], self._read_to)]
        return ranges

    def _judge(self, record: SpoltRecord, inputs: Collection[str], ahead: Collection[tuple[str, int]]) -> bool:
        """See `EmptiedTables.judge`; the places `ahead` have something to read."""

        def tables(places: Collection[tuple[str, int]]) -> set[tuple[str, str]]:
            announced = [self._announced[topic] for topic, _ in places if topic in self._announced and topic in inputs]
            return {(each.source, str(each.table)) for each in announced}

        return self._emptied.judge(record.told, tables(record.places), tables(ahead))

    def input_topics(self, log: TopicLog) -> Mapping[str, InputSpec]:
        """The topics that are read, those of tables that were announced by now, each with its entry in the file."""
        self._read_schema_changes(log)
        return self._topics()

    def _topics(self) -> dict[str, InputSpec]:
        found: dict[str, InputSpec] = {}
        for given, tables in self._tables:
            if tables is None:
                found.setdefault(given.topic, given)
                continue
            source, patterns = tables
            for topic, schema_change in self._announced.items():
                if schema_change.source == source and patterns.matches(schema_change.table):
                    found.setdefault(topic, given.written_in(schema_change.format))
        return found

    def _waits(self, topic: str, starts: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]) -> bool:
        """Whether a topic that `topic` took over from is not read to its end, or waits itself."""
        schema_change = self._announced.get(topic)
        before = schema_change.follows if schema_change is not None else ""
        if not before or before not in self._announced:
            return False
        unread = any(end > starts.get(place, 0) for place, end in ends.items() if place[0] == before)
        return unread or self._waits(before, starts, ends)

    def _read_schema_changes(self, log: TopicLog) -> None:
        end = log.ends([(self._schemas_topic, 0)]).get((self._schemas_topic, 0), 0)
        for messages in log.read(self._schemas_topic, 0, self._read_to, end):
            for offset, value in messages:
                schema_change = read_schema_change(self._schemas_topic, offset, value)
                known = self._announced.get(schema_change.topic)
                self._emptied.see(offset, schema_change, is_first=known is None)
                # What it took over from was said when it began; later events of the same topic repeat it or not.
                if known is None or schema_change.follows:
                    self._announced[schema_change.topic] = schema_change
        self._read_to = max(self._read_to, end)
