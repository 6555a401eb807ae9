"""Ends a call of user code that takes too long."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.ports.subjects import Subjects

_AGAIN_SECONDS = 1.0
"""User code may catch whatever is raised in it: then it is raised again, so many seconds later."""


class CallTimeoutError(BaseException):
    """User code took too long. No Exception, for user code catches those."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise CallTimeoutError in a block that takes longer.

    Works in a process's main thread, which is where workers run user code; elsewhere
    nothing is limited. A call into a library that never comes back to Python is not ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_signal: int, _frame: object) -> None:
        text = f"it took longer than {seconds:g} s (timeout_seconds)"
        raise CallTimeoutError(text)

    begun = time.monotonic()
    before = signal.signal(signal.SIGALRM, end)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        if left:
            # Somebody else's timer, which goes on as if nothing had been.
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - begun), 0.001), interval)


class UntimedSubjects:
    """A registry for use within a `time_limit`, which has a patience of its own: its time is not user code's."""

    def __init__(self, subjects: Subjects) -> None:
        """Ask `subjects`."""
        self._subjects = subjects

    def register_subject(self, subject: str, schema: str) -> int:
        """See `Subjects`."""
        with _stopped_clock():
            return self._subjects.register_subject(subject, schema)

    def value_schema(self, schema_id: int) -> str:
        """See `Subjects`."""
        with _stopped_clock():
            return self._subjects.value_schema(schema_id)

    def close(self) -> None:
        """See `Subjects`."""
        self._subjects.close()


@contextmanager
def _stopped_clock() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    left, interval = signal.setitimer(signal.ITIMER_REAL, 0.0)
    try:
        yield
    finally:
        if left:
            signal.setitimer(signal.ITIMER_REAL, left, interval)
