"""A thread that works beside the links while a `with` block lasts. No link waits for it, and none ends with it."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final, Self

import structlog

from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from types import TracebackType

_log = structlog.get_logger()

_WELL_SECONDS: Final = 60.0
"""Work that goes on for this long before it fails had no failure before."""


class BackgroundThread(ABC):
    """Does its work again and again; a failure is told once for as long as it stays the same, and tried again."""

    waits: ClassVar[str]
    """What the log says of it after a failure."""

    pause_seconds: float
    """How long it waits after a failure."""

    stop_seconds: ClassVar[float] = 2.0
    """How long the end of the block waits for it."""

    def __init__(self, name: str) -> None:
        """Call the thread `name`."""
        self._failures, self._failure = 0, ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, and do not wait for long."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(self.stop_seconds)

    @abstractmethod
    def work(self) -> float:
        """Do what is due, and return in how many seconds to do it again; or go on until `_stop` is set.

        It is called once at least. A PenstockError is told by `tell_failure`,
        and every other error is logged with its traceback; the thread goes on after both.
        """

    def tell_failure(self, error: PenstockError, failures: int) -> None:
        """Log a failure that is not the one before; `failures` counts those without a success in between."""
        _log.warning(self.waits, error=error.message, hint=error.hint, failures=failures)

    def _run(self) -> None:
        pause = self._work_once()
        while not self._stop.wait(pause):
            pause = self._work_once()

    def _work_once(self) -> float:
        began = time.monotonic()
        try:
            pause = self.work()
            self._failures, self._failure = 0, ""
        except Exception as error:  # noqa: BLE001 - a mistake of ours must not end the thread in silence
            self._count_failure(error, time.monotonic() - began)
            pause = self.pause_seconds
        return pause

    def _count_failure(self, error: Exception, seconds: float) -> None:
        """Tell a failure after `seconds` of work, unless it is the one before; a mistake of ours with its traceback."""
        if seconds > _WELL_SECONDS:
            self._failures, self._failure = 0, ""
        self._failures += 1
        failure = error.message if isinstance(error, PenstockError) else repr(error)
        if failure == self._failure:
            return
        self._failure = failure
        if isinstance(error, PenstockError):
            self.tell_failure(error, self._failures)
        else:
            _log.error(self.waits, exc_info=error, failures=self._failures)
