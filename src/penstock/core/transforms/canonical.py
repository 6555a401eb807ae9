"""One representation for equal values, whatever the type of the column that they are in.

| values | their bytes |
|---|---|
| NULL | none |
| text, ENUM, SET, JSON, UUID, INET | the text in UTF-8 |
| bytes, geometries | themselves |
| whole numbers, BIT, YEAR | decimal digits: `-12` |
| DECIMAL | digits without zeros at the end: `12`, `12.5` |
| FLOAT, DOUBLE | the fewest digits that give the double back, no exponent: `0.1`, `12`; `NaN`, `Infinity` |
| DATE | `2024-01-31` |
| DATETIME | `2024-01-31 12:00:00`, then the fraction without zeros at its end: `.5` |
| TIMESTAMP | the same in UTC, then `Z` |
| TIME | `-838:59:59.5`: two digits or more for the hours, the fraction as above |

So 12 has one representation as INT, BIGINT, DECIMAL(8,2), DOUBLE and in a text,
and a column that becomes wider keeps those of its values. Within one type,
different values have different representations (0.0 and -0.0 are equal).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, assert_never

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
    import datetime as dt
    from collections.abc import Callable
    from decimal import Decimal


Render: TypeAlias = "Callable[..., bytes]"

_DAY_SECONDS = 86_400


def renderer(type_: ColumnType) -> Render:  # noqa: C901, PLR0911 - one return per member of the union
    """Return what turns a value of `type_`, as Arrow gives it to Python, into its representation.

    Raises ValueError for a type whose values have none.
    """
    match type_:
        case PrintedType("datetime" | "timestamp" as kind):
            return _encoded(lambda text: _without_zeros(text) + ("Z" if kind == "timestamp" else ""))
        case TextType() | EnumType() | SetType() | PrintedType():
            return str.encode
        case BytesType() | GeometryType():
            return bytes
        case IntegerType() | BitType() | YearType():
            return _encoded(str)
        case DecimalType():
            return _encoded(_decimal)
        case FloatType():
            return _encoded(_float)
        case DateType():
            return _encoded(_date)
        case DateTimeType():
            return _encoded(_datetime)
        case TimestampType():
            return _encoded(lambda value: f"{_datetime(value)}Z")
        case TimeType():
            return _encoded(_time)
        case VectorType() | UnsupportedType():
            message = "its values have no representation that could be hashed"
            raise ValueError(message)
        case _:
            assert_never(type_)


def _encoded(render: Callable[..., str]) -> Render:
    return lambda value: render(value).encode()


def _decimal(value: Decimal) -> str:
    text = _without_zeros(format(value, "f"))
    return "0" if text == "-0" else text


def _float(value: float) -> str:
    text = repr(value)
    if "e" in text:
        text = _positional(text)
    text = _without_zeros(text)
    return {"-0": "0", "nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text)


def _positional(text: str) -> str:
    """Write `1.5e-07` without its exponent; no digit is lost, whatever a decimal context says."""
    digits, _, exponent = text.partition("e")
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    whole, _, fraction = digits.partition(".")
    point = len(whole) + int(exponent)
    written = (whole + fraction).rjust(len(whole + fraction) + max(1 - point, 0), "0").ljust(max(point, 0), "0")
    point = max(point, 1)
    return f"{sign}{written[:point]}.{written[point:]}"


def _date(value: dt.date) -> str:
    return value.isoformat()


def _datetime(value: dt.datetime) -> str:
    return _without_zeros(value.replace(tzinfo=None).isoformat(" "))


def _time(value: dt.timedelta) -> str:
    sign, span = ("-", -value) if value.days < 0 else ("", value)
    minutes, seconds = divmod(span.days * _DAY_SECONDS + span.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return _without_zeros(f"{sign}{hours:02}:{minutes:02}:{seconds:02}.{span.microseconds:06}")


def _without_zeros(text: str) -> str:
    """Leave out zeros at the end of a fraction, and its point where nothing is left."""
    return text.rstrip("0").rstrip(".") if "." in text else text
