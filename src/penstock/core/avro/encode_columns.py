"""Encodes the messages of a large batch field by field, all rows of it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, assert_never, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.avro.buffers import binary_offsets, fixed_values, valid_flags
from penstock.core.avro.decimals import narrow_words, unsigned_words, wide_bytes
from penstock.core.avro.message_fields import ColumnValues, Constant, MessageField, Numbers, OptionalText
from penstock.core.avro.varints import varint_words
from penstock.core.avro.words import WORD_BYTES, EncodedWords, concatenated, constant_word, prefixed, where_valid
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
    from collections.abc import Sequence

    from penstock.core.avro.arrays import ArrowArray, Flags, Integers, Unsigned

Piece: TypeAlias = "EncodedWords | ArrowArray | bytes"
_NARROW_DIGITS_MAX = 18
_FLOAT_BYTES = 4
_NULL = b"\0"
_NOT_NULL = b"\2"


def encode_by_column(fields: Sequence[MessageField], rows: int) -> pa.BinaryArray:
    """Return the messages (binary[rows]) that `fields` make; pyarrow.ArrowCapacityError from 2 GiB on."""
    return join_pieces([piece for field in fields for piece in _pieces(field, rows)])


def join_pieces(pieces: Sequence[Piece]) -> pa.BinaryArray:
    """Return what `pieces` come to in each row, one behind the other; null has no bytes.

    Words and arrays have an entry per row, bytes are the same in all of them.
    """
    joined: list[ArrowArray | pa.BinaryScalar] = []
    words: list[EncodedWords] = []
    for piece in pieces:
        if isinstance(piece, EncodedWords):
            words.append(piece)
            continue
        joined += [concatenated(words)] if words else []
        joined.append(pa.scalar(piece, pa.binary()) if isinstance(piece, bytes) else piece)
        words = []
    joined += [concatenated(words)] if words else []
    # The last argument goes between the pieces, and a null text has no bytes.
    between = pa.scalar(b"", pa.binary())
    options = pc.JoinOptions(null_handling="replace", null_replacement="")
    messages: pa.BinaryArray = pc.call_function("binary_join_element_wise", [*joined, between], options)
    return messages


def _pieces(field: MessageField, rows: int) -> Sequence[Piece]:
    match field:
        case Constant(content):
            return [constant_word(content, rows)] if len(content) <= WORD_BYTES else [content]
        case Numbers(values):
            return varint_words(values)
        case OptionalText(texts):
            given = np.diff(binary_offsets(texts)) != 0
            return _sized(texts, _and_valid(given, texts), nullable=True)
        case ColumnValues(values, column):
            return _column(values, column.type, nullable=column.nullable)
        case _:
            assert_never(field)


def _column(array: ArrowArray, type_: ColumnType, *, nullable: bool) -> Sequence[Piece]:
    valid = valid_flags(array)
    match type_:
        case TextType() | EnumType() | SetType() | PrintedType() | BytesType() | GeometryType():
            return _sized(array, valid, nullable=nullable)
        case VectorType():
            return _block(array, valid, nullable=nullable)
        case DecimalType(precision) if precision > _NARROW_DIGITS_MAX:
            return _sized(wide_bytes(_decimal_words(array), valid), valid, nullable=nullable)
        case DecimalType():
            words = narrow_words(_decimal_words(array)[:, 0].view(np.int64))
        case IntegerType() | BitType() if array.type == pa.uint64():
            words = unsigned_words(fixed_values(array, np.dtype(np.uint64)))
        case IntegerType() | BitType() | YearType() | DateType() | TimeType() | DateTimeType() | TimestampType():
            words = varint_words(_integers(array))
        case FloatType():
            words = [_ieee(array)]
        case UnsupportedType(declaration):
            message = f"no Avro type carries {declaration}"
            raise ValueError(message)
        case _:
            assert_never(type_)
    return _in_union(words, valid, nullable=nullable)


def _in_union(words: Sequence[EncodedWords], valid: Flags | None, *, nullable: bool) -> Sequence[EncodedWords]:
    if not nullable:
        return words
    chosen = prefixed(_NOT_NULL, words)
    return chosen if valid is None else where_valid(valid, chosen, _NULL)


def _sized(array: ArrowArray, valid: Flags | None, *, nullable: bool) -> Sequence[Piece]:
    lengths = np.diff(binary_offsets(array)).astype(np.int64)
    return [*_in_union(varint_words(lengths), valid, nullable=nullable), array.view(pa.binary())]


def _block(array: ArrowArray, valid: Flags | None, *, nullable: bool) -> Sequence[Piece]:
    """Write arrays of floats: how many there are, the floats, and the 0 that ends an array, once for an empty one."""
    lists = cast("pa.ListArray[pa.FloatScalar]", array)
    offsets = binary_offsets(lists)
    counts = np.diff(offsets).astype(np.int64)
    floats = lists.values.buffers()[1] or pa.py_buffer(b"")
    ends = pa.py_buffer((offsets.astype(np.int32) * _FLOAT_BYTES).data)
    content = pa.Array.from_buffers(pa.binary(), len(lists), [None, ends, floats])
    end = constant_word(b"\0", len(lists))
    return [
        *_in_union(varint_words(counts), valid, nullable=nullable),
        content,
        *where_valid(counts > 0, [end], b""),
    ]


def _decimal_words(array: ArrowArray) -> Unsigned:
    words = array.type.bit_width // 64
    return fixed_values(array, np.dtype(np.uint64), words).reshape(len(array), words)


def _integers(array: ArrowArray) -> Integers:
    kind = "u" if pa.types.is_unsigned_integer(array.type) else "i"
    return fixed_values(array, np.dtype(f"{kind}{array.type.bit_width // 8}")).astype(np.int64)


def _ieee(array: ArrowArray) -> EncodedWords:
    octets = array.type.bit_width // 8
    values = fixed_values(array, np.dtype(f"u{octets}")).astype(np.uint64)
    return EncodedWords(values, np.full(len(values), octets, dtype=np.uint8))


def _and_valid(flags: Flags, array: ArrowArray) -> Flags:
    valid = valid_flags(array)
    return flags if valid is None else flags & valid
