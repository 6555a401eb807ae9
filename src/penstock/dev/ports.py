"""Free TCP ports on loopback, remembered so that a restarted server is found again."""

from __future__ import annotations

import random
import socket
from typing import TYPE_CHECKING

from penstock.core.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

LOOPBACK = "127.0.0.1"

# Below the range from which the kernel takes the ports of outgoing connections
# (32768 and up on Linux): a connection cannot take a stopped server's port.
_LOWEST = 20_000
_HIGHEST = 32_000
_ATTEMPTS = 200


def choose_port(remembered_in: Path, wanted: int | None = None) -> int:
    """The port in the file `remembered_in`, else a free one, which is then written there.

    `wanted` overrides both. Raises UsageError when a wanted or remembered port is in use.
    """
    port = wanted if wanted is not None else _remembered(remembered_in)
    if port is None:
        port = free_port()
    elif not is_free(port):
        message = f"port {port} on {LOOPBACK} is in use by another process"
        hint = f"end that process (`ss -ltnp 'sport = :{port}'` shows it) or give another port"
        raise UsageError(message, hint)
    remembered_in.write_text(f"{port}\n")
    return port


def free_port() -> int:
    """A port on which nobody listens just now."""
    for _ in range(_ATTEMPTS):
        # Not for secrecy: two processes that ask at the same time should get different ports.
        port = random.SystemRandom().randint(_LOWEST, _HIGHEST)
        if is_free(port):
            return port
    message = f"no free port between {_LOWEST} and {_HIGHEST} on {LOOPBACK}"
    raise UnavailableError(message, "end servers that are no longer needed")


def is_free(port: int) -> bool:
    """Whether a server could listen on `port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def is_listening(port: int, timeout_seconds: float = 1.0) -> bool:
    """Whether somebody accepts connections on `port`."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(timeout_seconds)
        return probe.connect_ex((LOOPBACK, port)) == 0


def _remembered(file: Path) -> int | None:
    """The port in `file`, None if there is no such file."""
    try:
        return int(file.read_text())
    except FileNotFoundError:
        return None
