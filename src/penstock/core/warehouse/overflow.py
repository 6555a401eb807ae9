"""Values that a warehouse cannot hold: too long, too large, too early, or with a character that it does not take.

A policy decides what becomes of them:

`stop`   the table stops, and the error names column, key and value
`null`   NULL takes their place
`clamp`  the nearest value that can be held does: a text or a binary is cut, a
         number or a date becomes the greatest or least one, NUL characters are
         left out; documents and geometries, of which a part means nothing,
         become NULL

Each one is counted. In a column of the key they stop the table whatever the
policy says: two rows would become one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.arrow_types import arrow_type
from penstock.core.errors import TableStoppedError
from penstock.core.files import OFFSET
from penstock.core.tables import (
    BytesType,
    DateTimeType,
    DateType,
    DecimalType,
    GeometryType,
    PrintedType,
    TimestampType,
)
from penstock.core.warehouse.columns import REFRESH_OR_ANEW
from penstock.core.warehouse.limits import value_lengths

if TYPE_CHECKING:
    from penstock.core.tables import Column, TableSchema
    from penstock.core.warehouse.dialect import Dialect
    from penstock.core.warehouse.load_plan import Overflow

_NUL = "\x00"
_SHOWN_CHARACTERS = 100
Values: TypeAlias = "pa.ChunkedArray[Any]"


@dataclass(frozen=True, slots=True)
class FittedRows:
    """Rows that the warehouse can hold, and how many values were changed for that."""

    rows: pa.Table
    changed: int


def fit_schema(dialect: Dialect, schema: TableSchema, overflow: Overflow) -> TableSchema:
    """Return the schema as the warehouse can have it: with `null` and `clamp` decimals lose digits before the point."""
    if overflow == "stop":
        return schema
    return replace(schema, columns=tuple(_fit_column(dialect, column) for column in schema.columns))


def fit_rows(dialect: Dialect, schema: TableSchema, rows: pa.Table, overflow: Overflow) -> FittedRows:
    """Return `rows`, laid out as files of `schema`, as rows of its `fit_schema`; TableStoppedError where that stops."""
    changed = 0
    for index, column in enumerate(schema.columns):
        values = rows.column(index)
        fitted = _fit_column(dialect, column) if overflow != "stop" else column
        out_of_range = _find_out_of_range(dialect, column, fitted, values)
        count = 0 if out_of_range is None else int(pc.sum(out_of_range).as_py() or 0)
        if out_of_range is not None and count:
            if overflow == "stop" or column.name in schema.key:
                raise _refusal(dialect, schema, column, rows.filter(out_of_range).slice(0, 1))
            nearest = _clamp(dialect, column, fitted, values.filter(out_of_range)) if overflow == "clamp" else None
            instead = pa.nulls(count, values.type) if nearest is None else nearest.combine_chunks()
            values = pc.replace_with_mask(values.combine_chunks(), out_of_range.combine_chunks(), instead)
            changed += count
        if fitted.type != column.type or count:
            type_ = arrow_type(fitted.type)
            rows = rows.set_column(index, pa.field(column.name, type_), values.cast(type_))
    return FittedRows(rows, changed)


def _fit_column(dialect: Dialect, column: Column) -> Column:
    match column.type:
        case DecimalType(precision, scale) if precision > dialect.decimal_precision_max and scale < precision:
            return replace(column, type=DecimalType(dialect.decimal_precision_max, scale))
        case _:
            return column


def _find_out_of_range(dialect: Dialect, column: Column, fitted: Column, values: Values) -> Values | None:
    """Return which values cannot be held, None where none is to be looked for."""
    found: Any = None
    match fitted.type:
        case DecimalType(precision, scale) if fitted.type != column.type:
            bound = pa.scalar(Decimal(f"1E{precision - scale}"), values.type)
            found = pc.greater_equal(pc.abs(values), bound)
        case DateType() | DateTimeType() | TimestampType() if dialect.first_date:
            found = pc.less(values, _first_date(dialect, values))
        case BytesType() | GeometryType() if _limit(dialect, column):
            found = pc.greater(pc.binary_length(values), pa.scalar(_limit(dialect, column)))
        case _ if pa.types.is_string(values.type):
            found = _find_long_texts(dialect, column, values)
        case _:
            return None
    if found is None:
        return None
    known: Values = pc.if_else(pc.is_null(found), pa.scalar(value=False), found)
    return known


def _find_long_texts(dialect: Dialect, column: Column, values: Values) -> Values | None:
    found: Any = None
    if limit := _limit(dialect, column):
        length = pc.binary_length(values) if dialect.text_length_is_bytes else pc.utf8_length(values)
        found = pc.greater(length, pa.scalar(limit))
    if not dialect.text_has_nul and _has_nul(values):
        with_nul: Any = pc.match_substring(values, _NUL)
        found = with_nul if found is None else pc.or_(found, with_nul)
    out_of_range: Values | None = found
    return out_of_range


def _clamp(dialect: Dialect, column: Column, fitted: Column, values: Values) -> Values | None:
    """Return the nearest of values that cannot be held; None where there is none."""
    limit = _limit(dialect, column)
    match fitted.type:
        case DecimalType(precision, scale):
            zero, most = pa.scalar(Decimal(0), values.type), Decimal(f"{10**precision - 1}E-{scale}")
            bounds = [most.copy_negate() if is_negative else most for is_negative in pc.less(values, zero).to_pylist()]
            return pa.chunked_array([pa.array(bounds, values.type)])
        case DateType() | DateTimeType() | TimestampType():
            return pa.chunked_array([[dialect.first_date] * len(values)], pa.date32()).cast(values.type)
        case PrintedType() | GeometryType():
            return None
        case BytesType():
            return pa.chunked_array([[value[:limit] for value in _present(values)]], values.type)
        case _:
            texts = [_cut_text(dialect, text, limit) for text in _present(values)]
            return pa.chunked_array([texts], values.type)


def _present(values: Values) -> list[Any]:
    """Return values as Python has them. Those that cannot be held are there."""
    return [value for value in values.to_pylist() if value is not None]


def _first_date(dialect: Dialect, values: Values) -> pa.Scalar[Any]:
    first: pa.Scalar[Any] = pa.scalar(dialect.first_date, pa.date32()).cast(values.type)
    return first


def _cut_text(dialect: Dialect, text: str, limit: int) -> str:
    whole = text if dialect.text_has_nul else text.replace(_NUL, "")
    if not limit:
        return whole
    return whole.encode()[:limit].decode(errors="ignore") if dialect.text_length_is_bytes else whole[:limit]


def _limit(dialect: Dialect, column: Column) -> int:
    """Return how long a value may be, 0 where none can be too long."""
    longest, limit, _ = value_lengths(dialect, column.type)
    return limit if 0 < limit < longest else 0


def _has_nul(values: Values) -> bool:
    """Look for a zero byte in what is behind the texts: quicker than to look into each."""
    contents = [chunk.buffers()[2] for chunk in values.chunks]
    return any(bool((np.frombuffer(memoryview(text), np.uint8) == 0).any()) for text in contents if text is not None)


def _refusal(dialect: Dialect, schema: TableSchema, column: Column, row: pa.Table) -> TableStoppedError:
    key = ", ".join(f"{name} {_shown(row.column(name)[0].as_py())}" for name in schema.key)
    which = f"the row with {key}" if key else "a row"
    value, offset = row.column(column.name)[0].as_py(), row.column(OFFSET)[0].as_py()
    reason = f"{dialect.name} cannot hold {_shown(value)}{_why(dialect, value)}, of {which}, changed at offset {offset}"
    hint = f"correct the value in the source, then {REFRESH_OR_ANEW}"
    if column.name in schema.key:
        hint = f"in a key it can be neither NULL nor another one: {hint}"
    else:
        hint = f'say overflow: "null", or clamp, for the link, and run again; or {hint}'
    return TableStoppedError(str(schema.table), column.name, "the target's table", reason, hint)


def _why(dialect: Dialect, value: object) -> str:
    if isinstance(value, str) and _NUL in value and not dialect.text_has_nul:
        return " (its texts have no character NUL)"
    return f" (of {len(value)} characters or bytes)" if isinstance(value, str | bytes) else ""


def _shown(value: object) -> str:
    text = str(value) if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
