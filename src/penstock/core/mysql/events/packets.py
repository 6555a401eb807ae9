"""The packets in which a server sends its binlog.

Sources: MySQL internals, "MySQL Packets" ("Sending More Than 16Mb"), "ERR_Packet",
"EOF_Packet" and "Binlog Network Stream".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.core.mysql.types.bytes_reader import BytesReader, MalformedError

_HEADER: Final = struct.Struct("<I")
_LENGTH_MASK: Final = 0xFF_FFFF
_MARKER_BYTES: Final = 1
_OK: Final = 0x00
_EOF: Final = 0xFE
_ERROR: Final = 0xFF
_SQL_STATE_BYTES: Final = 6

PACKET_BYTES_MAX: Final = _HEADER.size + _LENGTH_MASK

Int64s: TypeAlias = npt.NDArray[np.int64]
Spans: TypeAlias = Int64s | Sequence[tuple[int, int]]
"""Where things stand in a buffer, each at its [start, end): int64[n, 2], or pairs where there are few."""
Events: TypeAlias = tuple[bytes | bytearray, Spans]
"""Events that stand in one buffer, and where."""

_FEW_BYTES: Final = 64 << 10
"""What is less is looked at faster packet by packet (measured)."""


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
        if not self._parts and end - start <= _FEW_BYTES:
            events, rest = _find_events(buffer, start, end)
            if rest is not None:
                return [(buffer, events)] if events else [], rest
        barriers = _find_boundaries(buffer, start, end)
        unusual, spans = self._look_at(buffer, barriers)
        found: list[Events] = []
        after = 0
        for index in unusual:
            found.append((buffer, spans[after:index]))
            after = index + 1
            found += self._read_unusual(bytes(buffer[barriers[index] + _HEADER.size : barriers[index + 1]]))
            if self.ended or self.error is not None:
                return [events for events in found if len(events[1])], barriers[index + 1]
        found.append((buffer, spans[after:]))
        return [events for events in found if len(events[1])], barriers[-1]

    def _look_at(self, buffer: bytearray, barriers: Sequence[int]) -> tuple[Sequence[int], Int64s]:
        """Return which packets between `barriers` are anything but one whole event, and where all events would be."""
        places = np.array(barriers, np.int64)
        begins, ends = places[:-1] + _HEADER.size, places[1:]
        lengths = ends - begins
        octets = np.frombuffer(buffer, np.uint8)
        unusual = (lengths == 0) | (lengths == _LENGTH_MASK) | (octets[np.minimum(begins, len(octets) - 1)] != _OK)
        unusual[1:] |= lengths[:-1] == _LENGTH_MASK
        unusual[:1] |= bool(self._parts)
        return np.flatnonzero(unusual).tolist(), np.stack([begins + _MARKER_BYTES, ends], axis=1)

    def _read_unusual(self, payload: bytes) -> list[Events]:
        """Read a packet; return the event that it completes, if it does."""
        if len(payload) < _LENGTH_MASK and not self._parts:
            self._read_end(payload)
            return []
        self._parts.append(payload)
        return [self._joined()] if len(payload) < _LENGTH_MASK else []

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


def _find_events(buffer: bytearray, start: int, end: int) -> tuple[list[tuple[int, int]], int | None]:
    """Return the events, and where the rest begins; None if a packet is anything but one whole event."""
    spans: list[tuple[int, int]] = []
    unpack, at = _HEADER.unpack_from, start
    while at + _HEADER.size <= end:
        after = at + _HEADER.size + (unpack(buffer, at)[0] & _LENGTH_MASK)
        if after > end:
            break
        if after == at + _HEADER.size or buffer[at + _HEADER.size] != _OK:
            return [], None
        spans.append((at + _HEADER.size + _MARKER_BYTES, after))
        at = after
    return spans, at


def _find_boundaries(buffer: bytearray, start: int, end: int) -> list[int]:
    """Return where the whole packets in `buffer[start:end]` begin, and where the last of them ends."""
    barriers, at, last = [start], start, end - _HEADER.size
    unpack = _HEADER.unpack_from
    while at <= last:
        at += _HEADER.size + (unpack(buffer, at)[0] & _LENGTH_MASK)
        barriers.append(at)
    if at > end:
        barriers.pop()
    return barriers
