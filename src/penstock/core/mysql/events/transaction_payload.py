"""TRANSACTION_PAYLOAD events: a whole transaction, compressed, in one event.

Sources: MySQL manual 7.4.4.5 "Binary Log Transaction Compression"; MySQL
internals, `Transaction_payload_event`. Fields of type, length and value, all of
them length-encoded integers, up to type 0; then events, each with its header and
without a checksum, one behind the other, compressed as one zstd stream.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.core.mysql.events.compressed import PLAIN_BYTES_MAX
from penstock.core.mysql.events.event_codes import HEADER_BYTES
from penstock.core.mysql.events.event_codes import EventCode as Code
from penstock.core.mysql.types.bytes_reader import BytesReader, MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterator

INNER: Final = frozenset(
    {
        Code.QUERY,
        Code.TABLE_MAP,
        Code.WRITE_ROWS_V1,
        Code.UPDATE_ROWS_V1,
        Code.DELETE_ROWS_V1,
        Code.WRITE_ROWS,
        Code.UPDATE_ROWS,
        Code.DELETE_ROWS,
        Code.PARTIAL_UPDATE_ROWS,
        Code.INTVAR,
        Code.RAND,
        Code.USER_VAR,
        Code.IGNORABLE,
        Code.ROWS_QUERY,
        Code.XID,
        Code.XA_PREPARE,
    }
)
"""The events that a compressed transaction may hold: none that says something of the file or of GTIDs."""

_END_OF_FIELDS: Final = 0
_PAYLOAD_BYTES: Final = 1
_COMPRESSION: Final = 2
_PLAIN_BYTES: Final = 3
_ZSTD: Final = 0
_NONE: Final = 255
_CHUNK_BYTES: Final = 1 << 20
_LENGTH: Final = struct.Struct("<I")
_LENGTH_AT: Final = 9


def inner_events(body: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the events of the transaction, each with its offset in the uncompressed stream.

    They are decompressed as they are asked for, so that no more than a chunk and
    the largest of them is in memory. Raises MalformedError where the bytes are
    not what the event says; events from before that have been handed out by then.
    """
    reader = BytesReader(body)
    fields: dict[int, int] = {}
    while (field := reader.length()) != _END_OF_FIELDS:
        fields[field] = BytesReader(reader.take(reader.length())).length()
    payload = reader.take(reader.left)
    if fields.get(_PAYLOAD_BYTES, len(payload)) != len(payload):
        message = f"a compressed transaction of {len(payload)} bytes that announces {fields[_PAYLOAD_BYTES]}"
        raise MalformedError(message)
    compression = fields.get(_COMPRESSION)
    if compression not in {_ZSTD, _NONE}:
        message = f"a transaction with the unknown compression {compression}"
        raise MalformedError(message)
    chunks = _decompressed(payload) if compression == _ZSTD else iter((payload,))
    yield from _split(chunks, fields.get(_PLAIN_BYTES, len(payload) if compression == _NONE else None))


def _decompressed(payload: bytes) -> Iterator[bytes]:
    try:
        with pa.CompressedInputStream(pa.BufferReader(payload), "zstd") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                yield chunk
    except (OSError, pa.ArrowException) as error:
        message = f"a compressed transaction that zstd refuses: {error}"
        raise MalformedError(message) from error


def _split(chunks: Iterator[bytes], announced: int | None) -> Iterator[tuple[int, memoryview]]:
    buffer, begin = bytearray(), 0
    for chunk in chunks:
        buffer += chunk
        at = 0
        while len(buffer) - at >= HEADER_BYTES:
            length = _LENGTH.unpack_from(buffer, at + _LENGTH_AT)[0]
            if not HEADER_BYTES <= length <= PLAIN_BYTES_MAX:
                message = f"an event in a compressed transaction says that it has {length} bytes"
                raise MalformedError(message)
            if len(buffer) - at < length:
                break
            yield begin + at, memoryview(bytes(buffer[at : at + length]))
            at += length
        del buffer[:at]
        begin += at
    if buffer:
        message = f"a compressed transaction that ends within an event, after {begin + len(buffer)} bytes"
        raise MalformedError(message)
    if announced is not None and announced != begin:
        message = f"a compressed transaction of {begin} bytes that announces {announced}"
        raise MalformedError(message)
