"""Figures: from the start of the process to its first answer."""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING, Final

import httpx

from penstock.bench.figure import Figure
from penstock.bench.process_tree import ProcessTree
from penstock.bench.schematizer.sides import BARE
from penstock.core.errors import PenstockError, UnavailableError
from penstock.embedded.ports import LOOPBACK, free_port, is_listening
from penstock.embedded.processes import start_child

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.bench.lab import Lab

_ROUNDS: Final = 7
_TARGET_SECONDS: Final = 2.0
_WAIT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.005
_SERVE: Final = ("penstock.cli.main", "schematizer", "serve", "--host", LOOPBACK, "--port")


def measure(lab: Lab) -> Sequence[Figure]:
    """On a new database, and on one that is there; the bare endpoint in turn with them."""
    home = lab.folder("start")
    there = home / "there.db"
    told: dict[str, list[tuple[float, float]]] = {"new": [], "there": [], BARE: []}
    _start([*_SERVE, "{port}", "--url", f"sqlite:///{there}"], home / "first.log")
    for number in range(_ROUNDS):
        lab.say(f"start: round {number + 1} of {_ROUNDS}")
        commands = {
            "new": [*_SERVE, "{port}", "--url", f"sqlite:///{home / f'new{number}.db'}"],
            "there": [*_SERVE, "{port}", "--url", f"sqlite:///{there}"],
            BARE: ["penstock.bench.programs.bare_endpoint", "{port}"],
        }
        for name, command in commands.items():
            told[name].append(_start(command, home / f"{number}.log"))
    peer = statistics.median(seconds for seconds, _ in told[BARE])
    return [
        Figure(
            f"start until first answer, {what}",
            "seconds",
            "less",
            statistics.median(seconds for seconds, _ in told[name]),
            BARE,
            peer,
            _TARGET_SECONDS,
            "value",
            _note(told[name]),
        )
        for name, what in (("there", "database there"), ("new", "new database"))
    ]


def _start(command: Sequence[str], log: Path) -> tuple[float, float]:
    """Start a module with its arguments, and end it; the seconds and the CPU seconds until it answers."""
    port = free_port()
    began = time.monotonic()
    child = start_child("server", [sys.executable, "-m", *(part.format(port=port) for part in command)], log)
    try:
        while not _answers(port):
            if not child.alive():
                message = "the server ended before it answered"
                raise PenstockError(message, f"read {log}")
            if time.monotonic() - began > _WAIT_SECONDS:
                message = f"the server did not answer within {_WAIT_SECONDS:.0f} s"
                raise UnavailableError(message, f"read {log}")
            time.sleep(_POLL_SECONDS)
        return time.monotonic() - began, ProcessTree(child.pid).look()
    finally:
        child.kill()


def _answers(port: int) -> bool:
    if not is_listening(port):
        return False
    try:
        # The bare endpoint has no such route, and answers that.
        return httpx.get(f"http://{LOOPBACK}:{port}/schemas/types", timeout=_WAIT_SECONDS).status_code > 0
    except httpx.TransportError:
        return False


def _note(told: Sequence[tuple[float, float]]) -> str:
    seconds, cpu = zip(*told, strict=True)
    return f"{min(seconds):.2f} to {max(seconds):.2f} s; CPU {statistics.median(cpu):.2f} s"
