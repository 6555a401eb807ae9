"""Several processes that do the same work, and end with the one that started them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

import structlog

from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable

_log = structlog.get_logger()

_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.05
_STOP_SECONDS = 10.0
_FAILURES_MAX = 5
_HEALTHY_SECONDS = 10.0
_FAILED = 70


def run_workers(count: int, work: Callable[[Callable[[], None]], None], ready: Callable[[], None]) -> None:
    """Run `work` in `count` processes until SIGTERM or SIGINT; one that dies is started again.

    `work` is given what to call when it is ready; `ready` is called here once
    all are. Workers are killed by the kernel when this process ends, however it
    does. Raises PenstockError when they do not come up. Call it from the main
    thread, while there is no other.
    """
    fleet = _Fleet(work)
    stopping = False

    def stop(_signal: int, _frame: object) -> None:
        nonlocal stopping
        stopping = True

    before = {each: signal.signal(each, stop) for each in (signal.SIGTERM, signal.SIGINT)}
    announced = False
    try:
        for _ in range(count):
            fleet.start()
        while not stopping:
            fleet.replace_dead()
            if not announced and fleet.ready_count() >= count:
                announced = True
                ready()
            time.sleep(_POLL_SECONDS)
    finally:
        fleet.stop()
        for each, handler in before.items():
            signal.signal(each, handler)


@dataclass(slots=True)
class _Fleet:
    """The worker processes, by process id: when each was started."""

    work: Callable[[Callable[[], None]], None]
    started: dict[int, float] = field(default_factory=dict)
    failures: int = 0
    _said: int = 0
    _pipe: tuple[int, int] = field(default_factory=os.pipe)

    def start(self) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _be_worker(parent, self.work, self._pipe[1])
        self.started[pid] = time.monotonic()

    def ready_count(self) -> int:
        """Return how many workers have ever said that they are ready."""
        os.set_blocking(self._pipe[0], False)
        with contextlib.suppress(BlockingIOError):
            self._said += len(os.read(self._pipe[0], 1024))
        return self._said

    def replace_dead(self) -> None:
        for pid in self._ended():
            lived = time.monotonic() - self.started.pop(pid)
            self.failures = 0 if lived > _HEALTHY_SECONDS else self.failures + 1
            if self.failures > _FAILURES_MAX:
                message = f"workers end as soon as they begin, {self.failures} of them by now"
                raise PenstockError(message, "read what they said above; try it with --workers 1")
            _log.warning("worker starts again", pid=pid, lived_seconds=round(lived, 1))
            self.start()

    def stop(self) -> None:
        """Ask all to end, and kill those that do not."""
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while self.started and time.monotonic() < deadline:
            for pid in self._ended():
                del self.started[pid]
            time.sleep(_POLL_SECONDS)
        self._signal(signal.SIGKILL)
        for pid in self.started:
            os.waitpid(pid, 0)
        for end in self._pipe:
            os.close(end)

    def _ended(self) -> list[int]:
        return [pid for pid in self.started if os.waitpid(pid, os.WNOHANG)[0]]

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.started:
            os.kill(pid, number)


def _be_worker(parent: int, work: Callable[[Callable[[], None]], None], said: int) -> NoReturn:
    """Do the work in a process that was just forked; never returns to what the parent was doing."""
    code = _FAILED
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        # prctl(2): the kernel's own means, which works when the parent is killed too.
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0 and os.getppid() == parent:
            for each in (signal.SIGTERM, signal.SIGINT):
                signal.signal(each, signal.SIG_DFL)
            work(lambda: _say_ready(said))
            code = 0
    except PenstockError as error:
        sys.stderr.write(f"{error}\n")
    except BaseException:  # noqa: BLE001 - there is nobody above: a worker that failed must not go on as its parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _say_ready(said: int) -> None:
    os.write(said, b".")
