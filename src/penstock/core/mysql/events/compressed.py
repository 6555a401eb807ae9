"""What MariaDB compressed within an event: rows, and the text of statements.

Source: MariaDB Knowledge Base, "Compressing Events to Reduce Size of the Binary
Log", and `binlog_buf_compress`: a byte 0x80 + number of length bytes (the bits
between are the algorithm, 0 for zlib), the length before compression with its
highest byte first, and a zlib stream.
"""

from __future__ import annotations

import zlib
from typing import Final

from penstock.core.mysql.types.bytes_reader import BytesReader, MalformedError

_ALGORITHM_MASK: Final = 0xF8
_ZLIB: Final = 0x80
_LENGTH_BYTES_MASK: Final = 0x07
_LENGTH_BYTES_MAX: Final = 4
PLAIN_BYTES_MAX: Final = 1 << 30
"""The servers' own limit of an event (slave_max_allowed_packet)."""


def inflate(data: bytes | memoryview) -> bytes:
    """Undo the compression; MalformedError for anything but one whole record.

    Never allocates more than it finds: a length that is not what comes out is an
    error, and zlib's output is at most some thousand times its input.
    """
    reader = BytesReader(data)
    head = reader.integer(1)
    length_bytes = head & _LENGTH_BYTES_MASK
    if head & _ALGORITHM_MASK != _ZLIB or not 0 < length_bytes <= _LENGTH_BYTES_MAX:
        message = f"compressed data that begins with 0x{head:02x}"
        raise MalformedError(message)
    length = int.from_bytes(reader.take(length_bytes), "big")
    if length > PLAIN_BYTES_MAX:
        message = f"compressed data of {length} bytes, over the {PLAIN_BYTES_MAX} that an event may have"
        raise MalformedError(message)
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(data[reader.at :], length + 1)
    except zlib.error as error:
        message = f"compressed data that zlib refuses: {error}"
        raise MalformedError(message) from error
    if len(plain) != length or not stream.eof or stream.unused_data:
        message = f"compressed data of {len(plain)} bytes that announces {length}"
        raise MalformedError(message)
    return plain
