"""The leader's lock around a run: waiting for it, holding it, and ending at once where it is lost."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog

from penstock.cli.console import say_error
from penstock.core.errors import LockLostError, PenstockError, UnavailableError
from penstock.wiring.waiting import wait_for_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.ports.lock import Lock

_log = structlog.get_logger()

_LOOK_SECONDS = 5.0
_END_SECONDS = 3.0
"""What an orderly end may take once the lock is lost; then the process ends itself."""


class Leadership:
    """That we hold the lock, until we do not.

    A lost lock ends three things, in this order: what `at_loss` names, at once;
    the run, when it next asks `require`; and the process, where that takes long.
    """

    def __init__(self, pipeline: str) -> None:
        """Lead, for as long as nobody calls `lose`."""
        self._pipeline = pipeline
        self._error: LockLostError | None = None
        self._stop: Callable[[], None] | None = None
        self._is_told = False

    def require(self) -> None:
        """Raise LockLostError if the lock is lost."""
        if self._error is not None:
            raise self._error

    def require_at_the_end(self) -> None:
        """Do the same when nothing is left to wait for: whoever gets the error tells the operator."""
        self._is_told = True
        self.require()

    def at_loss(self, stop: Callable[[], None]) -> None:
        """Call `stop`, from another thread, in the moment in which the lock is lost."""
        self._stop = stop
        if self._error is not None:
            stop()

    def lose(self, reason: str) -> None:
        """Note the loss, and see to it that nothing is published any more."""
        message = f"this instance of pipeline {self._pipeline} no longer leads: {reason}"
        hint = "start it again, with --standby to wait for its turn; it has published nothing since"
        self._error = LockLostError(message, hint)
        if self._stop is not None:
            self._stop()
        _log.error("lock lost", pipeline=self._pipeline, reason=reason)
        ending = threading.Timer(_END_SECONDS, self._end)
        ending.daemon = True
        ending.start()

    def _end(self) -> None:
        """Leave, although something still waits: for a server perhaps. Servers that we started end with us."""
        if self._error is not None and not self._is_told:
            say_error(self._error.message, self._error.hint, self._error.error_code)
        sys.stderr.flush()
        os._exit(LockLostError.exit_code)


@contextmanager
def leading(
    pipeline: str, lock: Lock, say: Callable[[str], None], prepare: Callable[[], None] | None
) -> Iterator[Leadership]:
    """Hold the lock for a `with` block.

    While another instance holds it, waits for some seconds; or, given something
    to `prepare` meanwhile, stands by for as long as it takes.

    Raises PenstockError if another instance holds it, UnavailableError if the
    server that keeps it does not answer for a minute, and LockLostError in place
    of whatever ends the block after the lock was lost.
    """
    leadership = Leadership(pipeline)
    try:
        _take(pipeline, lock, say, prepare)
        lock.tell_loss(leadership.lose)
        try:
            yield leadership
        except Exception as error:
            # With the lock went what the block worked with: its error is a consequence.
            lock.release()
            try:
                leadership.require_at_the_end()
            except LockLostError as lost:
                raise lost from error
            raise
    finally:
        lock.release()


def _take(pipeline: str, lock: Lock, say: Callable[[str], None], prepare: Callable[[], None] | None) -> None:
    """Return when the lock is ours."""
    if wait_for_answer(lambda: lock.acquire(0.0), say):
        return
    holder = wait_for_answer(lock.holder, say) or "it is just ending"
    if prepare is not None:
        say(f"standing by: another instance of pipeline {pipeline} runs ({holder}); this one takes over when it ends")
        prepare()
        _stand_by(lock, say, holder)
        return
    say(f"another instance of pipeline {pipeline} runs ({holder}); waiting up to {lock.patience_seconds:.0f} s")
    if not wait_for_answer(lambda: lock.acquire(lock.patience_seconds), say):
        message = f"another instance of pipeline {pipeline} runs: {lock.holder()}"
        hint = "let it run, or stop it first; two instances never publish at once; with --standby this one would wait"
        raise PenstockError(message, hint)


def _stand_by(lock: Lock, say: Callable[[str], None], holder: str) -> None:
    """Wait for the lock for ever, and tell who has it, and when nobody can be asked."""
    while True:
        try:
            if lock.acquire(_LOOK_SECONDS):
                say("taking over")
                return
            told = lock.holder()
        except UnavailableError as error:
            told = error.message
            time.sleep(_LOOK_SECONDS)
        if told not in {"", holder}:
            say(f"still standing by: {told}")
            holder = told
