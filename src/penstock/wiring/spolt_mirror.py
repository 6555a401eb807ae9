"""Measures a spolt: what lies in its topics behind the offsets that its record names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from penstock.core.errors import PenstockError
from penstock.links.spolts.plan import SpoltPlanner
from penstock.wiring.link_place import LinkPlace
from penstock.wiring.open import open_topic_log, schema_changes_topic
from penstock.wiring.spolts import read_spolt_record

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec
    from penstock.config.spolts import SpoltSpec
    from penstock.ports.state import State

_log = structlog.get_logger()


class SpoltMirror:
    """Compares the record of a spolt with the ends of its topics."""

    def __init__(self, spec: PipelineSpec, spolt: SpoltSpec, state: State) -> None:
        """Read nothing yet."""
        self.name = spolt.name
        self._spec = spec
        self._state = state
        self._topics = open_topic_log(spec)
        self._planner = SpoltPlanner(spolt, [each.name for each in spec.sources], schema_changes_topic(spec))

    def refresh(self) -> LinkPlace:
        """Ask Kafka for the newest record and for the ends of the topics."""
        try:
            return self._measure()
        except PenstockError as error:
            _log.debug("mirror waits for Kafka", error=error.message)
            return LinkPlace()

    def close(self) -> None:
        """Drop the connection to Kafka."""
        self._topics.close()

    def _measure(self) -> LinkPlace:
        record = read_spolt_record(self._spec, self._topics, self.name)
        shapes = self._topics.shapes(list(self._planner.input_topics(self._topics)))
        places = [(topic, number) for topic, (_, count) in shapes.items() for number in range(count)]
        new = self._topics.begins([place for place in places if place not in record.places])
        ends = self._topics.ends(places)
        ahead = {place: max(0, end - record.places.get(place, new.get(place, 0))) for place, end in ends.items()}
        carried_ms = {t.table: t.last_timestamp_ms for t in self._state.tables() if t.link == self.name}
        tables = {
            topic: (any(ahead.get((topic, number)) for number in range(count)), carried_ms.get(topic, 0))
            for topic, (_, count) in shapes.items()
        }
        messages = sum(ahead.values())
        read = sum(offset for place, offset in record.places.items() if place in ends)
        return LinkPlace(
            f"{read} messages of {len(ends)} partitions",
            is_behind=messages > 0,
            carried_ms=max(carried_ms.values(), default=0),
            lag_messages=messages,
            tables=tables,
            dead_letters=record.letters,
        )
