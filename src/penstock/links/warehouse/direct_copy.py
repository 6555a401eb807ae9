"""Rows that a target takes as they are: only their keys are staged, to delete what is there of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.files import OP
from penstock.core.tables import BytesType, DateTimeType, DateType, DecimalType, IntegerType, TextType, TimestampType
from penstock.core.warehouse.planner import project_rows
from penstock.links.warehouse.pieces import key_columns

if TYPE_CHECKING:
    from penstock.core.tables import TableSchema
    from penstock.core.warehouse.dialect import Dialect
    from penstock.core.warehouse.target_table import TargetTable

_EXACT = (BytesType, DateTimeType, DateType, DecimalType, IntegerType, TextType, TimestampType)
"""Types of which two values are one to Arrow where they are one to a warehouse: a float has NaN, a UUID upper case."""


def copies_directly(dialect: Dialect, target: TargetTable, arriving: TableSchema) -> bool:
    """Whether `newest_rows` of `arriving` are rows of the table as they are, each key once, but for those that went.

    Raises TableStoppedError where the rows do not fit at all.
    """
    if not (target.schema.key and arriving.key) or target.deletes == "soft" or arriving.partial_rows:
        return False
    if not all(isinstance(column.type, _EXACT) for column in key_columns(arriving)):
        return False
    names, values = project_rows(dialect, target, arriving)
    return values == [f"s.{name}" for name in names]


def keys_of(arriving: TableSchema, rows: pa.Table) -> tuple[TableSchema, pa.Table]:
    """Return the keys of `rows`, and a schema as which they can be staged."""
    columns = key_columns(arriving)
    return replace(arriving, columns=columns), rows.select([column.name for column in columns])


def listed_keys(dialect: Dialect, arriving: TableSchema, rows: pa.Table) -> list[int]:
    """Return the keys of `rows` where a statement had better list them; empty where they had better be staged."""
    column, *others = key_columns(arriving)
    if others or not isinstance(column.type, IntegerType) or rows.num_rows > dialect.listed_keys_max:
        return []
    return cast("list[int]", rows.column(column.name).to_pylist())


def living_rows(target: TargetTable, rows: pa.Table) -> pa.Table:
    """Return those of `rows` that the source has, with the table's columns."""
    is_there = pc.not_equal(rows.column(OP), pa.scalar("d"))
    return rows.select(target.column_names).filter(is_there)
