"""Values of Avro's types that hold no others: those that the codec alone would change are refused.

It cuts off what a type has no room for, without a word: the time of a moment in a
`date`, microseconds in milliseconds, the zone of a local time, the last digits of
an integer in a float.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import datetime, time
from decimal import Decimal
from math import isfinite
from numbers import Integral
from typing import Any, Final, NoReturn, TypeAlias

Convert: TypeAlias = Callable[[Any], Any]
"""Takes a value of one part of a schema and returns it as it should be. Never changes what it is given."""

_FLOAT_MAX: Final = 3.4028235677973366e38
"""From here on a number rounds to infinity as a 32-bit float (IEEE 754)."""
_MICROS_IN_MILLI: Final = 1000


def exact_leaf(schema: Mapping[str, Any]) -> Convert | None:
    """What to do to values of a type before they are encoded; None for nothing. It raises ValueError."""
    logical = schema.get("logicalType")
    if logical == "decimal" and not schema.get("scale"):
        return lambda value: Decimal(value) if isinstance(value, int) and not isinstance(value, bool) else value
    return _PLAIN.get(schema.get("type")) if logical is None else _LOGICAL.get(logical)


def _date(value: object) -> object:
    # A datetime is a date as well.
    if isinstance(value, datetime):
        _refuse(f"{value} has a time, and the schema wants a date: give {value.date()}")
    return value


def _moment(value: object) -> object:
    if isinstance(value, datetime) and value.tzinfo is None:
        _refuse(f"{value} has no time zone, and the schema wants a moment")
    return value


def _local(value: object) -> object:
    if isinstance(value, datetime | time) and value.tzinfo is not None:
        _refuse(f"{value} has a time zone, and the schema wants a time without one")
    return value


def _millis(value: object) -> object:
    if isinstance(value, datetime | time) and value.microsecond % _MICROS_IN_MILLI:
        _refuse(f"{value} has microseconds, and the schema has milliseconds: round it")
    return value


def _float(value: object) -> object:
    if isinstance(value, float):
        if isfinite(value) and abs(value) >= _FLOAT_MAX:
            _refuse(f"no 32-bit float holds {value!r}")
        return value
    return _whole_in(value, 32, lambda number: struct.unpack("f", struct.pack("f", number))[0])


def _double(value: object) -> object:
    return value if isinstance(value, float) else _whole_in(value, 64, float)


def _whole_in(value: object, bits: int, rounded: Callable[[int], float]) -> object:
    if isinstance(value, Integral):
        try:
            is_same = rounded(int(value)) == int(value)
        except OverflowError:
            is_same = False
        if not is_same:
            _refuse(f"no {bits}-bit float holds {value}: give a float, rounded, or choose another type")
    return value


def _both(first: Convert, then: Convert) -> Convert:
    return lambda value: then(first(value))


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


_PLAIN: Final[Mapping[object, Convert]] = {"float": _float, "double": _double}
_LOGICAL: Final[Mapping[object, Convert]] = {
    "date": _date,
    "time-millis": _both(_local, _millis),
    "time-micros": _local,
    "timestamp-millis": _both(_moment, _millis),
    "timestamp-micros": _moment,
    "local-timestamp-millis": _both(_local, _millis),
    "local-timestamp-micros": _local,
}
