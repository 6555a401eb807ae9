"""Messages as record batches: what a producer sends to a partition, and a broker stores as it is.

Sources: Apache Kafka documentation, "Record Batch" (magic 2; KIP-98), whose sizes
are Avro's integers; the LZ4 frame format, version 1.6.1 (independent blocks of
64 KiB, no checksums), which is what Kafka's own clients write.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import google_crc32c
import numpy as np
import pyarrow as pa

from penstock.core.avro.buffers import binary_octets, binary_offsets, valid_flags
from penstock.core.avro.encode_columns import join_pieces
from penstock.core.avro.varints import varint, varint_words
from penstock.core.avro.words import constant_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.avro.arrays import Integers

    Header = tuple[str, bytes | None]

RECORDS_BYTES_MAX: Final = 1_000_000
"""So many bytes of messages go into one batch, before they are compressed, as in librdkafka; a larger one stands alone.

Below the limit that brokers have for a batch by default (message.max.bytes).
"""

_OVERHEAD_BYTES: Final = 23
"""More than a record has around its key, its value and its headers."""
_NULL: Final = b"\1"
_NO_HEADERS: Final = b"\0"
_FRONT: Final = b"\0\0"
"""Of a record: no attributes, and the time of its batch."""

_LZ4: Final = pa.Codec("lz4_raw")
_LZ4_BLOCK_BYTES: Final = 1 << 16
_LZ4_BEGIN: Final = bytes.fromhex("04224d18604082")
_LZ4_END: Final = bytes(4)
_LZ4_STORED: Final = 1 << 31
_LZ4_ATTRIBUTE: Final = 3
_TRANSACTIONAL_ATTRIBUTE: Final = 1 << 4

_OUTSIDE: Final = struct.Struct(">qiibI")
_INSIDE: Final = struct.Struct(">hiqqqhii")
_OUTSIDE_BYTES: Final = 9
"""Of what stands before the checksummed part, its length counts these: leader epoch, magic and checksum."""


@dataclass(frozen=True, slots=True)
class Records:
    """So many messages of one partition, in order, as a batch holds them."""

    count: int
    content: bytes
    is_compressed: bool


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """Who sends: the id that Kafka knows a transactional id by, and its epoch."""

    id: int
    epoch: int


def encode_listed(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[Sequence[Header]] | None = None,
) -> Iterator[Records]:
    """Yield messages given one by one; `headers` are each one's."""
    parts: list[bytes] = []
    count = size = 0
    for index, (key, value) in enumerate(zip(keys, values, strict=True)):
        end = _NO_HEADERS if headers is None else _headers(headers[index])
        more = len(key or b"") + len(value or b"") + len(end) + _OVERHEAD_BYTES
        if count and size + more > RECORDS_BYTES_MAX:
            yield _compressed(count, b"".join(parts))
            parts, count, size = [], 0, 0
        record = b"".join((_FRONT, varint(count), _sized(key), _sized(value), end))
        parts += (varint(len(record)), record)
        count, size = count + 1, size + more
    if count:
        yield _compressed(count, b"".join(parts))


def encode_columns(keys: pa.BinaryArray, values: pa.BinaryArray) -> Iterator[Records]:
    """Yield messages given as columns (binary[n] each); the bytes are those of `encode_listed`."""
    ends = np.cumsum(_lengths(keys).clip(0) + _lengths(values).clip(0) + len(_NO_HEADERS) + _OVERHEAD_BYTES)
    begin = 0
    while begin < len(keys):
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + RECORDS_BYTES_MAX, side="right")))
        count = end - begin
        yield _compressed(count, _columns(keys.slice(begin, count), values.slice(begin, count)))
        begin = end


def render_batch(records: Records, timestamp_ms: int, identity: ProducerIdentity, sequence: int) -> bytes:
    """Return the batch in which `records` are a part of the open transaction of `identity`.

    `sequence` is the number of its first message among all that this identity has
    sent to the partition, and `timestamp_ms` (Unix) the time of all of its messages.
    """
    attributes = _TRANSACTIONAL_ATTRIBUTE | (_LZ4_ATTRIBUTE if records.is_compressed else 0)
    inside = _INSIDE.pack(
        attributes,
        records.count - 1,
        timestamp_ms,
        timestamp_ms,
        identity.id,
        identity.epoch,
        sequence,
        records.count,
    )
    checksum = google_crc32c.extend(google_crc32c.value(inside), records.content)
    length = _OUTSIDE_BYTES + len(inside) + len(records.content)
    return b"".join((_OUTSIDE.pack(0, length, -1, 2, checksum), inside, records.content))


def _columns(keys: pa.BinaryArray, values: pa.BinaryArray) -> bytes:
    key_lengths, value_lengths = _lengths(keys), _lengths(values)
    deltas = np.arange(len(keys), dtype=np.int64)
    sizes = len(_FRONT) + len(_NO_HEADERS) + key_lengths.clip(0) + value_lengths.clip(0)
    for numbers in (deltas, key_lengths, value_lengths):
        sizes += _varint_sizes(numbers)
    joined = join_pieces(
        [
            *varint_words(sizes),
            constant_word(_FRONT, len(keys)),
            *varint_words(deltas),
            *varint_words(key_lengths),
            keys,
            *varint_words(value_lengths),
            values,
            constant_word(_NO_HEADERS, len(keys)),
        ]
    )
    offsets = binary_offsets(joined)
    return binary_octets(joined)[offsets[0] : offsets[-1]].tobytes()


def _lengths(values: pa.BinaryArray) -> Integers:
    """How many bytes each value has, -1 for null."""
    lengths: Integers = np.diff(binary_offsets(values)).astype(np.int64)
    valid = valid_flags(values)
    if valid is not None:
        lengths[~valid] = -1
    return lengths


def _varint_sizes(numbers: Integers) -> Integers:
    """How many bytes `varint` makes of each of some numbers of 32 bits."""
    zigzag = (numbers << 1) ^ (numbers >> 63)
    sizes: Integers = np.ones(len(numbers), np.int64)
    for bits in (7, 14, 21, 28):
        sizes += zigzag >= 1 << bits
    return sizes


def _sized(content: bytes | None) -> bytes:
    return _NULL if content is None else varint(len(content)) + content


def _headers(headers: Sequence[Header]) -> bytes:
    parts = [varint(len(headers))]
    for name, value in headers:
        parts += (_sized(name.encode()), _sized(value))
    return b"".join(parts)


def _compressed(count: int, content: bytes) -> Records:
    parts = [_LZ4_BEGIN]
    for begin in range(0, len(content), _LZ4_BLOCK_BYTES):
        block = content[begin : begin + _LZ4_BLOCK_BYTES]
        packed = _LZ4.compress(block, asbytes=True)
        if len(packed) < len(block):
            parts += (len(packed).to_bytes(4, "little"), packed)
        else:
            parts += ((len(block) | _LZ4_STORED).to_bytes(4, "little"), block)
    parts.append(_LZ4_END)
    frame = b"".join(parts)
    is_smaller = len(frame) < len(content)
    return Records(count, frame if is_smaller else content, is_smaller)
