"""The demo's two processes, the source and the pipeline: started, started again when somebody kills them, stopped."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from penstock.config.load import load
from penstock.core.errors import PenstockError
from penstock.wiring.pipeline_status import read_status

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.demo.pipeline import DemoPipeline
    from penstock.demo.sources.database import SourceServer
    from penstock.embedded.processes import Child
    from penstock.embedded.server import Server

_RESTARTS_MAX: Final = 10
_RESTART_SECONDS: Final = 1.0
_ASK_SECONDS: Final = 5.0
_STOP_SECONDS: Final = 60.0
_USAGE_EXIT_CODE: Final = 2
_LOG_LINES: Final = 15


class Upkeep:
    """Keeps the source and the pipeline running until `stop`. Not for several threads."""

    def __init__(self, pipeline: DemoPipeline, note: Callable[[str], None]) -> None:
        """Nothing is started yet; `note` is told about every restart."""
        self._pipeline = pipeline
        self._note = note
        self._kind = pipeline.source_kind
        self._source: Server | None = None
        self._run: Child | None = None
        self._restarts = {self._kind.title: 0, "penstock run": 0}
        self._next_start = 0.0
        self._next_ask = 0.0

    def start_source(self) -> SourceServer:
        """Start the source and return how to log in to it with all rights."""
        self._source, login = self._kind.start(self._pipeline.source_home)
        return login

    def start_pipeline(self) -> None:
        """Run the pipeline."""
        self._run = self._pipeline.start()

    def look(self) -> None:
        """Start again what has ended; raises PenstockError when that happens too often or cannot help."""
        if self._source is not None and not self._source.alive():
            self._count_restart(self._kind.title, "was ended")
            self._source.stop()
            self.start_source()
        now = time.monotonic()
        if self._run is not None and not self._run.alive() and now >= self._next_start:
            self._restart_pipeline(self._run)
        if self._run is not None and now >= self._next_ask:
            self._next_ask = now + _ASK_SECONDS
            self._check_links()

    def stop_pipeline(self) -> None:
        """Ask the pipeline to end in order, and kill it after a minute."""
        if self._run is not None:
            self._run.stop(_STOP_SECONDS)
            self._run = None

    def stop(self) -> None:
        """Stop both. Safe to call twice."""
        if self._run is not None:
            self._note("ending everything that the demo started")
        try:
            self.stop_pipeline()
        finally:
            if self._source is not None:
                self._source.stop()
                self._source = None

    def _restart_pipeline(self, ended: Child) -> None:
        code = ended.popen.returncode
        ended.stop()
        if code == _USAGE_EXIT_CODE:
            message = f"penstock run refused to start:\n{self._log_end()}"
            raise PenstockError(message, f"read {self._pipeline.log}, remove the cause and start the demo again")
        self._count_restart("penstock run", f"ended with exit code {code} (see {self._pipeline.log.name})")
        self._next_start = time.monotonic() + _RESTART_SECONDS * self._restarts["penstock run"]
        self.start_pipeline()

    def _check_links(self) -> None:
        """Raise when a link has stopped for good: nothing more would arrive, however long we wait."""
        for link in read_status(load(self._pipeline.file)).links:
            if link.state == "failed":
                message = f"link {link.link} stopped: {link.error}"
                raise PenstockError(message, link.hint or f"read {self._pipeline.log}")

    def _count_restart(self, name: str, how: str) -> None:
        self._restarts[name] += 1
        if self._restarts[name] > _RESTARTS_MAX:
            message = f"{name} {how}, for the {self._restarts[name]}th time:\n{self._log_end()}"
            raise PenstockError(message, f"read the logs below {self._pipeline.directory}")
        self._note(f"{name} {how}: starting it again, it goes on where it was")

    def _log_end(self) -> str:
        lines = self._pipeline.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(f"    {line}" for line in lines[-_LOG_LINES:])
