"""The live page of a running pipeline as a child process: whatever is asked of it, the pipeline does not wait."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self

import structlog

from penstock.config.places import log_directory
from penstock.core.errors import UsageError
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


def plan_page(file: Path, spec: PipelineSpec) -> PageServer | None:
    """Choose the page's port; None if the file turns it off.

    Raises UsageError when the port that the file names is in use, for an address that is
    none of this machine, and for a certificate and a users file that cannot work. A free
    port is remembered under home, and another one taken should it be in use.
    """
    web = spec.web
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


def _choose_port(remembered: Path, web: WebSpec) -> int:
    if web.port is None:
        try:
            return choose_port(remembered, host=web.host)
        except UsageError:
            remembered.unlink(missing_ok=True)
            return choose_port(remembered, host=web.host)
    if is_free(web.port, web.host):
        return web.port
    message = f"the live page's port {web.port} on {web.host} is in use by another process"
    hint = f"end that process (`ss -ltnp 'sport = :{web.port}'` shows it), give `web: {{port: N}}` another"
    raise UsageError(message, f"{hint}, or turn the page off: `web: false`")


class PageServer:
    """`penstock web FILE` for the time of a `with` block. It is not waited for, and its end ends nothing else."""

    def __init__(self, file: Path, spec: PipelineSpec, url: str, port: int) -> None:
        """Start nothing yet."""
        self.url = url
        # What is asked of it, and its start, which imports much, take no time from the pipeline.
        self._command = ["nice", sys.executable, "-m", "penstock.cli.main", "web", str(file), "--port", str(port)]
        self._output = log_directory(spec) / "web.log"
        self._child: Child | None = None
        self._started_at = 0.0

    def __enter__(self) -> Self:
        """Start it."""
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        if self._child is not None:
            self._child.stop(_STOP_SECONDS)

    def ensure(self) -> None:
        """Start it again if it has died, at most every half minute."""
        is_dead = self._child is not None and not self._child.alive()
        if is_dead and time.monotonic() - self._started_at > _PAUSE_SECONDS:
            _log.warning("live page starts again", log=str(self._output))
            self._start()

    def _start(self) -> None:
        self._started_at = time.monotonic()
        self._child = start_child("live page", self._command, self._output)
