"""Makes Arrow arrays of the fields that cursors pass over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never, cast

import numpy as np
import pyarrow as pa

from penstock.core.arrow_types import arrow_type
from penstock.core.avro.buffers import binary_array, binary_offsets
from penstock.core.avro.decode_decimals import read_unscaled, read_unsigned
from penstock.core.avro.json_values import refuse
from penstock.core.avro.layout import RecordLayout
from penstock.core.tables import BitType, DecimalType, EnumType, IntegerType, PrintedType, SetType, TextType

if TYPE_CHECKING:
    import numpy.typing as npt

    from penstock.core.avro.arrays import ArrowArray, Flags, Integers, Unsigned
    from penstock.core.avro.layout import FieldLayout
    from penstock.core.avro.lockstep import Cursors, Spans
    from penstock.core.tables import Column

_WORD_BYTES: Final = 8
_FLOAT_BYTES: Final = 4


def read_column(  # noqa: PLR0911 - one return per Avro type
    cursors: Cursors, field: FieldLayout, column: Column
) -> ArrowArray:
    """Read one field of every message as the values of `column`, in the Arrow type that carries it.

    Raises CorruptLogError for values that `column` cannot hold, PenstockError
    for a field whose Avro type is not that of `column`.
    """
    valid = cursors.read_branches(field.name) if field.nullable else None
    match field.type:
        case "int":
            return _numbers(cursors, cursors.read_numbers(valid, field.name, 32), valid, column)
        case "long":
            return _numbers(cursors, cursors.read_numbers(valid, field.name), valid, column)
        case "float":
            return _masked(cursors.read_fixed(4, valid, field.name).astype(np.uint32), valid, pa.float32())
        case "double":
            return _masked(cursors.read_fixed(8, valid, field.name), valid, pa.float64())
        case "floats":
            return _floats(cursors, valid, field.name, column)
        case "string" | "bytes":
            return _content(cursors, cursors.read_spans(valid, field.name), valid, column)
        case RecordLayout():
            return refuse(f"the row has a record in {field.name}")
        case _:
            assert_never(field.type)


def pass_column(cursors: Cursors, field: FieldLayout) -> None:
    """Pass over one field of every message, whatever its value is."""
    valid = cursors.read_branches(field.name) if field.nullable else None
    match field.type:
        case "int" | "long":
            cursors.pass_numbers(valid, field.name)
        case "float":
            cursors.read_fixed(_FLOAT_BYTES, valid, field.name)
        case "double":
            cursors.read_fixed(_WORD_BYTES, valid, field.name)
        case "floats":
            cursors.read_blocks(_FLOAT_BYTES, valid, field.name)
        case "string" | "bytes":
            cursors.read_spans(valid, field.name)
        case RecordLayout():
            refuse(f"the row has a record in {field.name}")
        case _:
            assert_never(field.type)


def read_text(cursors: Cursors, field: str, *, nullable: bool = False) -> pa.StringArray:
    """Read a string of every message, "" where it is null."""
    valid = cursors.read_branches(field) if nullable else None
    return text_array(cursors, cursors.read_spans(valid, field), None, field)


def text_array(cursors: Cursors, spans: Spans, valid: Flags | None, field: str) -> pa.StringArray:
    """Return the spans as text; CorruptLogError for bytes that are not UTF-8."""
    # A view does not look at the bytes, so the check comes after it.
    return cast("pa.StringArray", _checked(cursors, _binary(cursors, spans, valid).view(pa.string()), field))


def _numbers(cursors: Cursors, numbers: Integers, valid: Flags | None, column: Column) -> ArrowArray:
    type_ = arrow_type(column.type)
    kind = "u" if pa.types.is_unsigned_integer(type_) else "i"
    dtype = np.dtype(f"{kind}{type_.bit_width // 8}")
    if dtype.itemsize < _WORD_BYTES:
        limits = np.iinfo(dtype)
        fits = (numbers >= limits.min) & (numbers <= limits.max)
        cursors.require_all(fits, valid, column.name, f"it does not fit {type_}")
    return _masked(numbers.astype(dtype), valid, type_)


def _content(cursors: Cursors, spans: Spans, valid: Flags | None, column: Column) -> ArrowArray:
    match column.type:
        case TextType() | EnumType() | SetType() | PrintedType():
            return text_array(cursors, spans, valid, column.name)
        case DecimalType():
            words = read_unscaled(cursors, spans, valid, column)
            return _checked(cursors, _decimals(words, valid, column), column.name)
        case IntegerType() | BitType():
            return _masked(read_unsigned(cursors, spans, valid, column.name), valid, pa.uint64())
        case _:
            return _binary(cursors, spans, valid)


def _floats(cursors: Cursors, valid: Flags | None, field: str, column: Column) -> ArrowArray:
    """Read arrays of floats, as we write them: one block, and the 0 that ends an array, once for an empty one."""
    spans = cursors.read_blocks(_FLOAT_BYTES, valid, field)
    content = _binary(cursors, spans, None)
    ends = pa.py_buffer((binary_offsets(content) // _FLOAT_BYTES).astype(np.int32).data)
    octets = content.buffers()[2] or pa.py_buffer(b"")
    floats = pa.Array.from_buffers(pa.float32(), int(spans.lengths.sum()) // _FLOAT_BYTES, [None, octets])
    validity = None if valid is None else pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(arrow_type(column.type), len(spans.begins), [validity, ends], children=[floats])


def _binary(cursors: Cursors, spans: Spans, valid: Flags | None) -> pa.BinaryArray:
    """Take the spans as every second value of an array over all bytes; what lies between them are the others."""
    count = len(spans.begins)
    ends = np.empty(2 * count, dtype=np.int64)
    ends[0::2], ends[1::2] = spans.begins, spans.begins + spans.lengths
    odd = np.arange(1, 2 * count, 2)
    indices = pa.array(odd, pa.int64(), mask=None if valid is None else ~valid)
    return binary_array(ends, cursors.octets).take(indices)


def _masked(values: npt.NDArray[np.generic], valid: Flags | None, type_: pa.DataType) -> ArrowArray:
    array: ArrowArray = pa.array(values, mask=None if valid is None else ~valid)
    return array.view(type_)


def _decimals(words: Unsigned, valid: Flags | None, column: Column) -> ArrowArray:
    validity = None if valid is None else pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(arrow_type(column.type), len(words), [validity, pa.py_buffer(words.data)])


def _checked(cursors: Cursors, array: ArrowArray, field: str) -> ArrowArray:
    """Return `array` when all its values are UTF-8, or decimals within their precision."""
    if not _is_valid(array):
        fits = np.array([_is_valid(array.slice(index, 1)) for index in range(len(array))])
        cursors.require(fits, field, f"it is no {array.type}")
    return array


def _is_valid(array: ArrowArray) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
