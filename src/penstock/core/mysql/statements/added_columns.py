"""What the source fills existing rows with as a column is added: what its default does not say.

Sources: MySQL Reference Manual, "Data Type Default Values" and "Automatic Initialization and
Updating for TIMESTAMP and DATETIME"; tried on MariaDB 10.11 and MySQL 8.4. A clock stands still
while a statement runs, so that every row gets the same. A server tells the time zone and the
microseconds of a statement where it made use of them; where it did not, no row was filled with them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, assert_never

from penstock.core.tables import (
    BitType,
    BytesType,
    Column,
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
    TableSchema,
    TextType,
    TimestampType,
    TimeType,
    UnsupportedType,
    VectorType,
    YearType,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_CALL: Final = re.compile(r"\(*\s*([a-z_]+)\s*(?:\(\s*([0-6]?)\s*\))?\s*\)*", re.IGNORECASE)
_NOW: Final = frozenset({"current_timestamp", "now", "localtime", "localtimestamp"})
_TODAY: Final = frozenset({"curdate", "current_date"})
_TIME_OF_DAY: Final = frozenset({"curtime", "current_time"})
_OFFSET: Final = re.compile(r"([+-])(\d{1,2}):(\d{2})")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROS_DIGITS: Final = 6
_PRINTED_IMPLICIT: Final = {
    "uuid": "00000000-0000-0000-0000-000000000000",
    "inet4": "0.0.0.0",  # noqa: S104 - a value, not an address to listen on
    "inet6": "::",
}


@dataclass(frozen=True, slots=True)
class Clock:
    """When a statement began: seconds and microseconds since 1970, and the time zone of its session, "" if not told.

    `local_seconds` gives what a clock in a zone that only the source knows (SYSTEM, Europe/Paris) showed then, as
    seconds since 1970.
    """

    seconds: int
    microseconds: int
    time_zone: str
    local_seconds: Callable[[str, int], int]

    def instant(self) -> datetime:
        """Return it in UTC, without a zone."""
        return _plain(self.seconds, self.microseconds)

    def local(self) -> datetime:
        """Return what the session's clock showed."""
        if not self.time_zone:
            return self.instant()
        if offset := _OFFSET.fullmatch(self.time_zone):
            sign, hours, minutes = offset.groups()
            shift = (int(hours) * 60 + int(minutes)) * 60
            return _plain(self.seconds + (-shift if sign == "-" else shift), self.microseconds)
        return _plain(self.local_seconds(self.time_zone, self.seconds), self.microseconds)


def with_fills(before: TableSchema, after: TableSchema, clock: Clock) -> TableSchema:
    """Return `after` with what existing rows got in each column that `before` lacks, where that can be known."""
    there = {column.name.casefold() for column in before.columns}
    columns = (column if column.name.casefold() in there else _filled(column, clock) for column in after.columns)
    return replace(after, columns=tuple(columns))


def _filled(column: Column, clock: Clock) -> Column:
    if column.default_is_expression:
        fill = _of_clock(column, clock)
    elif column.default is None and not column.nullable:
        fill = _implicit(column.type)
    else:
        fill = None
    return column if fill is None else replace(column, filled=fill)


def _implicit(type_: ColumnType) -> str | None:  # noqa: PLR0911 - one return per kind of value
    """Return the implicit default in the notation of `Column.default`, None where it cannot be carried or known."""
    match type_:
        case IntegerType() | BitType() | DecimalType() | FloatType() | YearType():
            return "0"
        case TextType() | BytesType() | SetType():
            return ""
        case TimeType():
            return "00:00:00"
        case EnumType(labels):
            return labels[0]
        case PrintedType("date"):
            return "0000-00-00"
        case PrintedType("datetime" | "timestamp", digits):
            return f"0000-00-00 00:00:00{'.' if digits else ''}{'0' * digits}"
        case PrintedType(kind):
            return _PRINTED_IMPLICIT.get(kind)
        case DateType() | DateTimeType() | TimestampType() | GeometryType() | VectorType() | UnsupportedType():
            return None
        case _:
            assert_never(type_)


def _of_clock(column: Column, clock: Clock) -> str | None:  # noqa: PLR0911 - one return per kind of value
    """Return what a default like CURRENT_TIMESTAMP(3) was, None for another expression."""
    call = _CALL.fullmatch(column.default_expression)
    if call is None:
        return None
    function, digits = call[1].lower(), int(call[2] or 0)
    match column.type:
        case TimestampType(shown) | PrintedType("timestamp", shown) if function in _NOW and digits <= shown:
            return _printed(clock.instant(), digits, shown)
        case DateTimeType(shown) | PrintedType("datetime", shown) if function in _NOW and digits <= shown:
            return _printed(clock.local(), digits, shown)
        case DateTimeType(shown) | PrintedType("datetime", shown) if function == "utc_timestamp" and digits <= shown:
            return _printed(clock.instant(), digits, shown)
        case DateType() | PrintedType("date") if function in _NOW | _TODAY:
            return clock.local().date().isoformat()
        case DateType() | PrintedType("date") if function == "utc_date":
            return clock.instant().date().isoformat()
        case TimeType(shown) if function in _TIME_OF_DAY and digits <= shown:
            return _printed(clock.local(), digits, shown).partition(" ")[2]
        case IntegerType() if function == "unix_timestamp":
            return str(clock.seconds)
        case _:
            return None


def _printed(moment: datetime, digits: int, shown: int) -> str:
    """Print a moment that is cut to `digits` of a second with `shown` of them."""
    micros = f"{moment.microsecond:06d}"[:digits].ljust(_MICROS_DIGITS, "0")
    return f"{moment:%Y-%m-%d %H:%M:%S}{'.' if shown else ''}{micros[:shown]}"


def _plain(seconds: int, microseconds: int) -> datetime:
    return (_EPOCH + timedelta(seconds=seconds, microseconds=microseconds)).replace(tzinfo=None)
