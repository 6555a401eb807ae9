"""Messages of the PostgreSQL wire protocol 3.0, which Redshift's clients speak.

Source: PostgreSQL documentation, "Message Formats" and "Error and Notice Message Fields".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

PROTOCOL = 196608
SSL_REQUEST = 80877103
GSS_REQUEST = 80877104
CANCEL_REQUEST = 80877102

_HEADER = struct.Struct("!cI")
_LENGTH_BYTES = 4
_STARTUP_BYTES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Message:
    """One message: its kind, a byte, and its body without the length."""

    kind: bytes
    body: bytes = b""

    def pack(self) -> bytes:
        """As it goes over the wire."""
        return _HEADER.pack(self.kind, len(self.body) + _LENGTH_BYTES) + self.body


@dataclass
class RedshiftError(Exception):
    """What a client is told. `fields` are those of PostgreSQL's error, where it is one of PostgreSQL."""

    sqlstate: str
    message: str
    detail: str = ""
    hint: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    fatal: bool = False

    def __post_init__(self) -> None:
        """Give the exception its text."""
        super().__init__(self.message)

    def pack(self) -> bytes:
        """As an ErrorResponse."""
        severity = "FATAL" if self.fatal else "ERROR"
        parts = {"S": severity, "C": self.sqlstate, "M": self.message, "D": self.detail, "H": self.hint}
        position = {"P": self.fields["P"]} if "P" in self.fields else {}
        return Message(b"E", _pack_fields({**parts, **position})).pack()


def parse_fields(body: bytes) -> dict[str, str]:
    """The fields of an ErrorResponse or NoticeResponse by their letters."""
    return {part[:1].decode(): part[1:].decode(errors="replace") for part in body.split(b"\0") if part}


def pack_notice(text: str) -> bytes:
    """A NoticeResponse of severity INFO."""
    return Message(b"N", _pack_fields({"S": "INFO", "C": "00000", "M": text})).pack()


def pack_parameter(name: str, value: str) -> bytes:
    """A ParameterStatus."""
    return Message(b"S", f"{name}\0{value}\0".encode()).pack()


def pack_tag(tag: str) -> bytes:
    """A CommandComplete."""
    return Message(b"C", f"{tag}\0".encode()).pack()


def pack_startup(parameters: Mapping[str, str]) -> bytes:
    """A StartupMessage."""
    body = b"".join(f"{name}\0{value}\0".encode() for name, value in parameters.items()) + b"\0"
    return struct.pack("!II", len(body) + 8, PROTOCOL) + body


def parse_startup(body: bytes) -> dict[str, str]:
    """The parameters of a StartupMessage."""
    parts = body.split(b"\0")
    return {name.decode(): value.decode() for name, value in zip(parts[::2], parts[1::2], strict=False) if name}


async def read_message(reader: asyncio.StreamReader) -> Message:
    """The next message. asyncio.IncompleteReadError where the other side has gone."""
    kind, length = _HEADER.unpack(await reader.readexactly(_HEADER.size))
    return Message(kind, await reader.readexactly(length - _LENGTH_BYTES))


async def read_startup(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The code and the rest of a connection's first packet; ConnectionError where it is none."""
    length, code = struct.unpack("!II", await reader.readexactly(8))
    if not _HEADER.size <= length <= _STARTUP_BYTES_MAX:
        message = "not a start-up packet"
        raise ConnectionError(message)
    return code, await reader.readexactly(length - 8)


def cut_string(body: bytes, start: int = 0) -> tuple[str, int]:
    """The string that ends with a zero byte at `start`, and where the next thing begins."""
    end = body.index(b"\0", start)
    return body[start:end].decode(), end + 1


def _pack_fields(fields: Mapping[str, str]) -> bytes:
    return b"".join(f"{letter}{value}\0".encode() for letter, value in fields.items() if value) + b"\0"
