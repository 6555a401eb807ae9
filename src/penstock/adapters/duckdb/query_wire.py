"""How a query travels between `penstock sql` and the process that has the file open.

Over loopback TCP, both ways: a JSON object, then bytes, each after its length
(4 bytes, big endian).

request   {"token", "statement", "rows_max", "seconds_max"}, no bytes
answer    {"truncated"}, the rows as an Arrow IPC stream
      or  {"error": class name, "message", "hint"}, no bytes
"""

from __future__ import annotations

import json
import os
import struct
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from pathlib import Path

_LENGTH = struct.Struct(">I")
_FRAME_BYTES_MAX = 256 << 20


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """What a run file says: where queries are answered, by which process, and the word that lets one in."""

    port: int
    token: str
    pid: int


def run_file(home: Path, sink: str) -> Path:
    """Return where the process that writes `sink` says how to query it."""
    return home / "run" / f"{sink}.json"


def write_run_file(file: Path, address: ServerAddress) -> None:
    """Write a run file in one step; only its owner may read it. Servers of one process may write it at once."""
    file.parent.mkdir(parents=True, exist_ok=True)
    passing = file.with_name(f"{file.name}.{address.pid}-{address.port}.new")
    passing.unlink(missing_ok=True)
    with os.fdopen(os.open(passing, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as opened:
        json.dump(asdict(address), opened)
    passing.replace(file)


def read_run_file(file: Path) -> ServerAddress | None:
    """Return what a run file says; None if there is none for us or its process has ended."""
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
        address = ServerAddress(int(fields["port"]), str(fields["token"]), int(fields["pid"]))
        os.kill(address.pid, 0)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return address


def send(connection: socket.socket, header: Mapping[str, object], body: bytes = b"") -> None:
    """Send one message; OSError when the other side is gone or slow."""
    encoded = json.dumps(header).encode()
    connection.sendall(_LENGTH.pack(len(encoded)) + encoded + _LENGTH.pack(len(body)))
    connection.sendall(body)


def receive(connection: socket.socket) -> tuple[dict[str, object], bytes]:
    """Receive one message; OSError when the other side is gone or slow, ValueError for nonsense."""
    header = json.loads(_receive_frame(connection))
    if not isinstance(header, dict):
        message = "a message begins with a JSON object"
        raise TypeError(message)
    return header, _receive_frame(connection)


def _receive_frame(connection: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_receive_exactly(connection, _LENGTH.size))
    if length > _FRAME_BYTES_MAX:
        message = f"a frame of {length} bytes"
        raise ValueError(message)
    return _receive_exactly(connection, length)


def _receive_exactly(connection: socket.socket, length: int) -> bytes:
    received = bytearray()
    while len(received) < length:
        piece = connection.recv(min(length - len(received), 1 << 20))
        if not piece:
            message = "the other side closed the connection"
            raise ConnectionError(message)
        received += piece
    return bytes(received)
