"""Child processes that never outlive us, start within a bound and stop for sure."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from penstock.core.errors import PenstockError, UnavailableError, UsageError
from penstock.wiring.tether import tethered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_POLL_SECONDS = 0.05
_KILLED = frozenset({-signal.SIGKILL, -signal.SIGTERM})
"""Exit codes of what somebody else ended: its log does not know why."""
_LOG_TAIL_BYTES = 4096
_LOG_TAIL_LINES = 8
_LOG_SEARCHED_BYTES = 65_536
# As Java, MariaDB and InnoDB say it (ENOSPC is 28 on Linux).
_DISK_IS_FULL = re.compile(
    r"No space left on device|Errcode: 28\b|OS error 28\b|(?:error|error number) 28\b|Disk is full"
)

# The parent-death signal is sent when the thread that forked ends, not the
# process. All children are therefore started by this one thread, which lives
# until the interpreter ends, whichever thread asks for them.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="penstock-starter")


@dataclass(frozen=True, slots=True)
class Child:
    """A running child process. It has its own session, so that Ctrl-C in a terminal does not reach it."""

    name: str
    log: Path
    popen: subprocess.Popen[bytes] = field(repr=False)

    @property
    def pid(self) -> int:
        """Its process id, also after its end."""
        return self.popen.pid

    def alive(self) -> bool:
        """Whether it still runs."""
        return self.popen.poll() is None

    def stop(self, wait_seconds: float = 15.0, ask: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to end by the signal `ask`, wait up to `wait_seconds`, then kill it and what is left of its session.

        Safe to call twice.
        """
        if self.alive():
            self.popen.send_signal(ask)
            try:
                self.popen.wait(wait_seconds)
            except subprocess.TimeoutExpired:
                self.popen.kill()
        self._sweep()

    def kill(self) -> None:
        """End it as kill -9 would, for tests of recovery. Safe to call twice."""
        if self.alive():
            self.popen.kill()
        self._sweep()

    def _sweep(self) -> None:
        """Kill what the child itself has started (a Spark worker's executors), and collect its exit status."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.popen.wait()


def start_child(
    name: str,
    command: Sequence[str],
    log: Path,
    environment: Mapping[str, str] | None = None,
    *,
    survives_exec: bool = False,
) -> Child:
    """Start `command`, tied to this process; its output is appended to `log`.

    `environment` is added to ours. With `survives_exec` it is tied to the thread that
    calls, which must be the main one: that is the one thread that execve(2) leaves.
    Raises UsageError when the log cannot be written.
    """
    if survives_exec and threading.current_thread() is not threading.main_thread():
        message = f"{name} would end with this thread"
        raise RuntimeError(message)
    variables = {**os.environ, **(environment or {})}
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        output = log.open("ab")
    except OSError as error:
        message = f"{name} cannot write its log {log}: {error.strerror}"
        raise UsageError(message, "free space there or correct the directory's rights") from error
    with output:
        start = partial(_start, command, output, variables)
        return Child(name, log, start() if survives_exec else _starter.submit(start).result())


def _start(command: Sequence[str], output: BinaryIO, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - what to start is our own choice
        tethered(command),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=variables,
        start_new_session=True,
    )


def wait_until_ready(child: Child, is_ready: Callable[[], bool], wait_seconds: float) -> None:
    """Return as soon as `is_ready()`; otherwise stop the child and say why, with the end of its log.

    Raises PenstockError when the child ends by itself and UnavailableError when
    `wait_seconds` pass.
    """
    deadline = time.monotonic() + wait_seconds
    try:
        while not is_ready():
            _check_start(child, deadline, wait_seconds)
            time.sleep(_POLL_SECONDS)
    except BaseException:
        # Also on Ctrl-C: a server that nobody holds must not stay behind.
        child.kill()
        raise


def run_to_end(name: str, command: Sequence[str], log: Path, wait_seconds: float) -> None:
    """Run `command` as a tied child and wait for exit code 0; else raise PenstockError with the end of its log."""
    child = start_child(name, command, log)
    try:
        code = child.popen.wait(wait_seconds)
    except subprocess.TimeoutExpired as error:
        message = f"{name} did not end within {wait_seconds:.0f} s{_said(log)}"
        raise UnavailableError(message, f"try again on a quieter machine, or read {log}") from error
    finally:
        child.kill()
    _require_not_killed(name, code, log)
    if code != 0:
        what = f"{name} failed with exit code {code}"
        raise _failed(what, log)


class KilledAtStartError(UnavailableError):
    """Somebody killed a child while it started; there is no reason why the next start should fail."""


def _check_start(child: Child, deadline: float, wait_seconds: float) -> None:
    """Raise when the child has ended or its time is up."""
    if not child.alive():
        code = child.popen.returncode
        _require_not_killed(child.name, code, child.log)
        what = f"{child.name} ended while it started (exit code {code})"
        raise _failed(what, child.log)
    if time.monotonic() > deadline:
        message = f"{child.name} was not ready after {wait_seconds:.0f} s{_said(child.log)}"
        raise UnavailableError(message, f"try again on a quieter machine, or read {child.log}")


def _require_not_killed(name: str, code: int, log: Path) -> None:
    if code in _KILLED:
        message = f"{name} was killed while it started ({signal.Signals(-code).name})"
        raise KilledAtStartError(message, f"start it again; if nobody killed it, see whether memory ran out, and {log}")


def _failed(what: str, log: Path) -> PenstockError:
    """Say why `what` happened as far as its log tells: a full disk in words, the rest by the log's last lines."""
    if _DISK_IS_FULL.search(_tail(log, _LOG_SEARCHED_BYTES)):
        message = f"{what}: the disk that holds {log.parent} is full"
        return UnavailableError(
            message, "free space there and start again: nothing is lost, it goes on where it stopped"
        )
    return PenstockError(f"{what}{_said(log)}", f"read {log}, remove the cause and try again")


def _said(log: Path) -> str:
    """The last lines of a log, indented, ready to follow a message; "" if it is empty."""
    lines = _tail(log, _LOG_TAIL_BYTES).strip().splitlines()[-_LOG_TAIL_LINES:]
    return ":\n" + "\n".join(f"    {line}" for line in lines) if lines else ", its log is empty"


def _tail(log: Path, size_bytes: int) -> str:
    with log.open("rb") as opened:
        opened.seek(max(0, log.stat().st_size - size_bytes))
        return opened.read().decode(errors="replace")
