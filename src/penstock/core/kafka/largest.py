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


def too_large(messages: Messages, bytes_max: int) -> int:
    """Return the bytes of a message that stays larger than `bytes_max` when it is compressed, 0 if there is none."""
    if largest_of(messages) <= bytes_max:
        return 0
    lengths = pc.binary_length(messages.values).fill_null(0).to_numpy()
    for index in np.flatnonzero(lengths > bytes_max).tolist():
        content = messages.values[index].as_buffer()
        if len(_LZ4.compress(content)) > bytes_max:
            return int(content.size)
    return 0
