"""Values as ROWS events hold them, written as the format's documentation says, independent of what reads them."""

from __future__ import annotations

import re
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from ipaddress import ip_address
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.core.tables import (
    BitType,
    BytesType,
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
    VectorType,
    YearType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.tables import ColumnType

Value = int | float | str | bytes | Decimal | date | datetime | timedelta | list[float] | None

_BYTES_PER_CHARACTER = {"utf8mb4": 4, "utf8mb3": 3, "ascii": 1, "latin1": 1}
_INTEGER_CODES = {8: 1, 16: 2, 24: 9, 32: 3, 64: 8}
_PAD = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def layout(type_: ColumnType) -> tuple[int, int]:  # noqa: C901, PLR0911, PLR0912 - one return per type
    match type_:
        case IntegerType(bits):
            return _INTEGER_CODES[bits], 0
        case FloatType(bits):
            return (4, 4) if bits == 32 else (5, 8)
        case DecimalType(precision, scale):
            return 246, precision * 256 + scale
        case TextType(characters, charset):
            width = characters * _BYTES_PER_CHARACTER[charset]
            return (15, width) if width < 65536 else (252, 4)
        case BytesType(width, fixed):
            return (254, 254 * 256 + width) if fixed else (15, width) if width < 65536 else (252, 3)
        case DateType():
            return 10, 0
        case DateTimeType(digits):
            return 18, digits
        case TimestampType(digits):
            return 17, digits
        case YearType():
            return 13, 0
        case EnumType(labels):
            return 254, 247 * 256 + (1 if len(labels) < 256 else 2)
        case SetType(labels):
            return 254, 248 * 256 + _set_bytes(labels)
        case BitType(bits):
            return 16, bits // 8 * 256 + bits % 8
        case TimeType(digits):
            return 19, digits
        case PrintedType("uuid" | "inet6"):
            return 254, 254 * 256 + 16
        case PrintedType("inet4"):
            return 254, 254 * 256 + 4
        case GeometryType():
            return 255, 4
        case VectorType():
            return 242, 4
        case PrintedType("date"):
            return 10, 0
        case PrintedType("datetime", digits):
            return 18, digits
    raise AssertionError(type_)


def encode_value(type_: ColumnType, value: Value) -> bytes:  # noqa: C901, PLR0911, PLR0912 - one return per type
    """Write one value, as the format's documentation says."""
    match type_, value:
        case IntegerType(bits, unsigned), int():
            return value.to_bytes(bits // 8, "little", signed=not unsigned)
        case FloatType(bits), float():
            return struct.pack("<f" if bits == 32 else "<d", value)
        case DecimalType(precision, scale), Decimal():
            return _encode_decimal(value, precision, scale)
        case TextType(), str():
            raw = _encode_text(value, type_.charset)
            return len(raw).to_bytes(_length_bytes(type_), "little") + raw
        case BytesType(fixed=fixed), bytes():
            raw = value.rstrip(b"\0") if fixed else value
            return len(raw).to_bytes(_length_bytes(type_), "little") + raw
        case YearType(), int():
            return bytes([value - 1900 if value else 0])
        case SetType(labels), str():
            bits = sum(1 << labels.index(label) for label in value.split(",") if label)
            return bits.to_bytes(_set_bytes(labels), "little")
        case BitType(bits), int():
            return value.to_bytes((bits + 7) // 8, "big")
        case PrintedType("uuid"), str():
            return _stripped(UUID(value).bytes)
        case PrintedType("inet4" | "inet6"), str():
            return _stripped(bytes(ip_address(value).packed))
        case GeometryType(), bytes():
            srid = value[5:9] if value[4] & 0x20 else bytes(4)
            plain = value[:4] + bytes([value[4] & 0xDF]) + value[9:] if value[4] & 0x20 else value
            return (len(plain) + 4).to_bytes(4, "little") + srid + plain
        case VectorType(), list():
            return (4 * len(value)).to_bytes(4, "little") + struct.pack(f"<{len(value)}f", *value)
        case EnumType(labels), "":
            return bytes(1 if len(labels) < 256 else 2)
        case EnumType(labels), str():
            return (labels.index(value) + 1).to_bytes(1 if len(labels) < 256 else 2, "little")
    return _encode_moment(type_, value)


def _encode_moment(type_: ColumnType, value: Value) -> bytes:
    """Write a date or a time."""
    match type_, value:
        case DateTimeType(digits), datetime():
            months = value.year * 13 + value.month
            packed = months << 22 | value.day << 17 | value.hour << 12 | value.minute << 6 | value.second
            return (packed + (1 << 39)).to_bytes(5, "big") + _fraction(value.microsecond, digits)
        case TimestampType(digits), datetime():
            seconds = int((value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() // 1)
            return seconds.to_bytes(4, "big") + _fraction(value.microsecond, digits)
        case DateType(), date():
            return (value.year << 9 | value.month << 5 | value.day).to_bytes(3, "little")
        case TimeType(digits), timedelta():
            return _encode_time(value // timedelta(microseconds=1), digits)
        case PrintedType("date"), str():
            year, month, day = map(int, value.split("-"))
            return (year << 9 | month << 5 | day).to_bytes(3, "little")
        case PrintedType("datetime", digits), str():
            year, month, day, hour, minute, second, micros = map(int, re.findall(r"\d+", value))
            packed = (year * 13 + month) << 22 | day << 17 | hour << 12 | minute << 6 | second
            return (packed + (1 << 39)).to_bytes(5, "big") + _fraction(micros, digits)
    raise AssertionError(type_, value)


def _set_bytes(labels: Sequence[str]) -> int:
    width = (len(labels) + 7) // 8
    return width if width <= 4 else 8


def _stripped(raw: bytes) -> bytes:
    raw = raw.rstrip(b"\0")
    return bytes([len(raw)]) + raw


def _encode_time(micros: int, digits: int) -> bytes:
    """A number of bits for the clock, then the fraction in pairs of digits, the whole negated if it is negative."""
    pairs = (digits + 1) // 2
    seconds, rest = divmod(abs(micros), 1_000_000)
    clock = seconds // 3600 << 12 | seconds // 60 % 60 << 6 | seconds % 60
    whole = clock << 8 * pairs | rest // 100 ** (3 - pairs)
    stored: int = (0x800000 << 8 * pairs) + (-whole if micros < 0 else whole)
    return stored.to_bytes(3 + pairs, "big")


def _length_bytes(type_: ColumnType) -> int:
    code, metadata = layout(type_)
    if code == 252:
        return metadata
    return 1 if (metadata if code == 15 else metadata & 0xFF) < 256 else 2


def _encode_text(text: str, charset: str) -> bytes:
    if charset != "latin1":
        return text.encode()
    return b"".join(
        character.encode("latin1" if character in "\x81\x8d\x8f\x90\x9d" else "cp1252") for character in text
    )


def _encode_decimal(value: Decimal, precision: int, scale: int) -> bytes:
    whole = precision - scale
    digits = "".join(map(str, value.as_tuple().digits)).zfill(precision)
    left, right = digits[:whole], digits[whole:]
    lead = whole % 9
    groups = [left[:lead], *(left[at : at + 9] for at in range(lead, whole, 9))]
    groups += [right[at : at + 9] for at in range(0, scale, 9)]
    raw = bytearray(b"".join(int(group).to_bytes(_PAD[len(group)], "big") for group in groups if group))
    raw[0] ^= 0x80
    return bytes(byte ^ 0xFF for byte in raw) if value < 0 else bytes(raw)


def _fraction(microseconds: int, digits: int) -> bytes:
    pairs = (digits + 1) // 2
    return (microseconds // 100 ** (3 - pairs)).to_bytes(pairs, "big") if pairs else b""


def nested_json(levels: int, members: int) -> bytes:
    """A binary JSON document of arrays in arrays, every member of one being the same array behind it."""
    width = 4 + 3 * members
    raw = b"\x02"
    for level in range(levels):
        rest = (levels - level) * width + 4
        raw += struct.pack("<HH", members, rest) + struct.pack("<BH", 2, width) * members
    return raw + struct.pack("<HH", 0, 4)
