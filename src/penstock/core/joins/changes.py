"""Differences of joined rows as changes of the output: one at most for each of its keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.arrow_types import arrow_schema
from penstock.core.changes import Op
from penstock.core.joins.keys import key_bytes
from penstock.core.joins.rows import decode_stored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.avro.arrays import ArrowArray, Flags, Integers
    from penstock.core.joins.plan import JoinPlan


@dataclass(frozen=True, slots=True)
class OutputRows:
    """Rows of the output that were created, updated or deleted, all of them alike."""

    op: Op
    before: pa.RecordBatch | None
    after: pa.RecordBatch | None

    def __len__(self) -> int:
        """How many rows there are."""
        image = self.after if self.before is None else self.before
        return 0 if image is None else image.num_rows

    def pieces(self, rows_max: int) -> Iterator[OutputRows]:
        """The rows in pieces of at most `rows_max`."""
        for start in range(0, len(self), rows_max):
            before, after = (
                None if image is None else image.slice(start, rows_max) for image in (self.before, self.after)
            )
            yield OutputRows(self.op, before, after)


def output_changes(plan: JoinPlan, differences: pa.Table) -> Sequence[OutputRows]:
    """What the differences of one micro-batch change of the output.

    A joined row may leave one group of rows and come up in another, or another pair
    of rows may make a joined row with the same key: what is before and after under
    one key is an update, and nothing where nothing visible changed.
    """
    n = len(plan.inputs)
    table = differences.combine_chunks()
    old, new = (_images(table, [f"{letter}{index}" for index in range(n)]) for letter in "ba")
    before, after = _rows(plan, old), _rows(plan, new)
    at = _find(_keys(plan, after), _keys(plan, before))
    is_update = at >= 0
    is_left = np.ones(before.num_rows, np.bool_)
    is_left[at[is_update]] = False
    updated_from, updated_to = at[is_update], np.flatnonzero(is_update)
    differs = _differ(old.take(updated_from), new.take(updated_to))
    updated_from, updated_to = updated_from[differs], updated_to[differs]
    found = [
        OutputRows(Op.DELETE, before.filter(pa.array(is_left)), None),
        OutputRows(Op.UPDATE, before.take(updated_from), after.take(updated_to)),
        OutputRows(Op.CREATE, None, after.filter(pa.array(~is_update))),
    ]
    return [each for each in found if len(each)]


def _images(table: pa.Table, names: Sequence[str]) -> pa.Table:
    images = table.select(names)
    return images.filter(pc.is_valid(images[names[0]])).rename_columns([str(index) for index in range(len(names))])


def _rows(plan: JoinPlan, images: pa.Table) -> pa.RecordBatch:
    """The joined rows that are made of each input's bytes."""
    columns: list[list[ArrowArray]] = []
    for index, given in enumerate(plan.inputs):
        stored: Any = images[str(index)].combine_chunks()
        if isinstance(stored, pa.ChunkedArray):
            stored = pa.concat_arrays(stored.chunks) if stored.num_chunks else pa.array([], pa.binary())
        columns.append(decode_stored(given, stored))
    arrays = [columns[index][number] for index, number in plan.origins]
    fields = [field.with_nullable(nullable=True) for field in arrow_schema(plan.output)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _keys(plan: JoinPlan, rows: pa.RecordBatch) -> pa.BinaryArray:
    return key_bytes([rows.column(name) for name in plan.output.key])


def _find(keys: pa.BinaryArray, among: pa.BinaryArray) -> Integers:
    """Where each key is among others, -1 for nowhere."""
    found: Any = pc.index_in(keys, value_set=among)
    places: Integers = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return places


def _differ(old: pa.Table, new: pa.Table) -> Flags:
    differs = np.zeros(len(old), np.bool_)
    for name in old.column_names:
        before: Any = old[name]
        differs |= np.asarray(pc.not_equal(before, new[name]), np.bool_)
    return differs
