"""Empty binaries in what COPY reads, which takes an empty field of any type but text for NULL.

Source: Amazon Redshift Database Developer Guide, "Data conversion parameters"
(EMPTYASNULL: "empty fields for other data types are always loaded with NULL").
In a column that is never NULL an empty field can only be an empty binary; else
rows get a column more, which says where one is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.files import META_PREFIX
from penstock.core.tables import BytesType, Column, IntegerType
from penstock.core.warehouse.dialect import quote_name
from penstock.core.warehouse.dialects import REDSHIFT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.tables import TableSchema

_MARK = IntegerType(16, unsigned=False)


@dataclass(frozen=True, slots=True)
class MarkedRows:
    """Rows with a column more for each of `binaries` that has empty values, called as `columns` are: 1 where one is."""

    rows: pa.Table
    binaries: tuple[str, ...]
    columns: tuple[Column, ...]


def may_confuse(schema: TableSchema) -> bool:
    """Whether a file of `schema` may have an empty binary where there may be a NULL, too."""
    return any(isinstance(column.type, BytesType) and column.nullable for column in schema.columns)


def mark_empty(columns: Sequence[Column], rows: pa.Table) -> MarkedRows:
    """Mark the empty binaries of `rows`, which have `columns`."""
    binaries: list[str] = []
    marks: list[Column] = []
    for column in columns:
        if not isinstance(column.type, BytesType):
            continue
        is_empty = pc.equal(pc.coalesce(pc.binary_length(rows.column(column.name)), pa.scalar(1)), pa.scalar(0))
        if pc.any(is_empty).as_py():
            mark = Column(f"{META_PREFIX}empty_{len(marks)}", _MARK, nullable=False)
            rows = rows.append_column(mark.name, is_empty.cast(pa.int16()))
            binaries.append(column.name)
            marks.append(mark)
    return MarkedRows(rows, tuple(binaries), tuple(marks))


def plan_marked(staged: str, marked: MarkedRows) -> list[str]:
    """Return the statements that make what is marked in `staged` (a quoted name) empty."""
    return [
        _plan_empty(staged, name, f"{quote_name(REDSHIFT, mark.name)} = 1")
        for name, mark in zip(marked.binaries, marked.columns, strict=True)
    ]


def plan_never_null(staged: str, schema: TableSchema) -> list[str]:
    """Return the statements that make NULL empty in columns of `staged` (a quoted name) that are never NULL."""
    return [
        _plan_empty(staged, column.name, f"{quote_name(REDSHIFT, column.name)} IS NULL")
        for column in schema.columns
        if isinstance(column.type, BytesType) and not column.nullable
    ]


def _plan_empty(staged: str, name: str, where: str) -> str:
    return f"UPDATE {staged} SET {quote_name(REDSHIFT, name)} = {REDSHIFT.blob.format(hex='')} WHERE {where}"  # noqa: S608 - names are quoted
