"""What is new among events: as jvm/join/Intake.java has it, without buckets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.joins.events import TRUNCATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

_NOWHERE = (-1, -1)


@dataclass(frozen=True, slots=True)
class Event:
    """A row of `events.SCHEMA`."""

    input: int
    op: int
    part: int
    position: int
    place: int
    place_row: int
    join_key: bytes
    row_key: bytes
    row: bytes

    @property
    def order(self) -> tuple[int, int]:
        """Where it stands in its source's log."""
        return self.place, self.place_row


@dataclass(slots=True)
class Intake:
    """How far each part of each input was read, and up to where in its log each input was emptied."""

    reached: dict[tuple[int, int], int] = field(default_factory=dict)
    emptied: dict[int, tuple[int, int]] = field(default_factory=dict)

    def take(self, batches: Sequence[pa.RecordBatch]) -> tuple[list[Event], list[Event]]:
        """The truncates, and the other events that are to be applied behind them, in their order.

        What was taken before is nothing. Events of a part may come in any order.
        """
        before, fresh = dict(self.reached), list[Event]()
        for event in (Event(**row) for batch in batches for row in batch.to_pylist()):
            stream = (event.input, event.part)
            if event.position > before.get(stream, -1):
                fresh.append(event)
                self.reached[stream] = max(event.position, self.reached.get(stream, -1))
        truncates = [event for event in fresh if event.op == TRUNCATE]
        for event in truncates:
            self.emptied[event.input] = max(event.order, self.emptied.get(event.input, _NOWHERE))
        rows = [
            event for event in fresh if event.op != TRUNCATE and event.order >= self.emptied.get(event.input, _NOWHERE)
        ]
        return truncates, sorted(rows, key=lambda each: each.position)
