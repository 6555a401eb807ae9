"""Pieces of a buffer as one Arrow array, copied by Arrow rather than one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import numpy.typing as npt

PIECES_BYTES_MAX: Final = (1 << 31) - 1
"""The largest buffer that can be cut."""


def cut_pieces(
    buffer: memoryview, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], order: npt.NDArray[np.int64]
) -> pa.BinaryArray:
    """Copy `buffer[starts:ends]` (int64[n] each), which stand one behind the other, in the order of their numbers.

    One binary array over the whole buffer, with the offsets start, end, start,
    end, ..., has the pieces at its even places and what is between them at its
    odd ones; `take` keeps the even ones that are asked for.
    """
    offsets = np.empty(2 * len(starts) + 1, np.int32)
    offsets[0:-1:2], offsets[1::2] = starts, ends
    offsets[-1] = ends[-1] if len(ends) else 0
    buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(buffer)]
    everything = pa.BinaryArray.from_buffers(pa.binary(), 2 * len(starts), buffers)
    return cast("pa.BinaryArray", everything.take(2 * order))
