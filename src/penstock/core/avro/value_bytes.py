"""The Avro bytes of one value, by the type of its column."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

import pyarrow as pa

from penstock.core.arrow_types import arrow_type
from penstock.core.avro.decimals import decimal_bytes
from penstock.core.avro.varints import varint
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
    from collections.abc import Callable, Sequence

ValueEncoder: TypeAlias = "Callable[[Any], bytes]"
NULL: Final = b"\0"
NOT_NULL: Final = b"\2"
"""The branches of a union of null and a type."""

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


def value_encoder(type_: ColumnType) -> ValueEncoder:  # noqa: PLR0911 - one return per type
    """Return the function that encodes values of `type_` which are not NULL.

    It takes integers (dates as days, times and moments as microseconds, decimals
    without their point), floats and lists of them, str and bytes. Raises ValueError
    for a type that is not carried.
    """
    match type_:
        case IntegerType() | BitType() if arrow_type(type_) == pa.uint64():
            return _sized_integer
        case IntegerType() | BitType() | YearType() | DateType() | TimeType() | DateTimeType() | TimestampType():
            return varint
        case TextType() | EnumType() | SetType() | PrintedType():
            return sized_text
        case DecimalType():
            return _sized_integer
        case FloatType(bits):
            return _FLOAT.pack if bits == 32 else _DOUBLE.pack  # noqa: PLR2004 - the width itself
        case BytesType() | GeometryType():
            return sized
        case VectorType():
            return _block
        case UnsupportedType(declaration):
            message = f"no Avro type carries {declaration}"
            raise ValueError(message)
        case _:
            assert_never(type_)


def sized(content: bytes) -> bytes:
    """Return the length of `content`, then `content`: Avro's bytes and string."""
    return varint(len(content)) + content


def sized_text(text: str) -> bytes:
    """Return `text` as Avro's string."""
    return sized(text.encode())


def optional_text(text: str | None) -> bytes:
    """Return `text` in a union with null, which stands for "" too."""
    return NOT_NULL + sized_text(text) if text else NULL


def _sized_integer(unscaled: int) -> bytes:
    return sized(decimal_bytes(unscaled))


def _block(floats: Sequence[float]) -> bytes:
    """Write an array: one block of all its floats, and the 0 that ends it."""
    return varint(len(floats)) + struct.pack(f"<{len(floats)}f", *floats) + b"\0" if floats else b"\0"
