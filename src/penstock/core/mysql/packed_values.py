"""Decimals as servers pack them: in rows, and in JSON documents. Source: MySQL's `decimal.cc` (`bin2decimal`)."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from penstock.core.mysql.bytes_reader import MalformedError

_DIGIT_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def decimal_bytes(precision: int, scale: int) -> int:
    """Return the length of a DECIMAL: four bytes for nine digits, fewer for fewer, on each side of the point."""
    return sum(digits // 9 * 4 + _DIGIT_BYTES[digits % 9] for digits in (precision - scale, scale))


def decimal_groups(precision: int, scale: int) -> list[tuple[int, int]]:
    """Return (digits, bytes) of each group of a DECIMAL, from the left."""
    whole, fraction = precision - scale, scale
    digits = [whole % 9, *[9] * (whole // 9), *[9] * (fraction // 9), fraction % 9]
    return [(count, _DIGIT_BYTES[count]) for count in digits if count]


def packed_decimal(raw: bytes, precision: int, scale: int) -> Decimal:
    """Read groups of up to nine digits, big-endian; MalformedError for bytes that are none.

    The first bit is set for positive values, negative ones are inverted.
    """
    if scale > precision or len(raw) != decimal_bytes(precision, scale) or not raw:
        message = f"{len(raw)} bytes are no DECIMAL({precision},{scale})"
        raise MalformedError(message)
    negative = not raw[0] & 0x80
    plain = bytes([raw[0] ^ 0x80]) + raw[1:]
    if negative:
        plain = bytes(byte ^ 0xFF for byte in plain)
    digits = ""
    at = 0
    for count, width in decimal_groups(precision, scale):
        group = str(int.from_bytes(plain[at : at + width], "big"))
        if len(group) > count:
            message = f"0x{raw.hex()} is no decimal"
            raise MalformedError(message)
        digits += group.zfill(count)
        at += width
    return Decimal(f"{'-' if negative else ''}{digits}E-{scale}")
