"""How large a message may be at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from penstock.core.changes import Messages

LARGEST_BYTES: Final = 99 << 20
"""Brokers close a connection with a larger request, without a word (socket.request.max.bytes)."""
ASKED_BYTES: Final = 100_000
"""Smaller messages every topic takes, or nothing could be published: for those nobody asks what it takes."""
_LZ4: Final = pa.Codec("lz4_raw")


def largest_of(messages: Messages) -> int:
    """Return the bytes of the largest value, 0 if there is none."""
    return int(pc.max(pc.binary_length(messages.values)).as_py() or 0)


def too_large(messages: Messages, bytes_max: int) -> list[int]:
    """Return the indices of messages that stay larger than `bytes_max` when they are compressed."""
    if largest_of(messages) <= bytes_max:
        return []
    lengths = pc.binary_length(messages.values).fill_null(0).to_numpy()
    return [
        index
        for index in np.flatnonzero(lengths > bytes_max).tolist()
        if len(_LZ4.compress(messages.values[index].as_buffer())) > bytes_max
    ]
