"""Which topics the tables of a pipeline have, read from what captures announce."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from penstock.core.schema_changes import SchemaChange
from penstock.wiring.open import schema_changes_topic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.config.specs import PipelineSpec
    from penstock.links.objects.record import ObjectsRecord
    from penstock.ports.topics import TopicLog

Partition: TypeAlias = tuple[str, int]


class TableTopics:
    """Remembers what it has read: a schema-change event is never changed."""

    def __init__(self, spec: PipelineSpec, log: TopicLog) -> None:
        """Read nothing yet."""
        self._topic = schema_changes_topic(spec)
        self._log = log
        self._read_to = 0
        self._offsets: list[int] = []
        self._partitions: dict[tuple[str, str], dict[str, list[Partition]]] = {}

    def read(self) -> None:
        """Read what is new. Raises UnavailableError."""
        end = self._log.ends([(self._topic, 0)]).get((self._topic, 0), 0)
        for messages in self._log.read(self._topic, 0, self._read_to, end):
            for offset, value in messages:
                self._offsets.append(offset)
                told = SchemaChange.from_json(value)
                topics = self._partitions.setdefault((told.source, str(told.table)), {})
                # A topic does not lose partitions; older releases said how many the config asked for by then.
                partitions = max(told.partitions, len(topics.pop(told.topic, ())))
                topics[told.topic] = [(told.topic, partition) for partition in range(partitions)]
        self._read_to = end

    def offsets_from(self, start: int) -> Sequence[int]:
        """The offsets of the schema-change events from `start` on."""
        return [offset for offset in self._offsets if offset >= start]

    def newest(self, source: str, table: str) -> Sequence[Partition]:
        """The partitions of the topic that a table has now; none for one that was not announced."""
        topics = list(self._partitions.get((source, table), {}).values())
        return topics[-1] if topics else ()

    def by_table(self, record: ObjectsRecord) -> Mapping[str, Sequence[Partition]]:
        """The partitions of every topic that each table had, as far as they are read into files behind `record`."""
        found: dict[str, list[Partition]] = {}
        for (source, table), topics in self._partitions.items():
            read = [places for topic, places in topics.items() if record.reads(source, table, topic)]
            found.setdefault(table, []).extend(place for places in read for place in places)
        return found
