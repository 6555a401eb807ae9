"""How large a message may be at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow.compute as pc

from penstock.core.kafka.records import encode_listed

if TYPE_CHECKING:
    from penstock.core.changes import Messages

LARGEST_BYTES: Final = 99 << 20
"""Brokers close a connection with a larger request, without a word (socket.request.max.bytes)."""
ASKED_BYTES: Final = 100_000
"""Smaller messages every topic takes, or nothing could be published: for those nobody asks what it takes."""


def largest_of(messages: Messages) -> int:
    """Return the bytes of the largest value, 0 if there is none."""
    return int(pc.max(pc.binary_length(messages.values)).as_py() or 0)


def too_large(messages: Messages, bytes_max: int) -> list[int]:
    """Return the indices of messages that stay larger than `bytes_max` when they are compressed, as they are sent."""
    if largest_of(messages) <= bytes_max:
        return []
    lengths = pc.binary_length(messages.values).fill_null(0).to_numpy()
    return [
        index
        for index in np.flatnonzero(lengths > bytes_max).tolist()
        if _sent_bytes(messages.keys[index].as_py(), messages.values[index].as_py()) > bytes_max
    ]


def _sent_bytes(key: bytes | None, value: bytes) -> int:
    (alone,) = encode_listed([key], [value])
    return len(alone.content)
