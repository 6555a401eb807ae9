"""A join that takes another one's place: what its result changes of the other's, key by key."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.core.arrow_types import arrow_schema, arrow_type
from penstock.core.changes import Op
from penstock.core.joins.changes import (
    OutputRows,
    find_keys,
    joined_images,
    joined_rows,
    look_other,
    output_keys,
    part_places,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from penstock.core.avro.arrays import ArrowArray, Integers
    from penstock.core.joins.plan import JoinPlan
    from penstock.core.tables import Column


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """All joined rows of a state, as differences from nothing: a table for each block, with b0, b1... and a0, a1..."""

    plan: JoinPlan
    images: Sequence[pa.Table]

    @property
    def size_bytes(self) -> int:
        """How many bytes the images are."""
        return sum(table.nbytes for table in self.images)

    def part(self, places: Sequence[Sequence[Integers]], part: int) -> pa.RecordBatch:
        """The rows of the output in one part, where `places` are those of each block's rows, part by part."""
        chosen = [table.take(own[part]) for table, own in zip(self.images, places, strict=True)]
        return joined_rows(self.plan, joined_images(self.plan, pa.concat_tables([_nothing(self.plan), *chosen]), "a"))

    def parts(self, count: int) -> list[list[Integers]]:
        """The places of each block's rows in each of so many parts, by their keys in the output."""
        return [part_places(self.plan, table, "a", count) for table in self.images]


def can_take_the_place(old: JoinPlan, new: JoinPlan) -> bool:
    """Whether rows that `old` published may stay where `new` goes on: with the same key, in columns of the same types.

    What was never NULL and can be is no obstacle; the other way round, rows would be in the way.
    """
    before = {column.name: column for column in old.output.columns}
    after = {column.name: column for column in new.output.columns}
    kept = [(before[name], column) for name, column in after.items() if name in before]
    added = [column for name, column in after.items() if name not in before]
    return (
        old.output.key == new.output.key
        and all(was.type == now.type and (now.nullable or not was.nullable) for was, now in kept)
        and not any(pa.types.is_list(arrow_type(column.type)) and not column.nullable for column in added)
        and all(name in before for name in new.output.key)
    )


def replacing_changes(
    old: JoinedRows | None, new: JoinedRows, part_bytes: int, shown: Collection[str] = ()
) -> Iterator[OutputRows]:
    """What makes the result of `new` of what `old` published: rows as they are now (READ), and those that are gone.

    All rows where there is no `old`. A part of all keys at a time, where both come to more than `part_bytes`:
    which rows are in which is found before the first one is asked for. `shown` are the fields that the output
    has, or had at some time: messages of then, which have values of them, may be the newest ones of their keys.
    """
    sizes = new.size_bytes + (0 if old is None else old.size_bytes)
    count = sizes // part_bytes + 1
    new_places = new.parts(count)
    if old is None:
        return _all_of(new, new_places, count)
    return _differences(old, new, (old.parts(count), new_places), count, shown)


def _all_of(new: JoinedRows, places: list[list[Integers]], count: int) -> Iterator[OutputRows]:
    for part in range(count):
        rows = OutputRows(Op.READ, None, new.part(places, part))
        if len(rows):
            yield rows


def _differences(
    old: JoinedRows,
    new: JoinedRows,
    places: tuple[list[list[Integers]], list[list[Integers]]],
    count: int,
    shown: Collection[str],
) -> Iterator[OutputRows]:
    is_lacking = _lacking(old, new, shown)
    for part in range(count):
        before = _as_now(new.plan, old.part(places[0], part))
        found = _replaced(new.plan, before, new.part(places[1], part), is_lacking)
        yield from (each for each in found if len(each))


def _replaced(plan: JoinPlan, before: pa.RecordBatch, after: pa.RecordBatch, is_lacking: bool) -> list[OutputRows]:  # noqa: FBT001 - one of its own
    at = find_keys(output_keys(plan, after), output_keys(plan, before))
    is_known = at >= 0
    is_gone = np.ones(before.num_rows, np.bool_)
    is_gone[at[is_known]] = False
    is_other = np.ones(after.num_rows, np.bool_)
    if not is_lacking:
        known = pa.array(is_known)
        is_other[is_known] = look_other(plan, before.take(at[is_known]), after.filter(known))
    gone = before.filter(pa.array(is_gone))
    return [
        OutputRows(Op.DELETE, _filled(plan, gone), None),
        OutputRows(Op.READ, None, after.filter(pa.array(is_other))),
    ]


def _lacking(old: JoinedRows, new: JoinedRows, shown: Collection[str]) -> bool:
    """Whether a field came that is never NULL, or came back: NULL is not what messages say where they lack it."""
    names = {column.name for column in old.plan.output.columns}
    added = [column for column in new.plan.output.columns if column.name not in names]
    return any(not column.nullable or column.name in shown for column in added)


def _nothing(plan: JoinPlan) -> pa.Table:
    names = [f"{letter}{index}" for letter in "ba" for index in range(len(plan.inputs))]
    return pa.schema([(name, pa.binary()) for name in names]).empty_table()


def _schema(plan: JoinPlan) -> pa.Schema:
    return pa.schema([field.with_nullable(nullable=True) for field in arrow_schema(plan.output)])


def _as_now(plan: JoinPlan, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with the columns of another plan, NULL in those that they lack."""
    columns: list[Any] = [
        rows.column(column.name)
        if column.name in rows.schema.names
        else pa.array([None] * len(rows), arrow_type(column.type))
        for column in plan.output.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_schema(plan))


def _filled(plan: JoinPlan, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows that may lack what is never NULL, with the zero of its type there."""
    columns = [
        values if column.nullable or not values.null_count else _zeros(column, len(values))
        for column, values in zip(plan.output.columns, rows.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _zeros(column: Column, count: int) -> ArrowArray:
    type_ = arrow_type(column.type)
    zeros: ArrowArray
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        zeros = pa.array([b""] * count, pa.binary()).cast(type_)
    elif pa.types.is_decimal(type_):
        zeros = pa.array([Decimal(0)] * count, type_)
    else:
        zeros = pa.array([0] * count, pa.int32() if pa.types.is_date32(type_) else pa.int64()).cast(type_)
    return zeros
