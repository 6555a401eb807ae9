"""The Confluent wire format: a zero byte, the schema's id in four bytes, the Avro bytes.

Source: Confluent documentation, "Wire format".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.core.avro.buffers import binary_octets, binary_offsets, valid_flags
from penstock.core.errors import CorruptLogError
from penstock.core.large_messages import is_large, read_large

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.core.avro.arrays import Flags, Integers

FRAME_BYTES: Final = 5
_FRAME: Final = struct.Struct(">bI")
_HINT: Final = "let only Penstock write to this topic, or read it from an offset after the foreign messages"


def frame(schema_id: int) -> bytes:
    """Return the five bytes that go before the Avro bytes; `schema_id` is 0 to 2**31 - 1, a Java int."""
    return _FRAME.pack(0, schema_id)


def split(message: bytes) -> tuple[int, bytes]:
    """Return the schema id and the Avro bytes of `message`; CorruptLogError when it is not framed."""
    if len(message) < FRAME_BYTES or message[0] != 0:
        raise _not_framed(message)
    return _FRAME.unpack_from(message)[1], message[FRAME_BYTES:]


def schema_ids(values: pa.BinaryArray) -> Integers:
    """Return the schema id of every message (int64[n]).

    Raises CorruptLogError, with the index of the first such message, for one
    that is null (a tombstone) or not framed.
    """
    offsets = binary_offsets(values).astype(np.int64)
    octets = binary_octets(values)
    long_enough = np.diff(offsets) >= FRAME_BYTES
    valid = valid_flags(values)
    _require(values, long_enough if valid is None else long_enough & valid)
    begins = offsets[:-1]
    _require(values, octets[begins] == 0)
    ids = np.zeros(len(values), dtype=np.int64)
    for byte in range(1, FRAME_BYTES):
        ids = (ids << 8) | octets[begins + byte]
    return ids


def _require(values: pa.BinaryArray, framed: Flags) -> None:
    if not framed.all():
        index = int(np.flatnonzero(~framed)[0])
        raise _not_framed(values[index].as_py(), index, len(values))


def _not_framed(message: bytes | None, index: int = 0, count: int = 0) -> CorruptLogError:
    which = f"message {index} of {count}" if count else "a message"
    if message is not None and is_large(message):
        large = read_large(message)
        reason = (
            f"{which} is larger than its topic takes ({large.size_bytes:,} bytes): it is in the object store, at "
            f"{large.key}, which spolts and joins do not read"
        )
        return CorruptLogError(reason, "read that file, or make the row smaller")
    shown = "nothing (it is a tombstone)" if message is None else repr(message[:FRAME_BYTES])
    return CorruptLogError(f"{which} does not begin with a schema id but with {shown}", _HINT)
