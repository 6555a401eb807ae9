"""One value of a column, from its bytes in a ROWS event: the plain reading that the fast one must agree with.

Sources: MariaDB Knowledge Base, "Rows_event_v1/v2", and the "Data Type Storage"
pages; MySQL internals, "Date and Time Data Type Representation" and
`decimal.cc` (`bin2decimal`).
"""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.core.mysql.row_layout import decimal_groups
from penstock.core.tables import (
    BytesType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    TextType,
    TimestampType,
    UnsupportedType,
    YearType,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.mysql.row_layout import Cell

Value: TypeAlias = int | float | str | bytes | Decimal

_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()
_DAY_MICROSECONDS: Final = 86_400_000_000
_PAIR_MICROSECONDS: Final = (1_000_000, 10_000, 100, 1)
_DATETIME_OFFSET: Final = 1 << 39
_YEAR_ZERO: Final = 1900
_FIX_ROW: Final = "correct the row (UPDATE) and copy the table again, or leave the column out"
_CODECS: Final = {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "ascii": "ascii"}
_FREE_IN_WINDOWS: Final = frozenset({0x81, 0x8D, 0x8F, 0x90, 0x9D})
_WINDOWS: Final = {code: bytes([code]).decode("cp1252") for code in range(0x80, 0xA0) if code not in _FREE_IN_WINDOWS}

LATIN1: Final = "latin1"


class BadValueError(ValueError):
    """The bytes are no value of their column's type that can be carried; `hint` says what to do about it."""

    def __init__(self, reason: str, hint: str) -> None:
        """Keep both."""
        super().__init__(reason, hint)
        self.reason = reason
        self.hint = hint


def value_reader(cell: Cell) -> Callable[[bytes], Value]:  # noqa: C901, PLR0911 - one return per member of the union
    """Return the function that reads values of `cell`.

    Its results are what `pyarrow.array` takes for the column's Arrow type: dates
    are days, datetimes and timestamps microseconds since 1970. It raises
    BadValueError for what the type cannot hold.
    """
    match cell.column.type:
        case IntegerType(unsigned=unsigned):
            return lambda raw: int.from_bytes(raw, "little", signed=not unsigned)
        case FloatType(bits):
            unpack = struct.Struct("<f" if bits == 32 else "<d").unpack  # noqa: PLR2004 - the width itself
            return lambda raw: float(unpack(raw)[0])
        case DecimalType(precision, scale):
            groups = decimal_groups(precision, scale)
            return lambda raw: _decimal(raw, groups, scale)
        case TextType(charset=charset):
            return _latin1 if charset == LATIN1 else _text_reader(charset)
        case BytesType(bytes_max, fixed):
            return (lambda raw: raw.ljust(bytes_max, b"\0")) if fixed else bytes
        case DateType():
            return _date
        case DateTimeType(digits):
            return _old_datetime if cell.old_format else lambda raw: _datetime(raw, digits)
        case TimestampType(digits):
            return _old_timestamp if cell.old_format else lambda raw: _timestamp(raw, digits)
        case YearType():
            return lambda raw: raw[0] + _YEAR_ZERO if raw[0] else 0
        case EnumType(labels):
            return lambda raw: _label(raw, labels)
        case UnsupportedType(declaration):
            reason = f"no reading of {declaration}"
            raise BadValueError(reason, _FIX_ROW)


def _decimal(raw: bytes, groups: list[tuple[int, int]], scale: int) -> Decimal:
    """Groups of up to nine digits, big-endian; the first bit is set for positive values, negative ones are inverted."""
    negative = not raw[0] & 0x80
    plain = bytes([raw[0] ^ 0x80]) + raw[1:]
    if negative:
        plain = bytes(byte ^ 0xFF for byte in plain)
    digits = ""
    at = 0
    for count, width in groups:
        group = str(int.from_bytes(plain[at : at + width], "big"))
        if len(group) > count:
            reason = f"0x{raw.hex()} is no decimal"
            raise BadValueError(reason, _FIX_ROW)
        digits += group.zfill(count)
        at += width
    return Decimal(f"{'-' if negative else ''}{digits}E-{scale}")


def _text_reader(charset: str) -> Callable[[bytes], str]:
    codec = _CODECS.get(charset)
    if codec is None:
        reason = f"text in the character set {charset} cannot be read"
        raise BadValueError(reason, "convert the column to utf8mb4")

    def read(raw: bytes) -> str:
        try:
            return raw.decode(codec)
        except UnicodeDecodeError as error:
            reason = f"{raw[:64]!r} is no {charset} text: {error.reason}"
            raise BadValueError(reason, _FIX_ROW) from error

    return read


def _latin1(raw: bytes) -> str:
    """MySQL's latin1 is Windows-1252, with the five bytes that are free there taken as control characters."""
    return raw.decode("latin1").translate(_WINDOWS)


def _date(raw: bytes) -> int:
    packed = int.from_bytes(raw, "little")
    return _day(packed >> 9, packed >> 5 & 15, packed & 31)


def _datetime(raw: bytes, digits: int) -> int:
    """One sign bit, 17 bits of year * 13 + month, 5 of day, 5 of hour, 6 of minute, 6 of second, big-endian."""
    packed = int.from_bytes(raw[:5], "big") - _DATETIME_OFFSET
    if packed < 0:
        reason = f"0x{raw.hex()} is no datetime"
        raise BadValueError(reason, _FIX_ROW)
    month_count, day = packed >> 22, packed >> 17 & 31
    clock = _clock(packed >> 12 & 31, packed >> 6 & 63, packed & 63)
    return _day(month_count // 13, month_count % 13, day) * _DAY_MICROSECONDS + clock + _fraction(raw[5:], digits)


def _old_datetime(raw: bytes) -> int:
    """A number written YYYYMMDDhhmmss."""
    date, time = divmod(int.from_bytes(raw, "little"), 1_000_000)
    clock = _clock(time // 10_000, time // 100 % 100, time % 100)
    return _day(date // 10_000, date // 100 % 100, date % 100) * _DAY_MICROSECONDS + clock


def _timestamp(raw: bytes, digits: int) -> int:
    microseconds = int.from_bytes(raw[:4], "big") * 1_000_000 + _fraction(raw[4:], digits)
    return _instant(microseconds)


def _old_timestamp(raw: bytes) -> int:
    return _instant(int.from_bytes(raw, "little") * 1_000_000)


def _instant(microseconds: int) -> int:
    if microseconds == 0:
        reason = "the zero timestamp 0000-00-00 00:00:00 is no time"
        raise BadValueError(reason, _FIX_ROW)
    return microseconds


def _fraction(raw: bytes, digits: int) -> int:
    """Return microseconds. Digits are stored in pairs, one byte each."""
    pairs = (digits + 1) // 2
    microseconds = int.from_bytes(raw, "big") * _PAIR_MICROSECONDS[pairs]
    if microseconds >= 1_000_000:  # noqa: PLR2004 - a second
        reason = f"0x{raw.hex()} is no fraction of a second"
        raise BadValueError(reason, _FIX_ROW)
    return microseconds


def _clock(hour: int, minute: int, second: int) -> int:
    """Return microseconds since midnight."""
    try:
        dt.time(hour, minute, second)
    except ValueError as error:
        reason = f"{hour:02}:{minute:02}:{second:02} is no time of day"
        raise BadValueError(reason, _FIX_ROW) from error
    return (hour * 3600 + minute * 60 + second) * 1_000_000


def _day(year: int, month: int, day: int) -> int:
    """Return days since 1970. Zero and partly zero dates are not dates, and never become NULL."""
    try:
        return dt.date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError as error:
        reason = f"{year:04}-{month:02}-{day:02} is no date"
        raise BadValueError(reason, _FIX_ROW) from error


def _label(raw: bytes, labels: tuple[str, ...]) -> str:
    index = int.from_bytes(raw, "little")
    if index == 0:
        reason = "the ENUM holds '' in place of a value that was none of its labels (index 0)"
        raise BadValueError(reason, _FIX_ROW)
    if index > len(labels):
        reason = f"the ENUM index {index} is beyond its {len(labels)} labels"
        raise BadValueError(reason, "copy the table again")
    return labels[index - 1]
