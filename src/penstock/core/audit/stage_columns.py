"""Which columns of a table's changes can be compared with the source's rows, whatever schema each was written with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from penstock.core.arrow_types import arrow_type
from penstock.core.audit.canonical_text import kind_of
from penstock.core.files import META_PREFIX, OFFSET, OP
from penstock.core.warehouse.widening import widens

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.core.avro.arrays import ArrowArray
    from penstock.core.tables import Column, TableSchema

ArrowColumn: TypeAlias = "ArrowArray | pa.ChunkedArray[pa.Scalar[pa.DataType]]"

TOPIC: Final = f"{META_PREFIX}topic"
PARTITION: Final = f"{META_PREFIX}partition"
PLACE: Final = f"{META_PREFIX}place"
SCHEMA: Final = f"{META_PREFIX}schema"
"""Beside OP and OFFSET, what is kept of each key's newest change: where it is, and by which schema it was written."""

_NOT_HELD: Final = "its values are too long for the database that stages are compared in"
_NEVER_BROUGHT: Final = (
    "rows were written to the topic last before it was there, before its type changed, or without its value"
)


def held_columns(schema: TableSchema) -> tuple[Column, ...]:
    """Return the columns that are kept: those that are compared at all, and that DuckDB has a type for."""
    return tuple(column for column in schema.columns if kind_of(column.type) is not None and not _is_wide(column))


def folded_schema(schema: TableSchema) -> pa.Schema:
    """Return what is kept of each key's newest change."""
    columns = [pa.field(column.name, arrow_type(column.type)) for column in held_columns(schema)]
    ours = [(OP, pa.string()), (OFFSET, pa.int64()), (TOPIC, pa.string()), (PARTITION, pa.int32())]
    return pa.schema([*columns, *(pa.field(*each) for each in (*ours, (PLACE, pa.string()), (SCHEMA, pa.int64())))])


def lay_out(schema: TableSchema, written: TableSchema, rows: pa.Table, of_ours: Sequence[ArrowColumn]) -> pa.Table:
    """Return rows that have the columns of `written` as `folded_schema` has them; `of_ours` are OP to SCHEMA.

    A column is null where `written` has none with the same values.
    """
    layout = folded_schema(schema)
    arrays: list[ArrowColumn] = []
    for column in held_columns(schema):
        there = _same_column(column, written)
        type_ = layout.field(column.name).type
        arrays.append(pa.nulls(rows.num_rows, type_) if there is None else rows.column(there.name).cast(type_))
    return pa.Table.from_arrays([*arrays, *of_ours], schema=layout)


def left_out(schema: TableSchema, written: Collection[TableSchema]) -> dict[str, str]:
    """Say of the columns that cannot be compared why; `written` are the schemas by which living rows were written."""
    reasons = {column.name: _NOT_HELD for column in schema.columns if _is_wide(column)}
    for column in held_columns(schema):
        if any(_same_column(column, each) is None for each in written):
            reasons[column.name] = _NEVER_BROUGHT
    return reasons


def has_key(schema: TableSchema, written: TableSchema) -> bool:
    """Whether rows of `written` are known by the key of `schema`."""
    keys = [{name.casefold() for name in each.key} for each in (schema, written)]
    return keys[0] == keys[1] and all(_same_column(schema.column(name), written) for name in schema.key)


def _same_column(column: Column, written: TableSchema) -> Column | None:
    """Return the column of `written` whose values, as they were written, are those of `column`."""
    for other in written.columns:
        if other.name.casefold() == column.name.casefold():
            is_same = other.type == column.type or (
                kind_of(other.type) == kind_of(column.type) and widens(other.type, column.type)
            )
            return other if is_same else None
    return None


def _is_wide(column: Column) -> bool:
    return kind_of(column.type) == "decimal" and pa.types.is_decimal256(arrow_type(column.type))
