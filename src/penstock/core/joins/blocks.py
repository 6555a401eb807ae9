"""Events and differences as blocks of bytes, as the kernel in jvm/join reads and writes them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa

from penstock.core.avro.buffers import binary_octets, binary_offsets
from penstock.core.joins.events import SCHEMA, TRUNCATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from penstock.core.avro.arrays import Octets

BUCKETS: Final = 64
"""Fixed for the life of a join's state."""

_NUMBERS = ("input", "op", "part", "position", "place", "place_row")
_COLUMNS = ("join_key", "row_key", "row")


def in_pieces(events: Iterable[pa.RecordBatch], bytes_max: int) -> Iterator[list[pa.RecordBatch]]:
    """Yield events in their order, about so many bytes at a time, or one event."""
    piece: list[pa.RecordBatch] = []
    size = 0
    for batch in events:
        rows = max(1, batch.num_rows * bytes_max // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, rows):
            part = batch.slice(start, rows)
            if piece and size + part.nbytes > bytes_max:
                yield piece
                piece, size = [], 0
            piece.append(part)
            size += part.nbytes
    if piece:
        yield piece


def pack_events(events: Sequence[pa.RecordBatch], by: str) -> Iterator[tuple[int, bytes]]:
    """Yield (bucket, block) for all events of a bucket together: buckets of `by`, "join_key" or "row_key".

    A truncate goes to every bucket. The layout of a block is told in
    jvm/join/EventBlocks.java.
    """
    table = pa.Table.from_batches(events, SCHEMA).combine_chunks()
    if not len(table):
        return
    keys: Sequence[Any] = table[by].to_pylist()
    buckets = np.fromiter((crc32(key) % BUCKETS for key in keys), np.int32, len(table))
    is_truncate = table["op"].to_numpy() == TRUNCATE
    if is_truncate.any():
        every = np.flatnonzero(is_truncate)
        rows = np.concatenate([np.flatnonzero(~is_truncate), np.repeat(every, BUCKETS)])
        buckets = np.concatenate([buckets[~is_truncate], np.tile(np.arange(BUCKETS, dtype=np.int32), len(every))])
        table = table.take(rows)
    order = np.argsort(buckets, kind="stable")
    table, buckets = table.take(order).combine_chunks(), buckets[order]
    numbers = [table[name].to_numpy() for name in _NUMBERS]
    binaries = [_binary(table[name]) for name in _COLUMNS]
    cuts = [0, *(np.flatnonzero(np.diff(buckets)) + 1).tolist(), len(table)]
    for start, end in pairwise(cuts):
        pieces: list[npt.NDArray[np.generic]] = [np.array([end - start], np.int32)]
        pieces += [each[start:end] for each in numbers]
        for offsets, octets in binaries:
            pieces += [offsets[start : end + 1] - offsets[start], octets[offsets[start] : offsets[end]]]
        yield int(buckets[start]), b"".join(each.tobytes() for each in pieces)


def _binary(column: Any) -> tuple[npt.NDArray[np.int32], Octets]:  # noqa: ANN401 - pyarrow's stubs know no chunks of binaries
    (array,) = column.chunks
    return binary_offsets(array), binary_octets(array)


def unpack_events(blocks: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the events of what `pack_events`, or the kernel, packed: a block, or several one behind the other."""
    at = 0
    while at < len(blocks):
        count = int.from_bytes(blocks[at : at + 4], "little")
        at += 4
        columns: list[pa.Array[Any]] = []
        for name in _NUMBERS:
            type_: Any = SCHEMA.field(name).type
            size = count * type_.bit_width // 8
            columns.append(pa.Array.from_buffers(type_, count, [None, pa.py_buffer(blocks[at : at + size])]))
            at += size
        for _ in _COLUMNS:
            offsets = blocks[at : at + 4 * (count + 1)]
            at += len(offsets)
            size = int.from_bytes(offsets[-4:], "little")
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(blocks[at : at + size])]
            columns.append(pa.Array.from_buffers(pa.binary(), count, buffers))
            at += size
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def unpack_differences(blocks: Sequence[bytes | memoryview], inputs: int) -> Sequence[pa.Table]:
    """The joined rows that changed, a table for each block: b0, b1... (inputs' rows before) and a0, a1... (after).

    Where the joined row is not there, all of before, or of after, is null; where it is,
    those inputs are that had no match. The first input always has a row. The layout of a
    block is told in jvm/join/Differences.java.
    """
    names = [f"{when}{index}" for when in "ba" for index in range(inputs)]
    schema = pa.schema([pa.field(name, pa.binary()) for name in names])
    return [_unpack(block, schema) for block in blocks]


def _unpack(block: bytes | memoryview, schema: pa.Schema) -> pa.Table:
    count = int.from_bytes(block[:4], "little")
    at, arrays = 8, []
    for _ in schema.names:
        valid = np.packbits(np.frombuffer(block, np.uint8, count, at), bitorder="little")
        at += count
        # The offsets may not be aligned where they are.
        offsets = np.frombuffer(block[at : at + 4 * (count + 1)], np.int32)
        at += 4 * (count + 1)
        size = int(offsets[-1])
        buffers: list[pa.Buffer | None] = [
            pa.py_buffer(valid.tobytes()),
            pa.py_buffer(offsets.tobytes()),
            pa.py_buffer(block[at : at + size]),
        ]
        arrays.append(pa.Array.from_buffers(pa.binary(), count, buffers))
        at += size
    return pa.Table.from_arrays(arrays, schema=schema)
