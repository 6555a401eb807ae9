"""Differences of joined rows as changes of the output: one at most for each of its keys."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.arrow_types import arrow_schema
from penstock.core.avro.encode_columns import encode_by_column
from penstock.core.avro.message_fields import ColumnValues
from penstock.core.changes import Op
from penstock.core.joins.keys import key_bytes
from penstock.core.joins.rows import decode_stored
from penstock.core.joins.stand_ins import fill_stand_ins

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.avro.arrays import ArrowArray, Flags, Integers
    from penstock.core.joins.plan import JoinPlan
    from penstock.core.tables import Column


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
    return _changes(plan, joined_images(plan, differences, "b"), joined_images(plan, differences, "a"))


def changes_in_parts(plan: JoinPlan, differences: Sequence[pa.Table], part_bytes: int) -> Iterator[OutputRows]:
    """What `output_changes` says of them, a part of all keys at a time where they come to more than `part_bytes`."""
    if not differences:
        return
    count = sum(table.nbytes for table in differences) // part_bytes + 1
    places = {letter: [part_places(plan, table, letter, count) for table in differences] for letter in "ba"}
    for part in range(count):
        # The differences may be larger than the memory: of each table, the rows of the part and no others are read.
        old, new = (
            pa.concat_tables(
                joined_images(plan, table.take(own[part]), letter)
                for table, own in zip(differences, places[letter], strict=True)
            )
            for letter in "ba"
        )
        yield from _changes(plan, old, new)


def part_places(plan: JoinPlan, differences: pa.Table, letter: str, count: int) -> list[Integers]:
    """The places of joined rows before ("b") or after ("a") in each of so many parts, by their keys in the output."""
    numbers = _part_numbers(plan, joined_images(plan, differences, letter), count)
    there = np.flatnonzero(np.asarray(pc.is_valid(differences[f"{letter}0"])))
    order = np.argsort(numbers, kind="stable")
    return np.split(there[order], np.searchsorted(numbers[order], np.arange(1, count)))


def _part_numbers(plan: JoinPlan, images: pa.Table, count: int) -> Integers:
    if count == 1:
        return np.zeros(len(images), np.int64)
    keys: Sequence[Any] = output_keys(plan, joined_rows(plan, images)).to_pylist()
    return np.fromiter((crc32(key) % count for key in keys), np.int64, len(keys))


def _changes(plan: JoinPlan, old: pa.Table, new: pa.Table) -> Sequence[OutputRows]:
    before, after = joined_rows(plan, old), joined_rows(plan, new)
    at = find_keys(output_keys(plan, after), output_keys(plan, before))
    is_update = at >= 0
    is_left = np.ones(before.num_rows, np.bool_)
    is_left[at[is_update]] = False
    updated_from, updated_to = at[is_update], np.flatnonzero(is_update)
    differs = _differ(plan, old.take(updated_from), new.take(updated_to))
    if plan.keeps_more:
        differs &= look_other(plan, before.take(updated_from), after.take(updated_to))
    updated_from, updated_to = updated_from[differs], updated_to[differs]
    found = [
        OutputRows(Op.DELETE, before.filter(pa.array(is_left)), None),
        OutputRows(Op.UPDATE, before.take(updated_from), after.take(updated_to)),
        OutputRows(Op.CREATE, None, after.filter(pa.array(~is_update))),
    ]
    return [each for each in found if len(each)]


def joined_images(plan: JoinPlan, differences: pa.Table, letter: str) -> pa.Table:
    """The joined rows before ("b") or after ("a"), as each input's bytes."""
    names = [f"{letter}{index}" for index in range(len(plan.inputs))]
    images = differences.select(names)
    return images.filter(pc.is_valid(images[names[0]])).rename_columns([str(index) for index in range(len(names))])


def joined_rows(plan: JoinPlan, images: pa.Table) -> pa.RecordBatch:
    """The joined rows that are made of each input's bytes."""
    columns: list[list[ArrowArray]] = []
    for index, given in enumerate(plan.inputs):
        columns.append(decode_stored(given, _combined(images[str(index)])))
    arrays = [columns[index][number] for index, number in plan.origins]
    for place, column in enumerate(plan.output.columns):
        if column.name in plan.stand_ins:
            arrays[place] = fill_stand_ins(column.type, arrays[place])
    fields = [field.with_nullable(nullable=True) for field in arrow_schema(plan.output)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def output_keys(plan: JoinPlan, rows: pa.RecordBatch) -> pa.BinaryArray:
    """The key of each row of the output, as bytes."""
    return key_bytes([rows.column(name) for name in plan.output.key])


def find_keys(keys: pa.BinaryArray, among: pa.BinaryArray) -> Integers:
    """Where each key is among others, -1 for nowhere."""
    found: Any = pc.index_in(keys, value_set=among)
    places: Integers = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return places


def _differ(plan: JoinPlan, old: pa.Table, new: pa.Table) -> Flags:
    """Whether each joined row looks other than before."""
    differs = np.zeros(len(old), np.bool_)
    for index, given in enumerate(plan.inputs):
        before, after = _combined(old[str(index)]), _combined(new[str(index)])
        changed: Any = pc.not_equal(before, after)
        differs |= np.asarray(changed.fill_null(False), np.bool_)  # noqa: FBT003 - the value itself
        if given.is_optional:
            came_or_went = np.asarray(before.is_valid()) != np.asarray(after.is_valid())
            if came_or_went.any():
                differs |= came_or_went & (_is_visible(plan, index, before) | _is_visible(plan, index, after))
    return differs


def look_other(plan: JoinPlan, before: pa.RecordBatch, after: pa.RecordBatch) -> Flags:
    """Whether rows of the output differ in any column."""
    other = np.zeros(before.num_rows, np.bool_)
    for column, *images in zip(plan.output.columns, before.columns, after.columns, strict=True):
        values: Any
        values, new = (_comparable(column, each) for each in images)
        changed: Any = pc.fill_null(pc.not_equal(values, new), pa.scalar(value=False))
        other |= np.asarray(changed, np.bool_) | (np.asarray(values.is_valid()) != np.asarray(new.is_valid()))
    return other


def _comparable(column: Column, values: ArrowArray) -> ArrowArray:
    """Values that Arrow can compare, which it cannot do with lists: those by their bytes."""
    if not pa.types.is_list(values.type):
        return values
    return encode_by_column([ColumnValues(values, replace(column, nullable=True))], len(values))


def _is_visible(plan: JoinPlan, index: int, rows: pa.BinaryArray) -> Flags:
    """Whether the row of an input that may have no match shows anything in the output besides NULL."""
    columns = decode_stored(plan.inputs[index], rows)
    visible = np.zeros(len(rows), np.bool_)
    for (origin, number), column in zip(plan.origins, plan.output.columns, strict=True):
        if origin == index and column.name not in plan.stand_ins:
            visible |= np.asarray(columns[number].is_valid())
    return visible


def _combined(values: Any) -> pa.BinaryArray:  # noqa: ANN401 - pyarrow's stubs know no chunks of binaries
    combined: Any = values.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        combined = pa.concat_arrays(combined.chunks) if combined.num_chunks else pa.array([], pa.binary())
    array: pa.BinaryArray = combined
    return array
