"""The packets in which a server sends its binlog.

Sources: MySQL internals, "MySQL Packets" ("Sending More Than 16Mb"), "ERR_Packet",
"EOF_Packet" and "Binlog Network Stream".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, TypeAlias

from penstock.core.mysql.bytes_reader import BytesReader, MalformedError

_HEADER: Final = struct.Struct("<I")
_LENGTH_MASK: Final = 0xFF_FFFF
_MARKER_BYTES: Final = 1
_OK: Final = 0x00
_EOF: Final = 0xFE
_ERROR: Final = 0xFF
_SQL_STATE_BYTES: Final = 6

PACKET_BYTES_MAX: Final = _HEADER.size + _LENGTH_MASK

Events: TypeAlias = tuple[bytes | bytearray, list[tuple[int, int]]]
"""Events that stand in one buffer, each at its [start, end)."""


@dataclass(frozen=True, slots=True)
class ServerMessage:
    """An error that the server sent instead of an event."""

    code: int
    text: str


class PacketSplitter:
    """Finds events in a stream of packets, and puts together those that came in several packets.

    `ended` turns True when the server has no more to send, `error` is set when
    it gave up; nothing is read behind either.
    """

    def __init__(self) -> None:
        """Expect the first packet."""
        self.ended = False
        self.error: ServerMessage | None = None
        self._parts: list[bytes] = []

    def split(self, buffer: bytearray, start: int, end: int) -> tuple[list[Events], int]:
        """Read whole packets of `buffer[start:end]`; return their events, in order, and where the rest begins."""
        found: list[Events] = []
        spans: list[tuple[int, int]] = []
        at = start
        while end - at >= _HEADER.size and not self.ended and self.error is None:
            length = _HEADER.unpack_from(buffer, at)[0] & _LENGTH_MASK
            begin, after = at + _HEADER.size, at + _HEADER.size + length
            if after > end:
                break
            at = after
            if length == _LENGTH_MASK or self._parts:
                self._parts.append(bytes(buffer[begin:after]))
                if length < _LENGTH_MASK:
                    found += [(buffer, spans), self._joined()]
                    spans = []
            elif length and buffer[begin] == _OK:
                spans.append((begin + _MARKER_BYTES, after))
            else:
                self._read_end(bytes(buffer[begin:after]))
        found.append((buffer, spans))
        return [events for events in found if events[1]], at

    def _joined(self) -> Events:
        whole = b"".join(self._parts)
        self._parts = []
        return whole, [(_MARKER_BYTES, len(whole))]

    def _read_end(self, payload: bytes) -> None:
        reader = BytesReader(payload)
        marker = reader.integer(1)
        if marker == _EOF:
            self.ended = True
        elif marker == _ERROR:
            code = reader.integer(2)
            text = reader.take(reader.left).decode(errors="replace")
            self.error = ServerMessage(code, text[_SQL_STATE_BYTES:] if text.startswith("#") else text)
        else:
            message = f"a packet that begins with 0x{marker:02x}"
            raise MalformedError(message)
