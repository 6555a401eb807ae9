"""Measures a join: what lies in its inputs' topics behind the places that its record names."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from penstock.core.errors import UnavailableError
from penstock.wiring.joins import plan_of_join, read_join_record
from penstock.wiring.kafka_mirror import KafkaMirror
from penstock.wiring.link_place import LinkPlace
from penstock.wiring.open import open_registry

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec
    from penstock.ports.state import State


class JoinMirror(KafkaMirror):
    """Compares the record of a join with the ends of its topics."""

    def __init__(self, spec: PipelineSpec, name: str, state: State) -> None:
        """Read nothing yet."""
        super().__init__(spec, name, state)
        self._inputs: tuple[str, ...] = ()

    def measure(self) -> LinkPlace:
        """See `KafkaMirror`."""
        record = read_join_record(self._spec, self._topics, self.name)
        if not self._inputs:
            with closing(open_registry(self._spec)) as registry:
                job = plan_of_join(self._spec, self.name, self._topics, registry)
            self._inputs = tuple(sorted({stream.topic for stream in job.streams}))
        shapes = self._topics.shapes(self._inputs)
        if len(shapes) < len(self._inputs):
            gone = ", ".join(sorted(set(self._inputs).difference(shapes)))
            message = f"the join {self.name} reads what does not exist: {gone}"
            raise UnavailableError(message, "restore it, or correct the join's file: a deleted topic cannot be joined")
        places = [(topic, number) for topic, (_, count) in shapes.items() for number in range(count)]
        read = {} if record is None else record.places
        ends = self._topics.ends(places)
        ahead = sum(max(0, end - read.get(place, 0)) for place, end in ends.items())
        carried = [table.last_timestamp_ms for table in self._state.tables() if table.link == self.name]
        return LinkPlace(
            f"{sum(read.get(place, 0) for place in places)} messages of {len(places)} partitions",
            is_behind=ahead > 0,
            carried_ms=max(carried, default=0),
            lag_messages=ahead,
            dead_letters=0 if record is None else record.letters,
        )
