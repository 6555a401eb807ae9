"""Writes down how the embedded servers are, for the page, metrics and `penstock status`."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Self

import structlog

from penstock.core.errors import PenstockError
from penstock.ports.history import ServerCondition
from penstock.wiring.open import open_history

if TYPE_CHECKING:
    from types import TracebackType

    from penstock.config.specs import PipelineSpec
    from penstock.ports.history import ServerState

_log = structlog.get_logger()

_PAUSE_SECONDS = 5.0
_STOP_SECONDS = 2.0


class ServerWatch:
    """A thread that writes down what it is told while a `with` block lasts.

    Whoever tells it does not wait for the state database: a server is started
    again at once, also where that is away.
    """

    def __init__(self, spec: PipelineSpec) -> None:
        """Know of no server yet."""
        self._spec = spec
        self._servers: dict[str, ServerCondition] = {}
        self._telling = threading.Lock()
        self._told = threading.Event()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-server-watch", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write down that none runs any more."""
        self._servers = {}
        self._ends.set()
        self._told.set()
        self._thread.join(_STOP_SECONDS)

    def tell(self, server: str, state: ServerState) -> None:
        """Take note that `server` is in `state` from now on."""
        with self._telling:
            before = self._servers.get(server)
            restarts = 0 if before is None else before.restarts + (state == "starting")
            now_ms = time.time_ns() // 1_000_000
            self._servers = {**self._servers, server: ServerCondition(server, state, now_ms, restarts)}
        self._told.set()

    def _run(self) -> None:
        while not self._ends.is_set():
            self._told.wait()
            self._told.clear()
            try:
                with closing(open_history(self._spec)) as history:
                    history.save_servers(list(self._servers.values()))
            except PenstockError as error:
                _log.debug("the state of servers waits for its database", error=error.message)
                self._told.set()
                self._ends.wait(_PAUSE_SECONDS)
