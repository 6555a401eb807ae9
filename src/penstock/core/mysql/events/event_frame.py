"""What is around every event: its header before, its checksum behind.

Sources: MariaDB Knowledge Base, "2-Binlog Event Header", "Format_description_event"
and "Rotate_event"; MySQL internals, `Log_event_header` and `Log_event_footer`.
"""

from __future__ import annotations

import re
import struct
import zlib
from typing import Final, NamedTuple

from penstock.core.mysql.events.event_codes import CHECKSUM_BYTES, FLAG_ARTIFICIAL, HEADER_BYTES, EventCode
from penstock.core.mysql.types.bytes_reader import BytesReader, MalformedError

HEADER: Final = struct.Struct("<IBIIIH")
_FORMAT_VERSION: Final = 4
_SERVER_VERSION_BYTES: Final = 50
_CHECKSUM_CRC32: Final = 1
CHECKSUM: Final = struct.Struct("<I")
_FILE: Final = re.compile(r".+\.[0-9]{1,20}", re.DOTALL)
_FORMAT_DESCRIPTION: Final = int(EventCode.FORMAT_DESCRIPTION)
_HEARTBEATS: Final = frozenset({EventCode.HEARTBEAT, EventCode.HEARTBEAT_V2})
_MADE_UP: Final = _HEARTBEATS | {EventCode.ROTATE, EventCode.FORMAT_DESCRIPTION, EventCode.MARIADB_GTID_LIST}


class Header(NamedTuple):
    """The header of an event: Unix seconds, type, server, length in bytes, end in the file modulo 2**32, flags."""

    timestamp: int
    code: int
    server_id: int
    length: int
    end: int
    flags: int

    @property
    def artificial(self) -> bool:
        """Whether the server made the event up for this connection; then it has no place in the file."""
        return self.code in _MADE_UP and bool(self.flags & FLAG_ARTIFICIAL or not self.end or self.code in _HEARTBEATS)


class FrameReader:
    """Takes events out of their frame. Whether they have a checksum is said by each FORMAT_DESCRIPTION event.

    Before the first one they have: we ask every server for checksums. The same
    event tells whether the log is MariaDB's (`is_mariadb`). `checksums` is what
    the next event is taken to have.
    """

    __slots__ = ("checksums", "is_mariadb")

    def __init__(self) -> None:
        """Expect checksums."""
        self.checksums = True
        self.is_mariadb = False

    def read(self, event: memoryview) -> tuple[Header, memoryview]:
        """Return header and body of one whole event; MalformedError if its length or its checksum is wrong."""
        if len(event) < HEADER_BYTES:
            message = f"an event of {len(event)} bytes is shorter than its header"
            raise MalformedError(message)
        header = Header._make(HEADER.unpack_from(event))
        if header.length != len(event):
            message = f"an event of {len(event)} bytes says that it has {header.length}"
            raise MalformedError(message)
        if header.code == _FORMAT_DESCRIPTION:
            self.is_mariadb = b"MariaDB" in BytesReader(event, HEADER_BYTES + 2).take(_SERVER_VERSION_BYTES)
            self.checksums = _announces_checksums(event)
        if not self.checksums:
            return header, event[HEADER_BYTES:]
        end = header.length - CHECKSUM_BYTES
        if end < HEADER_BYTES or zlib.crc32(event[:end]) != CHECKSUM.unpack_from(event, end)[0]:
            message = f"the checksum of an event of type {header.code} differs"
            raise MalformedError(message)
        return header, event[HEADER_BYTES:end]


def read_inner(event: memoryview) -> tuple[Header, memoryview]:
    """Return header and body of an event in a compressed transaction, which has no checksum."""
    header = Header._make(HEADER.unpack_from(event))
    return header, event[HEADER_BYTES:]


def parse_rotate(body: memoryview) -> tuple[str, int]:
    """Read a ROTATE event after its header: the file that follows, and the offset at which it starts."""
    reader = BytesReader(body)
    offset = reader.integer(8)
    file = reader.text(reader.left)
    if not _FILE.fullmatch(file):
        message = f"{file!r} is no name of a binlog"
        raise MalformedError(message)
    return file, offset


def _announces_checksums(event: memoryview) -> bool:
    """Read a FORMAT_DESCRIPTION event: its version, and the algorithm that stands before its own checksum."""
    reader = BytesReader(event, HEADER_BYTES)
    version = reader.integer(2)
    if version != _FORMAT_VERSION:
        message = f"version {version} of the binlog format"
        raise MalformedError(message)
    if reader.left <= CHECKSUM_BYTES:
        message = "a FORMAT_DESCRIPTION event without checksum algorithm"
        raise MalformedError(message)
    algorithm = event[len(event) - CHECKSUM_BYTES - 1]
    if algorithm > _CHECKSUM_CRC32:
        message = f"the unknown checksum algorithm {algorithm}"
        raise MalformedError(message)
    return algorithm == _CHECKSUM_CRC32
