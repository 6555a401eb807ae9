"""The live page of a running pipeline as a child process: whatever is asked of it, the pipeline does not wait."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from typing import TYPE_CHECKING, Self

import structlog

from penstock.config.places import log_directory
from penstock.core.errors import UsageError
from penstock.embedded.kept_child import KeptChild
from penstock.embedded.ports import choose_port, is_free
from penstock.embedded.processes import start_child
from penstock.schematizer.security.users import read_users

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from penstock.config.specs import PipelineSpec
    from penstock.config.web import WebSpec
    from penstock.embedded.processes import Child

_log = structlog.get_logger()

_PAUSE_SECONDS = 30.0
_STOP_SECONDS = 2.0
_KEPT = "PENSTOCK_PAGE"
"""The variable by which a process that begins again hands its page on: its pid, its port and the file's digest."""


def plan_page(file: Path, spec: PipelineSpec) -> PageServer | None:
    """Choose the page's port; None if the file turns it off.

    Raises UsageError when the port that the file names is in use, for an address that is
    none of this machine, and for a certificate and a users file that cannot work. A free
    port is remembered under home, and another one taken should it be in use. A page that
    this process has kept is taken as it is, if the file still says the same.
    """
    web = spec.web
    port, kept = _take_kept(file)
    if kept is not None and web is not None:
        return PageServer(file, spec, web.url(port), port, kept)
    if web is None:
        return None
    if web.users is not None:
        read_users(web.users)
    if web.tls is not None:
        # The web server takes half a second to import.
        from penstock.schematizer.server import Tls, check_tls  # noqa: PLC0415

        check_tls(Tls(web.tls.cert, web.tls.key))
    if not is_free(0, web.host):
        message = f"the live page cannot listen on {web.host}: that is no address of this machine"
        raise UsageError(message, "give `web: {host: ADDRESS}` one of those that `ip addr` shows, or 0.0.0.0 for all")
    spec.home.mkdir(parents=True, exist_ok=True)
    port = _choose_port(spec.home / "web.port", web)
    return PageServer(file, spec, web.url(port), port)


def _take_kept(file: Path) -> tuple[int, KeptChild | None]:
    """The page that this process had before it began again, and its port; one of another file is ended."""
    pid, port, digest = [*os.environ.pop(_KEPT, "").split(), "", "", ""][:3]
    if not pid.isdigit():
        return 0, None
    kept = KeptChild(int(pid))
    if digest != _digest(file):
        kept.stop(_STOP_SECONDS)
    return int(port), kept if kept.alive() else None


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _choose_port(remembered: Path, web: WebSpec) -> int:
    if web.port is None:
        return choose_port(remembered, host=web.host)
    if is_free(web.port, web.host):
        return web.port
    message = f"the live page's port {web.port} on {web.host} is in use by another process"
    hint = f"end that process (`ss -ltnp 'sport = :{web.port}'` shows it), give `web: {{port: N}}` another"
    raise UsageError(message, f"{hint}, or turn the page off: `web: false`")


class PageServer:
    """`penstock web FILE` for the time of a `with` block. It is not waited for, and its end ends nothing else."""

    def __init__(self, file: Path, spec: PipelineSpec, url: str, port: int, kept: KeptChild | None = None) -> None:
        """Start nothing yet; `kept` is one that runs already."""
        self.url = url
        self._port = port
        self._digest = _digest(file)
        # What is asked of it, and its start, which imports much, take no time from the pipeline.
        self._command = ["nice", sys.executable, "-m", "penstock.cli.main", "web", str(file), "--port", str(port)]
        self._output = log_directory(spec) / "web.log"
        self._child: Child | KeptChild | None = kept
        self._started_at = 0.0

    def __enter__(self) -> Self:
        """Look after it from now on."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, unless it is handed on."""
        if self._child is not None:
            self._child.stop(_STOP_SECONDS)

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._child is None:
            self._start()

    def hand_on(self) -> dict[str, str]:
        """Let it go on without us; return the environment by which this process finds it when it has begun again."""
        child, self._child = self._child, None
        is_there = child is not None and child.alive()
        return {_KEPT: f"{child.pid} {self._port} {self._digest}" if child is not None and is_there else ""}

    def ensure(self) -> None:
        """Start it again if it has died, at most every half minute."""
        is_dead = self._child is not None and not self._child.alive()
        if is_dead and time.monotonic() - self._started_at > _PAUSE_SECONDS:
            _log.warning("live page starts again", log=str(self._output))
            self._start()

    def _start(self) -> None:
        self._started_at = time.monotonic()
        self._child = start_child("live page", self._command, self._output, survives_exec=True)
