"""A bounded reader over the bytes of one event."""

from __future__ import annotations

_LENGTH_WIDTHS = {0xFC: 2, 0xFD: 3, 0xFE: 8}
_ONE_BYTE_LENGTH_MAX = 0xFA


class MalformedError(ValueError):
    """The bytes are not what the format says; whoever knows the position turns this into a CorruptLogError."""


class BytesReader:
    """Reads little-endian integers and counted strings from `data`, never past its end.

    Every method raises MalformedError when too few bytes are left.
    """

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes | memoryview, at: int = 0) -> None:
        """Start reading `data` at byte `at`."""
        self._data = data
        self._at = at

    @property
    def at(self) -> int:
        """The index of the next byte."""
        return self._at

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        if count > self.left:
            message = f"{count} bytes are announced where {self.left} are left"
            raise MalformedError(message)
        self._at += count
        return bytes(self._data[self._at - count : self._at])

    def integer(self, width: int) -> int:
        """Return the next `width` bytes as an unsigned little-endian integer."""
        return int.from_bytes(self.take(width), "little")

    def length(self) -> int:
        """Return a length-encoded integer (MySQL internals, "Protocol::LengthEncodedInteger")."""
        first = self.integer(1)
        if first <= _ONE_BYTE_LENGTH_MAX:
            return first
        width = _LENGTH_WIDTHS.get(first)
        if width is None:
            message = f"0x{first:02x} does not begin a length"
            raise MalformedError(message)
        return self.integer(width)

    def text(self, count: int) -> str:
        """Return the next `count` bytes as UTF-8 text, as identifiers are written."""
        raw = self.take(count)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            message = f"{raw!r} is not UTF-8"
            raise MalformedError(message) from error
