"""Those who are measured: the Schematizer and the bare endpoint, each a process of its own."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import httpx

from penstock.bench.schematizer.workload import REGISTRATION, TABLE
from penstock.core.errors import PenstockError
from penstock.embedded.ports import LOOPBACK, free_port, is_listening
from penstock.embedded.processes import start_child, wait_until_ready
from penstock.embedded.schematizer import start_schematizer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from penstock.bench.schematizer.workload import Request

BARE: Final = "bare FastAPI endpoint"
_START_SECONDS: Final = 60.0
_ANSWER_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Side:
    """A server: its name, its process and its port."""

    name: str
    pid: int
    port: int

    def ask_each(self, requests: Iterable[Request]) -> None:
        """Send each of `requests`, one after the other. Raises PenstockError for any answer but 200."""
        with httpx.Client(base_url=f"http://{LOOPBACK}:{self.port}", timeout=_ANSWER_SECONDS) as client:
            for method, path, body in requests:
                headers = {"content-type": "application/json"} if body else {}
                answer = client.request(method, path, content=body or None, headers=headers)
                if answer.status_code != HTTPStatus.OK:
                    message = f"{self.name} answers {answer.status_code} to {method} {path}: {answer.text[:200]}"
                    raise PenstockError(message, "this is a mistake in the bench: report it")


@contextmanager
def ours(home: Path, name: str = "ours") -> Iterator[Side]:
    """The Schematizer on an SQLite database in `home`, with one schema and one table in it."""
    with start_schematizer(home) as server:
        side = Side(name, server.pid, server.port)
        side.ask_each([REGISTRATION, TABLE])
        yield side


@contextmanager
def bare(home: Path) -> Iterator[Side]:
    """The bare endpoint."""
    port = free_port()
    command = [sys.executable, "-m", "penstock.bench.programs.bare_endpoint", str(port)]
    child = start_child(BARE, command, home / "bare.log")
    try:
        wait_until_ready(child, lambda: is_listening(port), _START_SECONDS)
        yield Side(BARE, child.pid, port)
    finally:
        child.kill()
