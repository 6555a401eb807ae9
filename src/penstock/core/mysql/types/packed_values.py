"""Decimals as servers pack them: in rows, and in JSON documents. Source: MySQL's `decimal.cc` (`bin2decimal`)."""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import Final

from penstock.core.mysql.types.bytes_reader import MalformedError

_DIGIT_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_POWERS: Final = tuple(10**count for count in range(10))


@cache
def decimal_bytes(precision: int, scale: int) -> int:
    """Return the length of a DECIMAL: four bytes for nine digits, fewer for fewer, on each side of the point."""
    return sum(digits // 9 * 4 + _DIGIT_BYTES[digits % 9] for digits in (precision - scale, scale))


@cache
def decimal_groups(precision: int, scale: int) -> tuple[tuple[int, int], ...]:
    """Return (digits, bytes) of each group of a DECIMAL, from the left."""
    whole, fraction = precision - scale, scale
    digits = [whole % 9, *[9] * (whole // 9), *[9] * (fraction // 9), fraction % 9]
    return tuple((count, _DIGIT_BYTES[count]) for count in digits if count)


def packed_decimal(raw: bytes, precision: int, scale: int) -> Decimal:
    """Read groups of up to nine digits, big-endian; MalformedError for bytes that are none.

    The first bit is set for positive values, negative ones are inverted.
    """
    negative, magnitude = _unpack(raw, precision, scale)
    return Decimal(f"{'-' if negative else ''}{magnitude}E-{scale}")


def packed_integer(raw: bytes, precision: int, scale: int) -> int:
    """Read what `packed_decimal` reads, as if it had no point."""
    negative, magnitude = _unpack(raw, precision, scale)
    return -magnitude if negative else magnitude


def _unpack(raw: bytes, precision: int, scale: int) -> tuple[bool, int]:
    if scale > precision or len(raw) != decimal_bytes(precision, scale) or not raw:
        message = f"{len(raw)} bytes are no DECIMAL({precision},{scale})"
        raise MalformedError(message)
    bits = 8 * len(raw)
    packed = int.from_bytes(raw, "big") ^ 1 << bits - 1
    negative = bool(packed >> bits - 1)
    if negative:
        packed ^= (1 << bits) - 1
    magnitude = 0
    for count, width in decimal_groups(precision, scale):
        bits -= 8 * width
        group = packed >> bits & (1 << 8 * width) - 1
        if group >= _POWERS[count]:
            message = f"0x{raw.hex()} is no decimal"
            raise MalformedError(message)
        magnitude = magnitude * _POWERS[count] + group
    return negative, magnitude
