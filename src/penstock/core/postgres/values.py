"""One value of a column, from the text that PostgreSQL prints: in its log and in COPY alike.

The server is told to print as UTF-8, DateStyle ISO, in UTC, bytea as hex and floats in full.
Source: PostgreSQL 18 documentation, chapter 8.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.core.postgres import types
from penstock.core.postgres.array_text import print_array, print_as_is, print_number, print_text, print_truth
from penstock.core.postgres.bad_values import AS_TEXT, BadValueError
from penstock.core.tables import (
    BytesType,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    PrintedType,
    TextType,
    TimestampType,
    TimeType,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.core.postgres.array_text import ElementPrinter
    from penstock.core.postgres.types import FoundType, TypeInfo

Value: TypeAlias = int | float | str | bytes | Decimal
Reader: TypeAlias = "Callable[[bytes], Value]"

_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()
_SECOND: Final = 1_000_000
_DATE: Final = re.compile(rb"(\d{4})-(\d\d)-(\d\d)")
_CLOCK: Final = re.compile(rb"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_MOMENT: Final = re.compile(_DATE.pattern + rb" " + _CLOCK.pattern)
_INSTANT: Final = re.compile(_MOMENT.pattern + rb"\+00")
_NUMBERS: Final = frozenset({types.INT2, types.INT4, types.INT8, types.OID, types.FLOAT4, types.FLOAT8, types.NUMERIC})
_TRUTHS: Final[Mapping[bytes, int]] = {b"t": 1, b"f": 0}


def value_reader(  # noqa: C901, PLR0911 - one return per type
    found: FoundType, carried: ColumnType, catalog: Mapping[int, TypeInfo]
) -> Reader:
    """Return the function that reads values of a column of the type `found`, which is `carried` so.

    Its results are what `pyarrow.array` takes for the Arrow type of `carried`: dates
    are days, moments and instants microseconds since 1970, times microseconds. It
    raises BadValueError for what that type cannot hold. `catalog` has the types of elements.
    """
    match carried:
        case IntegerType():
            return _truth if found.oid == types.BOOL else _parsed(int)
        case FloatType():
            return _parsed(float)
        case DecimalType():
            return _decimal
        case BytesType():
            return _bytes
        case DateType():
            return _days
        case DateTimeType():
            return lambda raw: _microseconds(_MOMENT, raw)
        case TimestampType():
            return lambda raw: _microseconds(_INSTANT, raw)
        case TimeType():
            return _time
        case PrintedType("json") if types.is_array(found.info):
            return _array_reader(found, catalog)
        case TextType() | PrintedType():
            return _text
        case _:
            message = f"no column of PostgreSQL is carried as {carried}"
            raise ValueError(message)


def _parsed(parse: Callable[[bytes], Value]) -> Reader:
    def read(raw: bytes) -> Value:
        try:
            return parse(raw)
        except ValueError as error:
            reason = f"{raw[:64]!r} is no number"
            raise BadValueError(reason) from error

    return read


def _truth(raw: bytes) -> int:
    if raw not in _TRUTHS:
        reason = f"{raw[:64]!r} is no boolean"
        raise BadValueError(reason)
    return _TRUTHS[raw]


def _decimal(raw: bytes) -> Decimal:
    try:
        value = Decimal(raw.decode())
    except (InvalidOperation, UnicodeDecodeError) as error:
        reason = f"{raw[:64]!r} is no number"
        raise BadValueError(reason) from error
    if not value.is_finite():
        reason = f"{raw.decode()} is no decimal number"
        raise BadValueError(reason, AS_TEXT)
    return value


def _bytes(raw: bytes) -> bytes:
    try:
        if raw.startswith(rb"\x"):
            return bytes.fromhex(raw[2:].decode())
    except ValueError:
        pass
    reason = f"{raw[:64]!r} is not bytes in hexadecimal digits"
    raise BadValueError(reason)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        reason = f"{raw[:64]!r} is no UTF-8: {error.reason}"
        raise BadValueError(reason) from error


def _days(raw: bytes) -> int:
    found = _DATE.fullmatch(raw)
    if found is None:
        raise _no_date(raw)
    return _day(raw, *map(int, found.groups()))


def _microseconds(pattern: re.Pattern[bytes], raw: bytes) -> int:
    found = pattern.fullmatch(raw)
    if found is None:
        raise _no_date(raw)
    year, month, day, hour, minute, second, fraction = found.groups()
    days = _day(raw, int(year), int(month), int(day))
    return days * 86_400 * _SECOND + _clock(hour, minute, second, fraction)


def _time(raw: bytes) -> int:
    found = _CLOCK.fullmatch(raw)
    if found is None:
        reason = f"{raw[:64]!r} is no time"
        raise BadValueError(reason)
    return _clock(*found.groups())


def _clock(hour: bytes, minute: bytes, second: bytes, fraction: bytes | None) -> int:
    seconds = (int(hour) * 60 + int(minute)) * 60 + int(second)
    return seconds * _SECOND + int((fraction or b"").ljust(6, b"0"))


def _day(raw: bytes, year: int, month: int, day: int) -> int:
    try:
        return dt.date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError as error:
        raise _no_date(raw) from error


def _no_date(raw: bytes) -> BadValueError:
    reason = f"{raw[:64].decode(errors='replace')} is outside of the years 1 to 9999, which are carried"
    return BadValueError(reason, AS_TEXT)


def _array_reader(found: FoundType, catalog: Mapping[int, TypeInfo]) -> Reader:
    info = found.info
    if info is None:
        return _text
    delimiter, printer = info.delimiter, _element_printer(types.find_type(info.element, -1, catalog).oid)
    return lambda raw: print_array(_text(raw), printer, delimiter)


def _element_printer(oid: int) -> ElementPrinter:
    if oid in _NUMBERS:
        return print_number
    if oid == types.BOOL:
        return print_truth
    return print_as_is if oid in {types.JSON, types.JSONB} else print_text
