"""Encodes the messages of a small batch value by value: little to set up, more to do per row."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, TypeVar, assert_never, cast

import numpy as np
import pyarrow as pa

from penstock.core.avro.buffers import fixed_values
from penstock.core.avro.decimals import decimal_bytes
from penstock.core.avro.message_fields import ColumnValues, Constant, MessageField, Numbers, OptionalText
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

    from penstock.core.avro.arrays import ArrowArray

_Value = TypeVar("_Value")
_ARRAY_BYTES_MAX = 2**31 - 2
_NULL = b"\0"
_NOT_NULL = b"\2"
_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")


def encode_by_row(fields: Sequence[MessageField], rows: int) -> pa.BinaryArray:
    """Return the messages (binary[rows]) that `fields` make; pyarrow.ArrowCapacityError from 2 GiB on."""
    pieces = [_pieces(field, rows) for field in fields]
    messages = list(map(b"".join, zip(*pieces, strict=True)))
    if sum(map(len, messages)) > _ARRAY_BYTES_MAX:
        # Arrow would answer with a chunked array.
        text = "an array of messages holds less than 2 GiB"
        raise pa.ArrowCapacityError(text)
    return pa.array(messages, pa.binary())


def sized(content: bytes) -> bytes:
    """Return the length of `content`, then `content`: Avro's bytes and string."""
    return varint(len(content)) + content


def sized_text(text: str) -> bytes:
    """Return `text` as Avro's string."""
    return sized(text.encode())


def _pieces(field: MessageField, rows: int) -> Sequence[bytes]:
    match field:
        case Constant(content):
            return [content] * rows
        case Numbers(values):
            return [varint(value) for value in values.tolist()]
        case OptionalText(texts):
            return [_NOT_NULL + sized_text(text) if text else _NULL for text in texts.to_pylist()]
        case ColumnValues(values, column):
            return _column(values, column.type, nullable=column.nullable)
        case _:
            assert_never(field)


def _column(array: ArrowArray, type_: ColumnType, *, nullable: bool) -> list[bytes]:  # noqa: C901, PLR0911 - one return per type
    match type_:
        case IntegerType() | BitType() if array.type == pa.uint64():
            return _encoded(_integers(array), _sized_decimal, nullable=nullable)
        case IntegerType() | BitType() | YearType():
            return _encoded(_integers(array), varint, nullable=nullable)
        case TextType() | EnumType() | SetType() | PrintedType():
            return _encoded(cast("pa.StringArray", array).to_pylist(), sized_text, nullable=nullable)
        case DecimalType():
            return _encoded(_unscaled(array), _sized_decimal, nullable=nullable)
        case TimeType() | DateTimeType() | TimestampType():
            return _encoded(_integers(array.view(pa.int64())), varint, nullable=nullable)
        case DateType():
            return _encoded(_integers(array.view(pa.int32())), varint, nullable=nullable)
        case FloatType(bits):
            ieee = _FLOAT if bits == 32 else _DOUBLE  # noqa: PLR2004 - the width itself
            return _encoded(cast("pa.DoubleArray", array).to_pylist(), ieee.pack, nullable=nullable)
        case BytesType() | GeometryType():
            return _encoded(cast("pa.BinaryArray", array).to_pylist(), sized, nullable=nullable)
        case VectorType():
            return _encoded(_floats(array), _block, nullable=nullable)
        case UnsupportedType(declaration):
            message = f"no Avro type carries {declaration}"
            raise ValueError(message)
        case _:
            assert_never(type_)


def _block(floats: list[float]) -> bytes:
    """Write an array: one block of all its floats, and the 0 that ends it."""
    return varint(len(floats)) + struct.pack(f"<{len(floats)}f", *floats) + b"\0" if floats else b"\0"


def _encoded(values: Sequence[_Value | None], encode: Callable[[_Value], bytes], *, nullable: bool) -> list[bytes]:
    if nullable:
        return [_NULL if value is None else _NOT_NULL + encode(value) for value in values]
    return [encode(value) for value in values if value is not None]


def _floats(array: ArrowArray) -> list[list[float] | None]:
    return cast("pa.Array[Any]", array).to_pylist()


def _sized_decimal(unscaled: int) -> bytes:
    return sized(decimal_bytes(unscaled))


def _integers(array: ArrowArray) -> list[int | None]:
    return cast("pa.Int64Array", array).to_pylist()


def _unscaled(array: ArrowArray) -> list[int | None]:
    """Read the integers of a decimal array from its buffer: Decimal's own arithmetic rounds to its context."""
    width = array.type.bit_width // 8
    content = fixed_values(array, np.dtype(np.uint8), width).tobytes()
    integers = [int.from_bytes(content[at : at + width], "little", signed=True) for at in range(0, len(content), width)]
    if not array.null_count:
        return list(integers)
    return [integer if valid else None for integer, valid in zip(integers, array.is_valid().to_pylist(), strict=True)]
