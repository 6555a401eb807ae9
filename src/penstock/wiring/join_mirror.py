"""Measures a join: what lies in its inputs' topics behind the places that its record names."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from penstock.core.errors import UnavailableError
from penstock.wiring.join_states import checkpoint_of, newest_places
from penstock.wiring.joins import plan_of_join, read_join_record
from penstock.wiring.kafka_mirror import KafkaMirror
from penstock.wiring.link_place import LinkPlace
from penstock.wiring.open import open_registry
from penstock.wiring.rebuild_marks import is_marked, read_mark

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.links.joins.record import JoinRecord


class JoinMirror(KafkaMirror):
    """Compares the record of a join with the ends of its topics."""

    def measure(self) -> LinkPlace:
        """See `KafkaMirror`."""
        record = read_join_record(self._spec, self._topics, self.name)
        # What its file says may not have begun yet.
        inputs = self._planned_inputs() if record is None else record.ids
        shapes = self._topics.shapes(inputs)
        if len(shapes) < len(inputs):
            gone = ", ".join(sorted(set(inputs).difference(shapes)))
            message = f"the join {self.name} reads what does not exist: {gone}"
            raise UnavailableError(message, "restore it, or correct the join's file: a deleted topic cannot be joined")
        places = _places(shapes)
        read = {} if record is None else record.places
        ends = self._topics.ends(places)
        ahead = sum(max(0, end - read.get(place, 0)) for place, end in ends.items())
        words = f"{sum(read.get(place, 0) for place in places)} messages of {len(places)} partitions"
        return LinkPlace(
            words + ("" if record is None else self._rebuild_words(record)),
            is_behind=ahead > 0,
            carried_ms=self._newest.carried_ms(self.tables_ms()),
            lag_messages=ahead,
            dead_letters=0 if record is None else record.letters,
        )

    def _planned_inputs(self) -> Collection[str]:
        with closing(open_registry(self._spec)) as registry:
            job = plan_of_join(self._spec, self.name, self._topics, registry)
        return {stream.topic for stream in job.streams}

    def _rebuild_words(self, record: JoinRecord) -> str:
        """How far a state is that is made beside the one of `record`, and why its output stands still if it does."""
        if not is_marked(self._spec, self.name):
            return ""
        mark = read_mark(self._spec, self.name)
        places = _places(self._topics.shapes(mark.schema_ids))
        checkpoint = checkpoint_of(self._spec, self.name, (mark.replaces or record.generation) + 1)
        try:
            read = newest_places(checkpoint)
        except FileNotFoundError:
            # It went over to that state just now.
            return ""
        done, all_ = sum(read.get(place, 0) for place in places), sum(self._topics.ends(places).values())
        stands = mark.still is not None and mark.still.epoch == record.epoch
        still = f"; it stands still: {mark.still.reason}" if mark.still is not None and stands else ""
        if mark.refused is not None and mark.refused.epoch == record.epoch:
            back = f"or take it back: penstock joinery rebuild FILE {self.name} --cancel"
            return f"; it is not made again, and goes on as it was: {mark.refused.reason} ({mark.refused.hint}; {back})"
        return f"; made again from {done} of {all_}{still}"


def _places(shapes: Mapping[str, tuple[str, int]]) -> list[tuple[str, int]]:
    return [(topic, number) for topic, (_, count) in shapes.items() for number in range(count)]
