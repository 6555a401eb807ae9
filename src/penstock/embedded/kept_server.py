"""One server that is started again when it dies, beside the work that goes on."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import structlog

from penstock.core.errors import PenstockError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.embedded.server import Server

_log = structlog.get_logger()

_PAUSES_SECONDS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Before each start in a row; a server that dies once is started again at once."""
_HEALTHY_SECONDS = 120.0


class KeptServer:
    """A running server. `ensure` never waits: a start takes seconds, in a thread of its own."""

    def __init__(self, name: str, server: Server, start: Callable[[], Server], tell_down: Callable[[], None]) -> None:
        """Keep `server`; `start` starts it anew, with the data and the port it had.

        `tell_down` is called whenever it has died, or could not be started.
        """
        self._name = name
        self._server = server
        self._start = start
        self._tell_down = tell_down
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._error: PenstockError | None = None
        self._is_ended = False
        self._tries = 0
        self._started_at = time.monotonic()
        self._start_after: float | None = None

    @property
    def server(self) -> Server:
        """The server that was started last."""
        return self._server

    def ensure(self, *, tries_without_end: bool = False) -> None:
        """Begin to start it again if it has died.

        Raises UnavailableError when it has died or could not be started so many
        times in a row, unless `tries_without_end`.
        """
        if (self._thread is not None and self._thread.is_alive()) or self._server.alive():
            return
        now = time.monotonic()
        if self._start_after is None:
            self._plan_start(now, tries_without_end)
        if self._start_after is not None and now >= self._start_after:
            self._start_after = None
            self._thread = threading.Thread(target=self._start_again, name="penstock-restart", daemon=True)
            self._thread.start()

    def _plan_start(self, now: float, tries_without_end: bool) -> None:  # noqa: FBT001 - passed on
        """Say in one line what died, and when it is started again."""
        if now - self._started_at > _HEALTHY_SECONDS and self._error is None:
            self._tries = 0
        why = "it died" if self._error is None else self._error.message
        if self._tries >= len(_PAUSES_SECONDS) and not tries_without_end:
            message = f"{self._name} was started again {self._tries} times in a row and does not stay: {why}"
            hint = "remove the cause and run the pipeline again: it goes on where the targets stand"
            raise UnavailableError(message, hint if self._error is None else self._error.hint)
        pause = _PAUSES_SECONDS[min(self._tries, len(_PAUSES_SECONDS) - 1)]
        self._tries += 1
        self._tell_down()
        self._start_after = now + pause
        _log.warning("server starts again", server=self._name, why=why, in_seconds=pause)

    def _start_again(self) -> None:
        self._error = None
        try:
            server = self._start()
        except PenstockError as error:
            self._error = error
            return
        with self._lock:
            if self._is_ended:
                server.kill()
                return
            self._server = server
            self._started_at = time.monotonic()

    def stop(self) -> None:
        """End it; one that is just being started ends as soon as it is there, or with this process."""
        with self._lock:
            self._is_ended = True
        self._server.stop()
