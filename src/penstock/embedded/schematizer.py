"""The Schematizer as a child process, on an SQLite database of its own."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

import httpx

from penstock.embedded.ports import LOOPBACK, choose_port, is_listening
from penstock.embedded.processes import start_child, wait_until_ready
from penstock.embedded.server import OneProcessServer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_START_SECONDS = 60.0
_PROBE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class SchematizerServer(OneProcessServer):
    """A running Schematizer."""

    @property
    def url(self) -> str:
        """Where both of its faces answer."""
        return f"http://{self.host}:{self.port}"

    def facts(self) -> Mapping[str, str | int]:
        """Address and URL."""
        return {**OneProcessServer.facts(self), "url": self.url}


def start_schematizer(home: Path, *, port: int | None = None) -> SchematizerServer:
    """Start a Schematizer that keeps its schemas in `home`/schematizer.db.

    Raises UsageError when the port is in use.
    """
    home = home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    chosen = choose_port(home / "port", port)
    database = f"sqlite:///{home / 'schematizer.db'}"
    arguments = ["schematizer", "serve", "--host", LOOPBACK, "--port", str(chosen), "--url", database]
    command = [sys.executable, "-m", "penstock.cli.main", *arguments]
    child = start_child("Schematizer", command, home / "schematizer.log")
    wait_until_ready(child, lambda: _answers(chosen), _START_SECONDS)
    return SchematizerServer(chosen, home, child)


def _answers(port: int) -> bool:
    """Whether the registry's list of subjects is served."""
    if not is_listening(port):
        return False
    url = f"http://{LOOPBACK}:{port}/subjects"
    try:
        return httpx.get(url, timeout=_PROBE_SECONDS, trust_env=False).status_code == HTTPStatus.OK
    except httpx.TransportError:
        return False
