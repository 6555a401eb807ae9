"""Which columns of an input's messages are those of the plan, by what was announced of the table since and before.

A message has the columns that its table had when the row was written. The plan knows
them as they were called when it was made, so names alone do not tell: a column may
have got another name, the name of another one, or may have come later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import Column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from penstock.core.avro.arrays import Integers
    from penstock.core.positions import Order
    from penstock.core.schema_changes import SchemaChange
    from penstock.core.tables import TableSchema

Origin: TypeAlias = str | Column | None
"""What a planned column is in a message: the one of that name, one that came later (as it came), or none."""


@dataclass(frozen=True, slots=True)
class Described:
    """A table has the schema `schema_id` behind `order` in its source's log.

    `renames` are those of the statement; one that `begins` has none of the rows before.
    """

    order: Order
    schema_id: int
    renames: tuple[tuple[str, str], ...] = ()
    begins: bool = False


def described(told: SchemaChange) -> Described | None:
    """What an event says of its table's columns; None for one that leaves them as they were."""
    if told.kind in {SchemaChangeKind.TRUNCATE, SchemaChangeKind.DROP}:
        return None
    return Described(told.order, told.value_schema_id, told.column_renames, told.kind is SchemaChangeKind.CREATE)


def describes_anew(before: Described, told: Described) -> bool:
    """Whether columns may be others behind `told`. A table can come back to a schema, which then has its old id."""
    return told.schema_id != before.schema_id or bool(told.renames)


def versions_of(described: Sequence[Described]) -> tuple[Described, ...]:
    """What was announced, oldest first, without what says the same again."""
    found: list[Described] = []
    for each in described:
        if not found or describes_anew(found[-1], each):
            found.append(each)
    return tuple(found)


def versions_at(versions: Sequence[Described], schema_id: int, orders: npt.NDArray[np.int64]) -> Integers:
    """The number of the version that each row with a schema is of; `orders` as in `Changed`.

    Where a table came back to the schema, its place in the log tells. Empty where no version has it.
    """
    numbers = [number for number, each in enumerate(versions) if each.schema_id == schema_id]
    if not numbers:
        return np.empty(0, np.int64)
    found = np.full(len(orders), numbers[0], np.int64)
    for number in numbers[1:]:
        found[_is_behind(orders, versions[number].order)] = number
    return found


def _is_behind(orders: npt.NDArray[np.int64], order: Order) -> npt.NDArray[np.bool_]:
    file, offset, row = order
    files, offsets, rows = orders[:, 0], orders[:, 1], orders[:, 2]
    is_in_file = (offsets > offset) | ((offsets == offset) & (rows > row))
    found: npt.NDArray[np.bool_] = (files > file) | ((files == file) & is_in_file)
    return found


def column_origins(
    versions: Sequence[Described], tables: Sequence[TableSchema], planned: int, at: int
) -> Mapping[str, Origin]:
    """What each column of the version `planned` is in messages of the version `at`.

    `tables` are those of `versions` from the older of the two on, up to the newer one.
    A column that was dropped is none, also where another one has its name by then.
    """
    first = min(planned, at)
    names = {column.name: column.name for column in tables[planned - first].columns}
    found: dict[str, Origin] = {}
    if at >= planned:
        for number in range(planned + 1, at + 1):
            kept = _kept(tables[number - 1 - first], tables[number - first], versions[number])
            found |= dict.fromkeys([name for name, now in names.items() if now not in kept])
            names = {name: kept[now] for name, now in names.items() if now in kept}
        return found | names
    for number in range(planned, at, -1):
        after, step = tables[number - first], versions[number]
        was = {new: old for old, new in _kept(tables[number - 1 - first], after, step).items()}
        for name, now in names.items():
            if now not in was:
                column = after.column(now)
                # Before a table that begins, rows are gone anyway.
                found[name] = None if step.begins and column.nullable else column
        names = {name: was[now] for name, now in names.items() if now in was}
    return found | names


def _kept(before: TableSchema, after: TableSchema, step: Described) -> Mapping[str, str]:
    """Which columns of `before` go on in `after`, and what they are called there."""
    renames, there = dict(step.renames), {column.name for column in after.columns}
    found = {}
    for column in before.columns:
        name = renames.get(column.name, column.name)
        is_gone = column.name not in renames and name in renames.values()
        if not is_gone and name in there:
            found[column.name] = name
    return found
