"""What rows that existed before a column take for it: as an Avro default, and as MySQL fills it in."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Context, Decimal, DecimalException
from typing import TYPE_CHECKING, assert_never

from penstock.core.avro.column_types import avro_type
from penstock.core.tables import (
    BitType,
    BytesType,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    GeometryType,
    IntegerType,
    PrintedType,
    SetType,
    TextType,
    TimestampType,
    TimeType,
    UnsupportedType,
    VectorType,
    YearType,
    bit_integer,
)

if TYPE_CHECKING:
    from penstock.core.avro.json_values import JsonValue
    from penstock.core.tables import Column

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - DATETIME has no zone
_FLOAT_MAX = 3.4028234663852886e38
_WIDE = Context(prec=100)


def avro_default(column: Column) -> dict[str, JsonValue]:
    """Return `{"default": value}` for the field of `column`, or `{}` where it has none.

    A nullable column always has null, so that adding or dropping it is
    compatible both ways. A NOT NULL column has its constant, where Avro's JSON
    (specification, "Complex Types", table of field defaults) can say it exactly.
    A TIMESTAMP's constant is left out: the source prints it in a time zone that
    we do not know.
    """
    if column.nullable:
        return {"default": None}
    text = None if column.default_is_expression else column.default
    if column.filled is not None:
        text = column.filled
    if text is None:
        return {}
    try:
        value = _constant(column.type, text)
    except (ValueError, DecimalException):
        return {}
    return {} if value is None else {"default": value}


def implicit_default(column: Column) -> str | None:  # noqa: PLR0911 - one return per kind of value
    """Return what MySQL fills into existing rows when `column` is added NOT NULL without a default.

    In the notation of `Column.default`. None where the column is nullable or has
    a default of its own. Source: MySQL manual 13.6, "Data Type Default Values".
    The zero date is `0000-00-00`, as MySQL writes it.
    """
    if column.nullable or column.default is not None or column.default_is_expression:
        return None
    match column.type:
        case IntegerType() | BitType() | DecimalType() | FloatType():
            return "0"
        case TextType() | BytesType() | SetType():
            return ""
        case TimeType():
            return "00:00:00"
        case DateType():
            return "0000-00-00"
        case DateTimeType() | TimestampType():
            return "0000-00-00 00:00:00"
        case YearType():
            return "0000"
        case EnumType(labels):
            return labels[0]
        case PrintedType() | GeometryType() | VectorType() | UnsupportedType():
            return None
        case _:
            assert_never(column.type)


def _constant(type_: ColumnType, text: str) -> JsonValue:  # noqa: C901, PLR0911, PLR0912 - one return per member of the union
    match type_:
        case IntegerType():
            return _integer(type_, text)
        case BitType(bits):
            return _integer(bit_integer(bits), text)
        case YearType():
            return int(text)
        case DecimalType(precision, scale):
            return _decimal(Decimal(text), precision, scale)
        case FloatType(bits):
            return _float(float(text), bits)
        case TextType():
            return text
        case EnumType(labels):
            return text if text in labels else None
        case BytesType(bytes_max, fixed):
            return _bytes(text, bytes_max if fixed else 0)
        case DateType():
            return (date.fromisoformat(text) - _EPOCH.date()).days
        case DateTimeType():
            return (datetime.fromisoformat(text).replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)
        case SetType() | TimeType() | TimestampType() | PrintedType() | GeometryType() | VectorType():
            return None
        case UnsupportedType():
            return None
        case _:
            assert_never(type_)


def _integer(type_: IntegerType, text: str) -> JsonValue:
    value = int(text)
    low, high = (0, 2**type_.bits) if type_.unsigned else (-(2 ** (type_.bits - 1)), 2 ** (type_.bits - 1))
    if not low <= value < high:
        return None
    return value if isinstance(avro_type(type_), str) else _unscaled(value)


def _decimal(value: Decimal, precision: int, scale: int) -> JsonValue:
    unscaled = value.scaleb(scale, _WIDE)
    if not unscaled.is_finite() or unscaled != int(unscaled) or abs(unscaled) >= 10**precision:
        return None
    return _unscaled(int(unscaled))


def _unscaled(value: int) -> str:
    # Avro writes a default of bytes as a text with one character, U+0000 to U+00FF, per byte.
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True).decode("latin-1")


def _float(value: float, bits: int) -> JsonValue:
    fits = math.isfinite(value) and (bits == 64 or abs(value) <= _FLOAT_MAX)  # noqa: PLR2004 - the width itself
    return value if fits else None


def _bytes(text: str, padded_to: int) -> JsonValue:
    # Beyond plain ASCII, sources escape what they print, each in its own way.
    plain = text.isascii() and (text == "" or text.isprintable()) and "\\" not in text
    return text.ljust(padded_to, "\0") if plain else None
