"""Arrow arrays as text, by column: the parts that formats of text have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)
"""The two hexadecimal digits of each byte, as two ASCII characters."""
_NO_DIGIT = 255
_DIGITS = np.full(256, _NO_DIGIT, np.uint8)
_DIGITS[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
_DIGITS[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)


def joined(before: str, middle: pa.Array[Any], behind: str) -> pa.Array[Any]:
    """Return each value of `middle`, as text, between two others; NULL stays NULL."""
    # Large: two hexadecimal digits for each byte may be more than the offsets of a string reach.
    wide = pa.large_string()
    parts = [pa.scalar(before, wide), middle.cast(wide), pa.scalar(behind, wide), pa.scalar("", wide)]
    together: pa.Array[Any] = pc.binary_join_element_wise(*parts)  # type: ignore[call-overload]
    return together


def with_commas(array: pa.ListArray[Any]) -> pa.Array[Any]:
    """Return the elements of each list as text, with commas between them; NULL stays NULL."""
    listed: pa.Array[Any] = pc.binary_join(array.cast(pa.list_(pa.string())), ",")  # type: ignore[assignment]
    return listed


def hexadecimal(array: pa.BinaryArray) -> pa.Array[Any]:
    """Return the hexadecimal digits of each value, in lower case; NULL stays NULL."""
    _, positions, content = array.buffers()
    # A slice shares its parent's buffers: only what is its own is to be converted.
    offsets = np.frombuffer(memoryview(positions or b""), np.int32)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(memoryview(content or b""), np.uint8)[offsets[0] : offsets[-1]]
    own = (offsets - offsets[0]).astype(np.int64) * 2
    digits = pa.LargeStringArray.from_buffers(
        len(array), pa.py_buffer(own.tobytes()), pa.py_buffer(_HEX[data].tobytes())
    )
    printed: pa.Array[Any] = pc.if_else(array.is_valid(), digits, pa.scalar(None, pa.large_string()))
    return printed


def from_hexadecimal(array: pa.StringArray) -> pa.Array[Any]:
    """Return the bytes that hexadecimal digits stand for; ValueError for what is none, or for half a byte."""
    filled = array.fill_null("").cast(pa.large_string())
    _, positions, content = filled.buffers()
    offsets = np.frombuffer(memoryview(positions or b""), np.int64)[filled.offset : filled.offset + len(filled) + 1]
    digits = _DIGITS[np.frombuffer(memoryview(content or b""), np.uint8)[offsets[0] : offsets[-1]]]
    own = offsets - offsets[0]
    if (np.diff(own) % 2).any() or (digits == _NO_DIGIT).any():
        message = "not pairs of hexadecimal digits"
        raise ValueError(message)
    data = (digits[0::2] << 4) | digits[1::2]
    whole = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(filled), [None, pa.py_buffer((own // 2).tobytes()), pa.py_buffer(data.tobytes())]
    )
    parsed: pa.Array[Any] = pc.if_else(array.is_valid(), whole.cast(pa.binary()), pa.scalar(None, pa.binary()))
    return parsed


def plain_decimal(array: pa.Array[Any]) -> pa.Array[Any]:
    """Return decimals as digits with `scale` of them behind the point, never with an exponent; NULL stays NULL.

    Arrow's own text of a number that begins with many zeros has an exponent.
    """
    type_ = array.type
    scale: int = type_.scale
    whole_type = (
        pa.decimal256(type_.precision, 0) if pa.types.is_decimal256(type_) else pa.decimal128(type_.precision, 0)
    )
    # The same numbers without a point: an integer's text is exact.
    whole = pa.Array.from_buffers(whole_type, len(array), array.buffers(), array.null_count, array.offset)
    text = whole.cast(pa.string())
    is_negative = pc.starts_with(text, "-")
    digits = pc.ascii_lpad(pc.ascii_ltrim(text, "-"), scale + 1, "0")
    pointed = pc.binary_replace_slice(digits, -scale, -scale, ".") if scale else digits
    signed: pa.Array[Any] = pc.if_else(is_negative, joined("-", pointed, ""), pointed.cast(pa.large_string()))
    return signed
