"""Measures a spolt: what lies in its topics behind the offsets that its record names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.links.spolts.plan import SpoltPlanner
from penstock.wiring.kafka_mirror import KafkaMirror
from penstock.wiring.link_place import LinkPlace
from penstock.wiring.open import schema_changes_topic
from penstock.wiring.spolts import read_spolt_record

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec
    from penstock.config.spolts import SpoltSpec
    from penstock.ports.state import State


class SpoltMirror(KafkaMirror):
    """Compares the record of a spolt with the ends of its topics."""

    def __init__(self, spec: PipelineSpec, spolt: SpoltSpec, state: State) -> None:
        """Read nothing yet."""
        super().__init__(spec, spolt.name, state)
        self._planner = SpoltPlanner(spolt, [each.name for each in spec.sources], schema_changes_topic(spec))

    def measure(self) -> LinkPlace:
        """See `KafkaMirror`."""
        record = read_spolt_record(self._spec, self._topics, self.name)
        shapes = self._topics.shapes(list(self._planner.input_topics(self._topics)))
        places = [(topic, number) for topic, (_, count) in shapes.items() for number in range(count)]
        new = self._topics.begins([place for place in places if place not in record.places])
        ends = self._topics.ends(places)
        ahead = {place: max(0, end - record.places.get(place, new.get(place, 0))) for place, end in ends.items()}
        carried_ms = self.tables_ms()
        tables = {
            topic: (any(ahead.get((topic, number)) for number in range(count)), carried_ms.get(topic, 0))
            for topic, (_, count) in shapes.items()
        }
        messages = sum(ahead.values())
        read = sum(offset for place, offset in record.places.items() if place in ends)
        return LinkPlace(
            f"{read} messages of {len(ends)} partitions",
            is_behind=messages > 0,
            carried_ms=self._newest.carried_ms(carried_ms),
            lag_messages=messages,
            tables=tables,
            dead_letters=record.letters,
        )
