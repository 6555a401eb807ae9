"""How large a message may be at most, whatever a topic takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from penstock.core.changes import Messages

LARGEST_BYTES: Final = 99 << 20
"""Brokers close a connection with a larger request, without a word (socket.request.max.bytes)."""
_LZ4: Final = pa.Codec("lz4_raw")


def too_large(messages: Messages, bytes_max: int = LARGEST_BYTES) -> int:
    """Return the bytes of a message that stays larger than `bytes_max` when it is compressed, 0 if there is none."""
    for value in messages.values if messages.values.nbytes > bytes_max else ():
        if not value.is_valid:
            continue
        content = value.as_buffer()
        if content.size > bytes_max and len(_LZ4.compress(content)) > bytes_max:
            return int(content.size)
    return 0
