"""A bounded reader over one message of PostgreSQL's protocol: integers in network order, texts that end with NUL."""

from __future__ import annotations


class MalformedError(ValueError):
    """The bytes are not what the protocol says; whoever knows the position turns this into a CorruptLogError."""


class NetworkReader:
    """Reads `data` from byte `at` on, never past its end.

    Every method raises MalformedError where too little is left.
    """

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        """Start reading."""
        self._data = data
        self._at = at

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        if count < 0 or count > self.left:
            message = f"{count} bytes are announced where {self.left} are left"
            raise MalformedError(message)
        self._at += count
        return self._data[self._at - count : self._at]

    def integer(self, width: int, *, signed: bool = False) -> int:
        """Return the next `width` bytes as a number."""
        return int.from_bytes(self.take(width), "big", signed=signed)

    def letter(self) -> str:
        """Return the next byte as a character."""
        return chr(self.take(1)[0])

    def text(self) -> str:
        """Return the text up to the next NUL, which is passed by."""
        end = self._data.find(b"\0", self._at)
        if end < 0:
            message = "a text without its end"
            raise MalformedError(message)
        raw = self.take(end - self._at)
        self._at += 1
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            message = f"{raw[:64]!r} is not UTF-8"
            raise MalformedError(message) from error
