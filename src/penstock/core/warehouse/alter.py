"""Statements that turn a table with rows in it into the table of a later schema."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.core.tables import BytesType, Column, DecimalType, EnumType, SetType, TextType
from penstock.core.warehouse.columns import (
    REFRESH_OR_ANEW,
    by_name,
    check_names,
    column_type,
    declared,
    fill_value,
    stopped,
)
from penstock.core.warehouse.dialect import Dialect, Retype, quote_name
from penstock.core.warehouse.key_index import plan_key_index
from penstock.core.warehouse.migration import Around, Check, Migration, RetypedAhead
from penstock.core.warehouse.narrowing import find_out_of_range
from penstock.core.warehouse.other_key import plan_key_checks
from penstock.core.warehouse.rebuild import plan_rebuild
from penstock.core.warehouse.widening import widens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.tables import ColumnType, TableSchema
    from penstock.core.warehouse.target_table import TargetTable

Retyped = tuple[Column, Column]
_AROUND = Around()


def plan_migration(dialect: Dialect, target: TargetTable, after: TableSchema, around: Around = _AROUND) -> Migration:
    """Return how `target` becomes the table for `after`.

    Columns come (existing rows take the value that the source gave them), go, or
    get another type, which each value must stay the same in. The rows may get
    another key. Order, comments, defaults, and NULL or NOT NULL are nothing to
    the target. The table is made anew where it becomes a change log or ceases to
    be one, and where the warehouse cannot change a type in its place. One without
    rows can become any other. Raises TableStoppedError for any other change, and
    where a column that goes may be one that comes: a rename keeps values.
    """
    check_names(dialect, after, target.deletes)
    if not around.has_rows:
        if not keeps_shape(dialect, target.schema, after):
            return plan_rebuild(dialect, target, after, around)
        return Migration(tuple(_alter(dialect, target, after, ())))
    retyped = _retyped(dialect, target.schema, after)
    checks = [*_out_of_range_checks(dialect, target, after)]
    _refuse_rename(target.schema, after, are_told=around.renames_are_told)
    if after.key and _folded(target.schema.key) != _folded(after.key):
        checks += plan_key_checks(dialect, target, after)
    if around.stays_put or needs_rebuild(dialect, target.schema, after):
        made = plan_rebuild(dialect, target, after, around)
        return replace(made, checks=(*checks, *made.checks))
    types, apart = tuple(_retype(dialect, target, after, retyped)), not dialect.retypes_in_transaction
    inside = () if apart else tuple(each.statement for each in types)
    return Migration(
        tuple(_alter(dialect, target, after, inside)),
        tuple(checks),
        ahead=types if apart else (),
        going=frozenset(column.name.casefold() for column in _going(target.schema, after)),
        retyped=frozenset(old.name.casefold() for old, _ in retyped),
    )


def needs_rebuild(dialect: Dialect, before: TableSchema, after: TableSchema) -> bool:
    """Whether a table with rows cannot be changed in its place; TableStoppedError where it cannot be changed at all."""
    if bool(before.key) != bool(after.key):
        return True
    return not all(_fits_in_place(dialect, old.type, new.type) for old, new in _retyped(dialect, before, after))


def keeps_shape(dialect: Dialect, before: TableSchema, after: TableSchema) -> bool:
    """Whether an empty table need only get columns, if anything."""
    if bool(before.key) != bool(after.key) or _going(before, after):
        return False
    there = by_name(before)
    kept = [(there[name], column) for name, column in by_name(after).items() if name in there]
    return all(column_type(dialect, before, old) == column_type(dialect, after, new) for old, new in kept)


def _refuse_rename(before: TableSchema, after: TableSchema, *, are_told: bool) -> None:
    """Refuse columns that go while others come, where one of these may be one of those under another name.

    Where renames `are_told`, only a column can be that had a number in its source and has none now: the source was
    asked when the table was gone.
    """
    there = by_name(before)
    coming = [c.name for name, c in by_name(after).items() if name not in there and not (are_told and c.number)]
    going = [column.name for column in _going(before, after) if column.number or not are_told]
    if coming and going:
        reason = f"{', '.join(going)} went and {', '.join(coming)} came in one step, which may be a rename or not"
        raise stopped(after, "", reason, REFRESH_OR_ANEW)


def _going(before: TableSchema, after: TableSchema) -> list[Column]:
    kept = by_name(after)
    return [column for name, column in by_name(before).items() if name not in kept]


def _alter(dialect: Dialect, target: TargetTable, after: TableSchema, retypes: Sequence[str]) -> Iterator[str]:
    path, there = target.path(dialect), by_name(target.schema)
    for column in _going(target.schema, after):
        yield f"ALTER TABLE {path} DROP COLUMN {quote_name(dialect, column.name)}"
    yield from retypes
    for name, column in by_name(after).items():
        if name not in there:
            yield from _add(dialect, path, after, column)
    if target.schema.key != after.key:
        yield from plan_key_index(dialect, path, after)


def _add(dialect: Dialect, path: str, schema: TableSchema, column: Column) -> Iterator[str]:
    fill, name = fill_value(dialect, schema, column), quote_name(dialect, column.name)
    add = f"ALTER TABLE {path} ADD COLUMN {name} {column_type(dialect, schema, column)}"
    if fill == "NULL":
        yield add
    elif dialect.fills_by_default:
        yield f"{add} DEFAULT {fill}"
    else:
        yield from (add, f"UPDATE {path} SET {name} = {fill}")  # noqa: S608 - names are quoted


def _retype(
    dialect: Dialect, target: TargetTable, after: TableSchema, retyped: Sequence[Retyped]
) -> Iterator[RetypedAhead]:
    for old, new in retyped:
        type_, name = column_type(dialect, after, new), quote_name(dialect, old.name)
        statement = f"ALTER TABLE {target.path(dialect)} {dialect.retype.format(name=name, type=type_)}"
        yield RetypedAhead(old.name, type_, statement)


def _retyped(dialect: Dialect, before: TableSchema, after: TableSchema) -> list[Retyped]:
    """Return the columns that get another type in the warehouse, as they were and as they are."""
    there = by_name(before)
    kept = [(there[name], column) for name, column in by_name(after).items() if name in there]
    for old, new in kept:
        if not widens(old.type, new.type) and find_out_of_range(dialect, old, new, "") is None:
            reason = f"its type went from {declared(old)} to {declared(new)}, which may change stored values"
            raise stopped(after, new.name, reason, REFRESH_OR_ANEW)
    return [(old, new) for old, new in kept if column_type(dialect, after, new) != column_type(dialect, before, old)]


def _out_of_range_checks(dialect: Dialect, target: TargetTable, after: TableSchema) -> Iterator[Check]:
    """Yield a check of each column that may lose values, also where the warehouse's type stays."""
    there, key = by_name(target.schema), [quote_name(dialect, name) for name in target.schema.key]
    for name, new in by_name(after).items():
        old = there.get(name)
        if old is None or widens(old.type, new.type):
            continue
        value = quote_name(dialect, old.name)
        out_of_range = find_out_of_range(dialect, old, new, value)
        listed = ", ".join(dict.fromkeys([*key, value]))
        query = f"SELECT {listed} FROM {target.path(dialect)} WHERE {out_of_range} LIMIT 1"  # noqa: S608 - names are quoted
        yield Check(query, new.name, f"its type went from {declared(old)} to {declared(new)}, which a row does not fit")


def _fits_in_place(dialect: Dialect, old: ColumnType, new: ColumnType) -> bool:
    if not widens(old, new) or Retype.ANY in dialect.retypes:
        return Retype.ANY in dialect.retypes
    if Retype.WIDER in dialect.retypes:
        return True
    match old, new:
        case (TextType() | EnumType() | SetType(), TextType() | EnumType() | SetType()):
            return Retype.LONGER_TEXT in dialect.retypes
        case BytesType(), BytesType():
            return Retype.LONGER_BINARY in dialect.retypes
        case DecimalType(), DecimalType():
            return Retype.MORE_DIGITS in dialect.retypes and old.scale == new.scale
        case _:
            return False


def _folded(names: Sequence[str]) -> list[str]:
    return [name.casefold() for name in names]
