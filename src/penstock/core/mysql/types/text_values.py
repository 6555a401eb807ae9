"""Values as a SELECT prints them, as Arrow columns: exact, or refused."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.arrow_types import arrow_type
from penstock.core.mysql.types.charsets import is_utf8
from penstock.core.mysql.types.special_values import enum_label, extended_wkb, set_text, vector_floats
from penstock.core.mysql.types.values import text_reader
from penstock.core.tables import (
    BitType,
    BytesType,
    DateTimeType,
    DateType,
    EnumType,
    FloatType,
    GeometryType,
    SetType,
    TextType,
    TimestampType,
    TimeType,
    UnsupportedType,
    VectorType,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.tables import Column, ColumnType

_SPAN: Final = re.compile(rb"(-?)([0-9]{1,3}):([0-5]?[0-9]):([0-5]?[0-9])(?:\.([0-9]{1,6}))?")


def select_expression(column: Column, quoted: str) -> str:
    """What to select for a column called `quoted`, so that what is printed is the whole value.

    A FLOAT is printed with six digits unless it is cast. An ENUM, a SET and a BIT
    are asked for by their numbers, as the log has them. Text and the rest come in
    the bytes of the column.
    """
    match column.type:
        case FloatType():
            return f"CAST({quoted} AS DOUBLE)"
        case EnumType() | SetType() | BitType():
            return f"CAST({quoted} AS UNSIGNED)"
        case _:
            return quoted


def parse_values(  # noqa: PLR0911 - one return per way of printing
    type_: ColumnType, values: pa.BinaryArray, *, in_key: bool = False
) -> pa.Array[Any]:
    """Return the printed `values` of one column as the Arrow type that carries it.

    Text is expected in its column's character set, instants in UTC, and the rest
    as `select_expression` has it printed. `in_key` says that they are of a
    primary key. Raises ValueError (pyarrow's own, or BadValueError) for a value
    that the type does not hold, such as the date 0000-00-00.
    """
    match type_:
        case TextType(charset=charset):
            return _texts(values, charset)
        case GeometryType():
            return _each(values, extended_wkb, type_)
        case VectorType():
            return _each(values, vector_floats, type_)
        case TimeType():
            return _each(values, _span, type_)
        case EnumType(labels):
            return _each(values, lambda raw: enum_label(int(raw), labels, in_key=in_key), type_)
        case SetType(labels):
            return _each(values, lambda raw: set_text(int(raw), labels, in_key=in_key), type_)
        case _:
            return _parse_array(type_, values)


def _parse_array(type_: ColumnType, raw: pa.BinaryArray) -> pa.Array[Any]:
    match type_:
        case BytesType():
            return raw
        case FloatType():
            return raw.cast(pa.string()).cast(pa.float64()).cast(arrow_type(type_))
        case DateType(zero_is_null):
            return _calendar(raw, pa.date32(), zero_is_null=zero_is_null)
        case DateTimeType() | TimestampType():
            moments = _calendar(raw, pa.timestamp("us"), zero_is_null=type_.zero_is_null)
            return moments.cast(arrow_type(type_))
        case UnsupportedType(declaration):
            text = f"no Arrow type carries {declaration}"
            raise ValueError(text)
        case _:
            return raw.cast(pa.string()).cast(arrow_type(type_))


def _texts(values: pa.BinaryArray, charset: str) -> pa.Array[Any]:
    if is_utf8(charset):
        return values.cast(pa.string())
    return _each(values, text_reader(charset), TextType(0, charset))


def _each(values: pa.BinaryArray, read: Callable[[bytes], object], type_: ColumnType) -> pa.Array[Any]:
    return pa.array([None if value is None else read(value) for value in values.to_pylist()], arrow_type(type_))


def _span(printed: bytes) -> int:
    """Return the microseconds of a time such as -838:59:59.000000."""
    found = _SPAN.fullmatch(printed)
    if found is None:
        text = f"{printed.decode(errors='replace')!r} is no time such as -838:59:59.000000"
        raise ValueError(text)
    sign, hours, minutes, seconds, fraction = found.groups(b"")
    whole = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1_000_000 + int(fraction.ljust(6, b"0"))
    return -whole if sign else whole


def _calendar(raw: pa.BinaryArray, type_: pa.DataType, *, zero_is_null: bool) -> pa.Array[Any]:
    """Read dates as text. Arrow refuses a month or day 0 itself, but has a year 0."""
    texts = raw.cast(pa.string())
    if not zero_is_null:
        is_zero = pc.starts_with(texts, "0000")
        if pc.any(is_zero).as_py():
            text = f"{texts.filter(is_zero)[0]} is no date, and zero_dates of the source is not set"
            raise ValueError(text)
        return texts.cast(type_)
    moments = [None if text is None else _moment_or_null(text) for text in texts.to_pylist()]
    return pa.array(moments, pa.timestamp("us")).cast(type_)


def _moment_or_null(text: str) -> dt.datetime | None:
    """Return None for what no calendar has."""
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        return None
