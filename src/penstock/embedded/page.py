"""The live page of a running pipeline as a child process: whatever is asked of it, the pipeline does not wait."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self

import structlog

from penstock.config.places import log_directory
from penstock.core.errors import UsageError
from penstock.embedded.ports import LOOPBACK, choose_port, is_free
from penstock.embedded.processes import start_child
from penstock.schematizer.security.users import read_users

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from penstock.config.specs import PipelineSpec
    from penstock.embedded.processes import Child

_log = structlog.get_logger()

_PAUSE_SECONDS = 30.0
_STOP_SECONDS = 2.0


def plan_page(file: Path, spec: PipelineSpec) -> PageServer | None:
    """Choose the page's port; None if the file turns it off.

    Raises UsageError when the port that the file names is in use, and for a users file
    that cannot work. A free port is remembered under home, and another one taken should
    it be in use.
    """
    if spec.web is None:
        return None
    if spec.web.users is not None:
        read_users(spec.web.users)
    remembered = spec.home / "web.port"
    spec.home.mkdir(parents=True, exist_ok=True)
    if spec.web.port is None:
        try:
            port = choose_port(remembered)
        except UsageError:
            remembered.unlink(missing_ok=True)
            port = choose_port(remembered)
    elif is_free(spec.web.port):
        port = spec.web.port
    else:
        message = f"the live page's port {spec.web.port} on {LOOPBACK} is in use by another process"
        hint = f"end that process (`ss -ltnp 'sport = :{spec.web.port}'` shows it), give `web: {{port: N}}` another"
        raise UsageError(message, f"{hint}, or turn the page off: `web: false`")
    return PageServer(file, spec, spec.web.url(port), port)


class PageServer:
    """`penstock web FILE` for the time of a `with` block. It is not waited for, and its end ends nothing else."""

    def __init__(self, file: Path, spec: PipelineSpec, url: str, port: int) -> None:
        """Start nothing yet."""
        self.url = url
        self._command = [sys.executable, "-m", "penstock.cli.main", "web", str(file), "--port", str(port)]
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
