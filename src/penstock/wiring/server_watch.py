"""Writes down how the embedded servers are, for the page, metrics and `penstock status`."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import structlog

from penstock.ports.history import ServerCondition
from penstock.wiring.background_thread import BackgroundThread
from penstock.wiring.open import open_history

if TYPE_CHECKING:
    from types import TracebackType

    from penstock.config.specs import PipelineSpec
    from penstock.core.errors import PenstockError
    from penstock.ports.history import ServerState

_log = structlog.get_logger()


class ServerWatch(BackgroundThread):
    """Writes down what it is told while a `with` block lasts.

    Whoever tells it does not wait for the state database: a server is started
    again at once, also where that is away.
    """

    waits = "the state of servers waits for its database"
    pause_seconds = 5.0

    def __init__(self, spec: PipelineSpec) -> None:
        """Know of no server yet."""
        super().__init__("penstock-server-watch")
        self._spec = spec
        self._servers: dict[str, ServerCondition] = {}
        self._left: dict[str, ServerCondition] = {}
        self._telling = threading.Lock()
        self._told = threading.Event()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write down that none runs any more, but for what is left behind."""
        self._servers = self._left
        self._stop.set()
        self._told.set()
        super().__exit__(kind, error, trace)

    def tell(self, server: str, state: ServerState, restarts: int = 0) -> None:
        """Take note that `server` is in `state` from now on; `restarts` counts those before it was first told of."""
        with self._telling:
            before = self._servers.get(server)
            if before is not None:
                restarts = before.restarts + (state == "starting")
            now_ms = time.time_ns() // 1_000_000
            self._servers = {**self._servers, server: ServerCondition(server, state, now_ms, restarts)}
        self._told.set()

    def leave(self, server: str, state: ServerState) -> None:
        """Let `server` be written down as in `state` when the block has ended: the run begins again without it."""
        self.tell(server, state)
        self._left = {server: self._servers[server]}

    def work(self) -> float:
        """Write down what is told until we are to stop, and what was told last in any case."""
        written: dict[str, ServerCondition] | None = None
        while not self._stop.is_set() or written is not self._servers:
            self._told.wait()
            self._told.clear()
            written = self._servers
            try:
                with closing(open_history(self._spec)) as history:
                    history.save_servers(list(written.values()))
            except Exception:
                self._told.set()
                raise
        return 0.0

    def tell_failure(self, error: PenstockError, failures: int) -> None:
        """Log it for those who look for it alone: the database may be one of the servers, which just starts."""
        _log.debug(self.waits, error=error.message, failures=failures)
