"""Encodes the messages of a small batch value by value: little to set up, more to do per row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from penstock.core.avro.buffers import fixed_values
from penstock.core.avro.message_fields import ColumnValues, Constant, MessageField, Numbers, OptionalText
from penstock.core.avro.value_bytes import NOT_NULL, NULL, optional_text, value_encoder
from penstock.core.avro.varints import varint
from penstock.core.tables import DateTimeType, DateType, DecimalType, TimestampType, TimeType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.avro.arrays import ArrowArray
    from penstock.core.tables import ColumnType

_ARRAY_BYTES_MAX = 2**31 - 2


def encode_by_row(fields: Sequence[MessageField], rows: int) -> pa.BinaryArray:
    """Return the messages (binary[rows]) that `fields` make; pyarrow.ArrowCapacityError from 2 GiB on."""
    pieces = [_pieces(field, rows) for field in fields]
    messages = list(map(b"".join, zip(*pieces, strict=True)))
    if sum(map(len, messages)) > _ARRAY_BYTES_MAX:
        # Arrow would answer with a chunked array.
        text = "an array of messages holds less than 2 GiB"
        raise pa.ArrowCapacityError(text)
    return pa.array(messages, pa.binary())


def _pieces(field: MessageField, rows: int) -> Sequence[bytes]:
    match field:
        case Constant(content):
            return [content] * rows
        case Numbers(values):
            return [varint(value) for value in values.tolist()]
        case OptionalText(texts):
            return [optional_text(text) for text in texts.to_pylist()]
        case ColumnValues(values, column):
            return _column(values, column.type, nullable=column.nullable)


def _column(array: ArrowArray, type_: ColumnType, *, nullable: bool) -> list[bytes]:
    values, encode = _values(array, type_), value_encoder(type_)
    if nullable:
        return [NULL if value is None else NOT_NULL + encode(value) for value in values]
    return [encode(value) for value in values if value is not None]


def _values(array: ArrowArray, type_: ColumnType) -> Sequence[Any]:
    """Return the values as `value_encoder` takes them, None for NULL."""
    match type_:
        case DecimalType():
            return unscaled(array)
        case TimeType() | DateTimeType() | TimestampType():
            return _listed(array.view(pa.int64()))
        case DateType():
            return _listed(array.view(pa.int32()))
        case _:
            return _listed(array)


def _listed(array: ArrowArray) -> list[Any]:
    return cast("pa.Array[Any]", array).to_pylist()


def unscaled(array: ArrowArray) -> list[int | None]:
    """Read the integers of a decimal array from its buffer: Decimal's own arithmetic rounds to its context."""
    width = array.type.bit_width // 8
    content = fixed_values(array, np.dtype(np.uint8), width).tobytes()
    integers = [int.from_bytes(content[at : at + width], "little", signed=True) for at in range(0, len(content), width)]
    if not array.null_count:
        return list(integers)
    return [integer if valid else None for integer, valid in zip(integers, array.is_valid().to_pylist(), strict=True)]
