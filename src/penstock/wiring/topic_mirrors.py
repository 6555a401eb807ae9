"""Measures the links that read topics: files from the tables' topics, warehouses from the topic of batches."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.adapters.kafka.topics import position_topic
from penstock.core.batches import Batch
from penstock.links.objects.record import ObjectsRecord
from penstock.wiring.kafka_mirror import KafkaMirror
from penstock.wiring.link_place import LinkPlace
from penstock.wiring.open import OBJECTS_LINK, batch_topic, committed_position
from penstock.wiring.table_topics import TableTopics

if TYPE_CHECKING:
    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.ports.state import State


class ObjectsMirror(KafkaMirror):
    """Compares the record of the link that writes files with the ends of the topics."""

    def __init__(self, spec: PipelineSpec, state: State) -> None:
        """Read nothing yet."""
        super().__init__(spec, OBJECTS_LINK, state)
        self._announced = TableTopics(spec, self._topics)
        self._record = ObjectsRecord()
        self._record_end = -1

    def measure(self) -> LinkPlace:
        """See `KafkaMirror`."""
        # What is announced after the record was read may be ahead of it, but is never taken for carried.
        self._read_record()
        self._announced.read()
        by_table = self._announced.by_table(self._record)
        read_to = {place: read for place, (_, read) in self._record.places.items()}
        ends = self._topics.ends([place for places in by_table.values() for place in places])
        ahead = {place: max(0, end - read_to.get(place, 0)) for place, end in ends.items()}
        carried_ms = self.tables_ms()
        tables = {
            table: (any(ahead.get(place) for place in places), carried_ms.get(table, 0))
            for table, places in by_table.items()
        }
        waiting = set(self._announced.offsets_from(self._record.schemas_offset)).difference(self._record.passed)
        messages = sum(ahead.values())
        position = f"{sum(read_to.values())} messages of {len(read_to)} partitions"
        return LinkPlace(
            position,
            is_behind=messages > 0 or bool(waiting),
            carried_ms=self._newest.carried_ms(carried_ms),
            lag_messages=messages,
            tables=tables,
        )

    def _read_record(self) -> None:
        place = (position_topic(self._spec.pipeline, self.name), 0)
        end = self._topics.ends([place]).get(place, 0)
        if end != self._record_end:
            record = committed_position(self._spec, self._topics, self.name)
            self._record = ObjectsRecord.of(record)
            self._record_end = end


class WarehouseMirror(KafkaMirror):
    """Sums up the batches between the offset that a link has come to and the end of their topic.

    The link says in the state database which offset it reads next. What it has
    loaded is read a second time and taken off the sum, so that memory stays
    bounded however far it is behind.
    """

    def __init__(self, spec: PipelineSpec, link: LinkSpec, state: State) -> None:
        """Read nothing yet."""
        super().__init__(spec, link.name, state)
        self._link = link
        self._topic = batch_topic(spec)
        self._loaded_to: int | None = None
        self._read_to = 0
        self._bytes = 0
        self._batches: Counter[str] = Counter()

    def measure(self) -> LinkPlace:
        """See `KafkaMirror`."""
        place = self._state.place(self.name)
        if place is None:
            return LinkPlace()
        # Sums that an error leaves half made are begun anew.
        loaded_to, self._loaded_to = self._loaded_to, None
        if loaded_to is None or place < loaded_to:
            # It begins again behind what it had loaded: with a table that waited.
            loaded_to = self._read_to = place
            self._bytes, self._batches = 0, Counter()
        end = max(place, self._topics.ends([(self._topic, 0)]).get((self._topic, 0), 0))
        self._sum_up(self._read_to, end, 1)
        self._read_to = end
        self._sum_up(loaded_to, place, -1)
        self._loaded_to = place
        carried_ms = self.tables_ms()
        tables = {
            table: (self._batches[table] > 0, carried_ms.get(table, 0)) for table in {*self._batches, *carried_ms}
        }
        return LinkPlace(
            f"{self._topic}/0:{place}",
            is_behind=self._batches.total() > 0,
            carried_ms=self._newest.carried_ms(carried_ms),
            lag_bytes=self._bytes,
            lag_messages=self._batches.total(),
            tables=tables,
        )

    def _sum_up(self, start: int, end: int, sign: int) -> None:
        for messages in self._topics.read(self._topic, 0, start, end):
            for _, value in messages:
                batch = Batch.from_json(value)
                if batch.source == self._link.source and self._link.patterns.matches(batch.table):
                    self._batches[str(batch.table)] += sign
                    self._bytes += sign * batch.size_bytes
