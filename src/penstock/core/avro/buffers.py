"""Arrow arrays as numpy sees their buffers, and back, without copies.

Layout of the buffers: Arrow columnar format, "Fixed-size primitive" and
"Variable-size binary" layouts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import numpy.typing as npt

    from penstock.core.avro.arrays import ArrowArray, Flags, Integers, Octets

_Scalar = TypeVar("_Scalar", bound=np.generic)


def fixed_values(array: ArrowArray, dtype: np.dtype[_Scalar], per_value: int = 1) -> npt.NDArray[_Scalar]:
    """Return the values buffer of a fixed-width array, as n * `per_value` entries; null slots hold anything."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array) * per_value, dtype=dtype)
    begin = array.offset * per_value
    return np.frombuffer(memoryview(buffer), dtype=dtype)[begin : begin + len(array) * per_value]


def valid_flags(array: ArrowArray) -> Flags | None:
    """Return which values are not null, None when all are."""
    if not array.null_count:
        return None
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)


def binary_offsets(array: ArrowArray) -> npt.NDArray[np.int32]:
    """Return the n + 1 offsets of a string or binary array (32-bit offsets) into its bytes."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(1, dtype=np.int32)
    return np.frombuffer(memoryview(buffer), dtype=np.int32)[array.offset : array.offset + len(array) + 1]


def binary_octets(array: ArrowArray) -> Octets:
    """Return all bytes that `binary_offsets` points into."""
    buffer = array.buffers()[2]
    return np.zeros(0, dtype=np.uint8) if buffer is None else np.frombuffer(memoryview(buffer), dtype=np.uint8)


def binary_array(ends: Integers, octets: Octets) -> pa.BinaryArray:
    """Cut `octets` into values of which the i-th ends before `ends[i]` and begins where the one before ended."""
    offsets = np.zeros(len(ends) + 1, dtype=np.int32)
    offsets[1:] = ends
    buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(octets.data)]
    return cast("pa.BinaryArray", pa.BinaryArray.from_buffers(pa.binary(), len(ends), buffers))
