"""Values that people write in a config or a database prints as a default, as values of a column's type."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import math
import re
import uuid
from decimal import Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

import pyarrow as pa

from penstock.core.arrow_types import arrow_type
from penstock.core.implicit_defaults import implicit_default
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
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.core.tables import Column
    from penstock.core.transforms.transform import Values

Plain: TypeAlias = str | int | float | bytes | Decimal | dt.date | dt.datetime | dt.timedelta

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATETIME: Final = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(?:\.(\d{1,6}))?")
_TIME: Final = re.compile(r"(-?)(\d{2,3}):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?")
_HOURS_MAX: Final = 838
_WIDE: Final = Context(prec=400)
_YEAR_MIN, _YEAR_MAX = 1901, 2155
_PRINTED_CHECKS: Final[Mapping[str, Callable[[str], object]]] = {
    "json": json.loads,
    "uuid": uuid.UUID,
    "inet4": ipaddress.IPv4Address,
    "inet6": ipaddress.IPv6Address,
}


def read_constant(type_: ColumnType, text: str) -> Values:
    """Return the value that `text` writes, as an array (of 1) with the Arrow type of `type_`.

    Instants are in UTC; bytes are those of the text in UTF-8, padded with NUL where
    the type is. Raises ValueError, which says why, for a value that `type_` cannot hold.
    """
    return pa.array([_read(type_, text)], arrow_type(type_))


def fill_value(column: Column) -> Values:
    """Return the value (array of 1) that rows older than `column` have in the source: see `core.warehouse.fill_values`.

    Raises ValueError where nobody but the source knows it.
    """
    if column.default_is_expression and column.filled is None:
        message = "its default is computed by the source"
        raise ValueError(message)
    text = column.default if column.filled is None else column.filled
    if text is None and column.nullable:
        return pa.array([None], arrow_type(column.type))
    text = implicit_default(column.type) if text is None else text
    if isinstance(column.type, BytesType) and (not text.isascii() or text.startswith("0x")):
        message = "its default may stand for other bytes than it shows"
        raise ValueError(message)
    return read_constant(column.type, text)


def _read(type_: ColumnType, text: str) -> Plain:  # noqa: C901, PLR0911, PLR0912 - one return per member of the union
    match type_:
        case IntegerType() | BitType() | YearType():
            return _integer(type_, text)
        case DecimalType(precision, scale):
            return _decimal(text, precision, scale)
        case FloatType(bits):
            return _float(text, bits)
        case TextType(longest):
            return _short(text, len(text), longest, "characters")
        case BytesType(longest, fixed):
            content = text.encode()
            _short(text, len(content), longest, "bytes")
            return content.ljust(longest, b"\0") if fixed else content
        case EnumType(labels):
            return _one_of(text, (*labels, ""))
        case SetType(labels):
            for label in text.split(",") if text else ():
                _one_of(label, labels)
            return ",".join(label for label in labels if label in text.split(","))
        case PrintedType():
            return _printed(type_, text)
        case DateType():
            return dt.date.fromisoformat(_matching(_DATE, text, "a date like 2024-01-31")[0])
        case DateTimeType(digits) | TimestampType(digits):
            return _datetime(text, digits, utc=isinstance(type_, TimestampType))
        case TimeType(digits):
            return _time(text, digits)
        case GeometryType() | VectorType():
            message = "a column of this type holds no value that can be written as text"
            raise ValueError(message)
        case UnsupportedType(declaration):
            message = f"no column of type {declaration} is carried"
            raise ValueError(message)
        case _:
            assert_never(type_)


def _integer(type_: IntegerType | BitType | YearType, text: str) -> int:
    match type_:
        case IntegerType(bits, unsigned):
            least, most = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        case BitType(bits):
            least, most = 0, 2**bits - 1
        case YearType():
            least, most = _YEAR_MIN, _YEAR_MAX
    if not re.fullmatch(r"[+-]?\d{1,30}", text):
        message = f"{text!r} is not a whole number"
        raise ValueError(message)
    value = int(text)
    if not least <= value <= most and not (value == 0 and isinstance(type_, YearType)):
        message = f"{text} is not between {least} and {most}"
        raise ValueError(message)
    return value


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite():
        message = f"{text!r} is not a number"
        raise ValueError(message)
    kept = value.quantize(Decimal(1).scaleb(-scale), context=_WIDE)
    if kept != value or (value and value.adjusted() >= precision - scale):
        message = f"{text} does not fit into {precision} digits, {scale} of them after the point"
        raise ValueError(message)
    return kept


def _float(text: str, bits: int) -> float:
    value = float(text)
    if not math.isfinite(value) or (bits == 32 and not math.isfinite(pa.scalar(value, pa.float32()).as_py())):  # noqa: PLR2004 - the width itself
        message = f"{text} is no number of {bits} bits"
        raise ValueError(message)
    return value


def _short(text: str, length: int, longest: int, unit: str) -> str:
    if length > longest:
        message = f"{text!r} has {length} {unit}, and the column holds {longest}"
        raise ValueError(message)
    return text


def _one_of(text: str, labels: tuple[str, ...]) -> str:
    if text not in labels:
        message = f"{text!r} is none of its labels {', '.join(map(repr, labels))}"
        raise ValueError(message)
    return text


def _printed(type_: PrintedType, text: str) -> str:
    if type_.kind in _PRINTED_CHECKS:
        _PRINTED_CHECKS[type_.kind](text)
        return text
    if type_.kind == "postgres":
        message = "a column of this type holds text whose rules PostgreSQL alone knows"
        raise ValueError(message)
    pattern = _DATE if type_.kind == "date" else _DATETIME
    found = _matching(pattern, text, "printed as the column's values are")
    digits = len(found[1] or "") if pattern is _DATETIME else 0
    if digits != type_.fraction_digits:
        message = f"{text!r} has {digits} fraction digits, and the column's values have {type_.fraction_digits}"
        raise ValueError(message)
    return text


def _datetime(text: str, digits: int, *, utc: bool) -> dt.datetime:
    found = _matching(_DATETIME, text, "a time like 2024-01-31 12:00:00")
    _check_fraction(text, found[1], digits)
    value = dt.datetime.fromisoformat(text)
    return value.replace(tzinfo=dt.UTC) if utc else value


def _time(text: str, digits: int) -> dt.timedelta:
    sign, hours, minutes, seconds, fraction = _matching(_TIME, text, "a time like 12:00:00").groups()
    _check_fraction(text, fraction, digits)
    if int(hours) > _HOURS_MAX:
        message = f"{text} has more than {_HOURS_MAX} hours"
        raise ValueError(message)
    micros = int((fraction or "").ljust(6, "0"))
    span = dt.timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds), microseconds=micros)
    return -span if sign else span


def _check_fraction(text: str, fraction: str | None, digits: int) -> None:
    if len((fraction or "").rstrip("0")) > digits:
        message = f"{text} has more than the column's {digits} fraction digits"
        raise ValueError(message)


def _matching(pattern: re.Pattern[str], text: str, like: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        message = f"{text!r} is not {like}"
        raise ValueError(message)
    return found
