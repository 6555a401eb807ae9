"""Ends a call of user code that takes too long."""

from __future__ import annotations

import faulthandler
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


_GRACE_SECONDS_MAX = 10.0
_EXTEND_SECONDS = 1.0
_STANDARD_ERROR = 2


class CallTimeoutError(BaseException):
    """User code took too long. No Exception, for user code catches those."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise CallTimeoutError in a block that takes longer.

    Works in a process's main thread, which is where workers run user code; elsewhere
    nothing is limited. A call into a library that never comes back to Python is not ended: see WorkerLimit.
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


class WorkerLimit:
    """Ends this process where a call takes much longer than its time limit: native code hears of no other end.

    A thread of the interpreter's own does it, which needs no lock of Python's; before
    that it writes to standard error where each thread is. To start that thread takes
    longer than many a call, so it is only done again when a second has gone by.
    """

    def __init__(self, seconds: float) -> None:
        """Allow calls `seconds`, and as many again, 10 at most, to end when they are told to."""
        self._seconds = seconds + min(seconds, _GRACE_SECONDS_MAX) + _EXTEND_SECONDS
        self._extended_at: float | None = None

    def extend(self) -> None:
        """A call begins."""
        now = time.monotonic()
        if self._extended_at is None or now - self._extended_at >= _EXTEND_SECONDS:
            self._extended_at = now
            faulthandler.dump_traceback_later(self._seconds, exit=True, file=_STANDARD_ERROR)

    def lift(self) -> bool:
        """Limit nothing until the next call begins; return whether one was limited."""
        was_limited = self._extended_at is not None
        if was_limited:
            self._extended_at = None
            faulthandler.cancel_dump_traceback_later()
        return was_limited


class UntimedSubjects:
    """A registry for use within limits of time, which has a patience of its own: its time is not user code's."""

    def __init__(self, subjects: Subjects, worker_limit: WorkerLimit | None = None) -> None:
        """Ask `subjects`."""
        self._subjects = subjects
        self._worker_limit = worker_limit

    def register_subject(self, subject: str, schema: str) -> int:
        """See `Subjects`."""
        with _stopped_clock(self._worker_limit):
            return self._subjects.register_subject(subject, schema)

    def register_key(self, subject: str, schema: str) -> int:
        """See `Subjects`."""
        with _stopped_clock(self._worker_limit):
            return self._subjects.register_key(subject, schema)

    def value_schema(self, schema_id: int) -> str:
        """See `Subjects`."""
        with _stopped_clock(self._worker_limit):
            return self._subjects.value_schema(schema_id)

    def close(self) -> None:
        """See `Subjects`."""
        self._subjects.close()


@contextmanager
def _stopped_clock(worker_limit: WorkerLimit | None) -> Iterator[None]:
    was_limited = worker_limit is not None and worker_limit.lift()
    try:
        with _stopped_timer():
            yield
    finally:
        if worker_limit is not None and was_limited:
            worker_limit.extend()


@contextmanager
def _stopped_timer() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    left, interval = signal.setitimer(signal.ITIMER_REAL, 0.0)
    try:
        yield
    finally:
        if left:
            signal.setitimer(signal.ITIMER_REAL, left, interval)
