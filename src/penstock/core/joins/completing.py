"""Rows that lack columns, made whole by the rows that they were before, ahead of the join.

An update's message may lack what it left as it was: long values of PostgreSQL, or
whatever a source with `row_images: partial` does not log. The newest whole row of each
key is kept, also of rows that the join's condition leaves out or that have no join key:
any of them may be joined later. So the join itself sees whole rows alone.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.joins.cells import (
    decode_cells,
    encode_cells,
    join_cells,
    lacking_anything,
    lacks_cells,
    merge_cells,
    split_cells,
)
from penstock.core.joins.events import DELETE, SCHEMA, TRUNCATE, Marks, event_batch, marks_of, whole_events
from penstock.core.joins.intake import Intake
from penstock.core.joins.keys import key_bytes
from penstock.core.joins.rows import key_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.core.avro.arrays import ArrowArray, Flags
    from penstock.core.joins.events import Changed
    from penstock.core.joins.intake import Event
    from penstock.core.joins.plan import JoinPlan


@dataclass(frozen=True, slots=True)
class Orphan:
    """A change that lacks `columns`, of a row of an input that no message before it had whole."""

    input: int
    part: int
    position: int
    message: bytes
    columns: tuple[str, ...]


def partial_events(
    plan: JoinPlan, index: int, changed: Changed, lacking: Mapping[str, Flags], messages: ArrowArray
) -> pa.RecordBatch:
    """The events of changes of an input whose rows may lack columns: no join keys, and rows as their cells.

    `lacking` says of columns which rows have no value of them, `messages` are those that
    the changes came in. Raises PenstockError for rows that the plan does not fit any more.
    """
    given, rows = plan.inputs[index], changed.rows
    lacking = {column.name: lacking[column.name] for column in given.needed if column.name in lacking}
    nothing, is_deleted = pa.scalar(b"", pa.binary()), pa.array(changed.is_deleted)
    lacks = pa.array(lacking_anything(lacking, rows.num_rows))
    kept = pc.if_else(lacks, messages, pa.scalar(None, pa.binary()))
    cells = join_cells(given, kept, encode_cells(given, rows, lacking))
    blobs = [
        pa.array([b""] * rows.num_rows, pa.binary()),
        key_bytes(key_values(given, given.row_key, rows)),
        pc.if_else(is_deleted, nothing, cells),
    ]
    return event_batch(index, changed.is_deleted, marks_of(changed), blobs)


def completed_events(plan: JoinPlan, events: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch | Orphan]:
    """The events for the join, of those that a `RowCompleter`, or the kernel, has let through."""
    for batch in events:
        is_cells = np.isin(batch.column("input").to_numpy(), [i for i, each in enumerate(plan.inputs) if each.needed])
        is_cells &= batch.column("op").to_numpy() != TRUNCATE
        as_they_are = batch.filter(pa.array(~is_cells))
        if as_they_are.num_rows:
            yield as_they_are
        for index in np.unique(batch.column("input").to_numpy()[is_cells]).tolist():
            own = np.asarray(pc.equal(batch.column("input"), pa.scalar(index, pa.uint8())), np.bool_)
            yield from _completed(plan, index, batch.filter(pa.array(is_cells & own)))


def _completed(plan: JoinPlan, index: int, events: pa.RecordBatch) -> Iterator[pa.RecordBatch | Orphan]:
    given = plan.inputs[index]
    rows: Any = events.column("row")
    messages, cells = split_cells(given, rows)
    is_orphan = np.asarray(messages.is_valid(), np.bool_)
    for at in np.flatnonzero(is_orphan).tolist():
        columns = tuple(column.name for column, cell in zip(given.needed, cells, strict=True) if not cell[at].is_valid)
        part, position = (int(events.column(name)[at].as_py()) for name in ("part", "position"))
        yield Orphan(index, part, position, messages[at].as_py(), columns)
    if is_orphan.all():
        return
    whole = pa.array(~is_orphan)
    kept = events.filter(whole)
    marks = Marks(*(kept.column(name) for name in ("part", "position", "place", "place_row")))
    is_deleted = kept.column("op").to_numpy() == DELETE
    yield whole_events(plan, index, decode_cells(given, [each.filter(whole) for each in cells]), is_deleted, marks)


@dataclass(slots=True)
class RowCompleter:
    """The newest whole row of each key of the inputs that are partial; as jvm/join/Completer.java, without Spark."""

    plan: JoinPlan
    _intake: Intake = field(default_factory=Intake)
    _rows: dict[tuple[int, bytes], tuple[tuple[int, int], bytes]] = field(default_factory=dict)

    def take(self, events: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch | Orphan]:
        """Events of one micro-batch for the join, with those that are not of partial inputs."""
        if not self.plan.partial:
            return list(events)
        truncates, rows = self._intake.take(events)
        for event in truncates:
            for key in [key for key, (order, _) in self._rows.items() if key[0] == event.input and order < event.order]:
                del self._rows[key]
        passed = list(truncates)
        last: dict[tuple[int, bytes], Event] = {}
        for event in rows:
            found = self._complete(event)
            if found is not None and (not self._is_partial(event) or lacks_cells(found.row)):
                passed.append(found)
            elif found is not None:
                # What became of a row before that is nothing to who compares micro-batches.
                last[event.input, event.row_key] = found
        passed += last.values()
        batches = [pa.RecordBatch.from_pylist([asdict(each) for each in passed], schema=SCHEMA)] if passed else []
        return list(completed_events(self.plan, batches))

    def _is_partial(self, event: Event) -> bool:
        return self.plan.inputs[event.input].is_partial

    def _complete(self, event: Event) -> Event | None:
        key = event.input, event.row_key
        old = self._rows.get(key)
        if not self._is_partial(event):
            return event
        if event.op == DELETE:
            # Nobody has heard of a row that was not known.
            if old is None:
                return None
            del self._rows[key]
            return replace(event, row=old[1])
        if not lacks_cells(event.row):
            self._rows[key] = event.order, event.row
            return event
        if old is None:
            return event
        # It is as old as the oldest value in it, for a truncate that is told of later.
        (place, place_row), row = old[0], merge_cells(old[1], event.row)
        self._rows[key] = old[0], row
        return replace(event, place=place, place_row=place_row, row=row)
