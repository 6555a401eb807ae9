"""Dates and times in rows, of the formats from before and since MySQL 5.6: as numbers for Arrow, and as text.

Sources: MySQL internals, "Date and Time Data Type Representation"; MariaDB
Knowledge Base, the "Data Type Storage" pages.
"""

from __future__ import annotations

import datetime as dt
from typing import Final, NamedTuple

from penstock.core.mysql.types.bad_values import FIX_ROW, BadValueError

_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - instants are printed in UTC, without saying so
_DAY_MICROSECONDS: Final = 86_400_000_000
_PAIR_MICROSECONDS: Final = (1_000_000, 10_000, 100, 1)
_DATETIME_OFFSET: Final = 1 << 39
_MONTHS_OFFSET: Final = _DATETIME_OFFSET >> 22
_TIME_OFFSET: Final = 1 << 23
_SECOND: Final = 1_000_000


class Moment(NamedTuple):
    """The fields of a date and time as they are stored, whether a calendar has them or not."""

    year: int
    month: int
    day: int
    hour: int = 0
    minute: int = 0
    second: int = 0
    microsecond: int = 0


def date_moment(raw: bytes) -> Moment:
    """Read a DATE: 15 bits of year, 4 of month, 5 of day, little-endian."""
    packed = int.from_bytes(raw, "little")
    return Moment(packed >> 9, packed >> 5 & 15, packed & 31)


def datetime_moment(raw: bytes, digits: int) -> Moment:
    """One sign bit, 17 bits of year * 13 + month, 5 of day, 5 of hour, 6 of minute, 6 of second, big-endian."""
    packed = int.from_bytes(raw[:5], "big") - _DATETIME_OFFSET
    if packed < 0:
        reason = f"0x{raw.hex()} is no datetime"
        raise BadValueError(reason, FIX_ROW)
    months, day = packed >> 22, packed >> 17 & 31
    clock = packed >> 12 & 31, packed >> 6 & 63, packed & 63
    return Moment(months // 13, months % 13, day, *clock, _fraction(raw[5:], digits))


def datetime_microseconds(raw: bytes, digits: int) -> int:
    """Return what `microseconds` says of a `datetime_moment`, sooner if it is a date and time."""
    packed = int.from_bytes(raw[:5], "big")
    months = (packed >> 22) - _MONTHS_OFFSET
    hour, minute, second = packed >> 12 & 31, packed >> 6 & 63, packed & 63
    if months < 0 or hour > 23 or minute > 59 or second > 59:  # noqa: PLR2004 - the clock's
        return microseconds(datetime_moment(raw, digits))
    try:
        day = dt.date(months // 13, months % 13, packed >> 17 & 31).toordinal() - _EPOCH_DAY
    except ValueError:
        return microseconds(datetime_moment(raw, digits))
    return (day * 86_400 + hour * 3600 + minute * 60 + second) * _SECOND + _fraction(raw[5:], digits)


def old_datetime_moment(raw: bytes) -> Moment:
    """A number written YYYYMMDDhhmmss."""
    date, time = divmod(int.from_bytes(raw, "little"), 1_000_000)
    return Moment(date // 10_000, date // 100 % 100, date % 100, time // 10_000, time // 100 % 100, time % 100)


def timestamp_microseconds(raw: bytes, digits: int) -> int:
    """Return microseconds since 1970, 0 for the zero timestamp."""
    return int.from_bytes(raw[:4], "big") * _SECOND + _fraction(raw[4:], digits)


def old_timestamp_microseconds(raw: bytes) -> int:
    """Return microseconds since 1970, 0 for the zero timestamp."""
    return int.from_bytes(raw, "little") * _SECOND


def days(moment: Moment) -> int:
    """Return days since 1970; BadValueError for what is no date. Zero dates are none, and never become NULL here."""
    try:
        return dt.date(*moment[:3]).toordinal() - _EPOCH_DAY
    except ValueError as error:
        reason = f"{print_date(moment)} is no date"
        raise BadValueError(reason, _ZERO_HINT) from error


def microseconds(moment: Moment) -> int:
    """Return microseconds since 1970 of a local time; BadValueError for what is no date and time."""
    clock = (moment.hour * 3600 + moment.minute * 60 + moment.second) * _SECOND + moment.microsecond
    try:
        dt.time(*moment[3:])
    except ValueError as error:
        reason = f"{moment.hour:02}:{moment.minute:02}:{moment.second:02} is no time of day"
        raise BadValueError(reason, FIX_ROW) from error
    return days(moment) * _DAY_MICROSECONDS + clock


def instant(found: int) -> int:
    """Return `found` microseconds since 1970; BadValueError for the zero timestamp."""
    if found == 0:
        reason = "the zero timestamp 0000-00-00 00:00:00 is no time"
        raise BadValueError(reason, _ZERO_HINT)
    return found


def time_span(raw: bytes) -> int:
    """Return the microseconds of a TIME: a signed number of hours, minutes and seconds, and a fraction in pairs."""
    pairs = len(raw) - 3
    packed = int.from_bytes(raw, "big") - (_TIME_OFFSET << 8 * pairs)
    magnitude = abs(packed)
    clock = magnitude >> 8 * pairs
    fraction = (magnitude & (1 << 8 * pairs) - 1) * _PAIR_MICROSECONDS[pairs] if pairs else 0
    span = _span(clock >> 12, clock >> 6 & 63, clock & 63, fraction)
    return -span if packed < 0 else span


def old_time_span(raw: bytes) -> int:
    """A signed number written hhmmss."""
    packed = int.from_bytes(raw, "little", signed=True)
    hours, rest = divmod(abs(packed), 10_000)
    span = _span(hours, rest // 100, rest % 100, 0)
    return -span if packed < 0 else span


def print_date(moment: Moment) -> str:
    """Return the date as the server prints it."""
    return f"{moment.year:04}-{moment.month:02}-{moment.day:02}"


def print_datetime(moment: Moment, digits: int) -> str:
    """Return date and time as the server prints them."""
    clock = f"{moment.hour:02}:{moment.minute:02}:{moment.second:02}"
    return f"{print_date(moment)} {clock}{f'.{moment.microsecond:06}'[: digits + 1] if digits else ''}"


def print_instant(found: int, digits: int) -> str:
    """Return an instant, in microseconds since 1970, as the server prints it in UTC; 0 is the zero timestamp."""
    if found == 0:
        return print_datetime(Moment(0, 0, 0), digits)
    at = _EPOCH + dt.timedelta(microseconds=found)
    return print_datetime(Moment(at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond), digits)


_ZERO_HINT: Final = f"{FIX_ROW}, where zero_dates of the source may be another"


def _span(hours: int, minutes: int, seconds: int, fraction: int) -> int:
    if minutes > 59 or seconds > 59 or fraction >= _SECOND:  # noqa: PLR2004 - the clock's
        reason = f"{hours}:{minutes:02}:{seconds:02} is no time"
        raise BadValueError(reason, FIX_ROW)
    return (hours * 3600 + minutes * 60 + seconds) * _SECOND + fraction


def _fraction(raw: bytes, digits: int) -> int:
    """Return microseconds. Digits are stored in pairs, one byte each."""
    found = int.from_bytes(raw, "big") * _PAIR_MICROSECONDS[(digits + 1) // 2]
    if found >= _SECOND:
        reason = f"0x{raw.hex()} is no fraction of a second"
        raise BadValueError(reason, FIX_ROW)
    return found
