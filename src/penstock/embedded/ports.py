"""Free TCP ports, on loopback unless another address is given, remembered so that a restarted server is found again."""

from __future__ import annotations

import random
import re
import socket
import time
from typing import TYPE_CHECKING

from penstock.core.errors import UnavailableError, UsageError
from penstock.embedded.cache import cache_directory, locked
from penstock.wiring.whole_files import write_whole

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

LOOPBACK = "127.0.0.1"

# Below the range from which the kernel takes the ports of outgoing connections
# (32768 and up on Linux): a connection cannot take a stopped server's port.
_LOWEST = 20_000
_HIGHEST = 32_000
_ATTEMPTS = 200
_START_SECONDS = 120
"""Who is given a port listens on it by then, or never."""

_NOTE = re.compile(r"^(\d+) (\d+)$", re.MULTILINE)
"""A port, and the second since 1970 in which it was given."""


def choose_port(remembered_in: Path, wanted: int | None = None, host: str = LOOPBACK) -> int:
    """The port in the file `remembered_in` if it is free, else another one, which is then written there.

    `wanted` overrides both. Raises UsageError when it is in use.
    """
    port = wanted if wanted is not None else _remembered(remembered_in)
    if port is None or (wanted is None and not is_free(port, host)):
        port = free_port(host)
    elif not is_free(port, host):
        message = f"port {port} on {host} is in use by another process"
        hint = f"end that process (`ss -ltnp 'sport = :{port}'` shows it) or give another port"
        raise UsageError(message, hint)
    if port != _remembered(remembered_in):
        # Never half a file: others read it at any time, and a kill may come at any time.
        write_whole(remembered_in, f"{port}\n")
    return port


def free_port(host: str = LOOPBACK) -> int:
    """A port on which nobody listens just now, and that no process of this user was given in the last two minutes.

    What was given is noted in the cache, because a server needs seconds until it
    listens. Where the cache cannot be written, two processes that ask at the same
    time get the same port by a chance of one in thousands.
    """
    notes = cache_directory("ports")
    try:
        with locked(notes / "lock"):
            now = int(time.time())
            given = _recent(notes / "given", now)
            port = _free_port_beside(given, host)
            (notes / "given").write_text("".join(f"{each} {at}\n" for each, at in {**given, port: now}.items()))
            return port
    except (UsageError, OSError):
        return _free_port_beside((), host)


def _recent(notes: Path, now: int) -> Mapping[int, int]:
    """When each of the ports was given that was given lately; what a full disk left of a line tells nothing."""
    try:
        noted = _NOTE.findall(notes.read_text(errors="replace"))
    except FileNotFoundError:
        return {}
    return {int(port): int(at) for port, at in noted if 0 <= now - int(at) < _START_SECONDS}


def _free_port_beside(given: Collection[int], host: str) -> int:
    candidates = [port for port in range(_LOWEST, _HIGHEST + 1) if port not in given]
    # Not for secrecy: where nothing can be noted, processes that ask at the same time should get different ports.
    for port in random.SystemRandom().sample(candidates, min(_ATTEMPTS, len(candidates))):
        if is_free(port, host):
            return port
    message = f"no free port between {_LOWEST} and {_HIGHEST} on {host}"
    raise UnavailableError(message, "end servers that are no longer needed")


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen on `port` of `host` now; on port 0, whether `host` is this machine at all."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
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
