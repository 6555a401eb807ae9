"""Services that go on running after the command that started them: up, down and status.

All state is under one directory (./.penstock/dev): SERVICE.json has the facts
of a running service, SERVICE.lock is held by its supervisor, SERVICE.out has
what the supervisor said, and SERVICE/ keeps the service's data.
"""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError, UnavailableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.dev.services import Service

_START_SECONDS = 600.0
_STOP_SECONDS = 60.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Background:
    """The services that are kept under `directory`."""

    directory: Path

    def up(self, service: Service, port: int | None = None) -> Mapping[str, str | int]:
        """Start `service` unless it runs; its facts.

        Raises what starting it raises, as UsageError or PenstockError.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        running = self.status(service)
        if running is not None:
            if port is not None and running["port"] != port:
                message = f"{service.value} runs already, on port {running['port']}"
                raise UsageError(message, f"type: penstock dev down {service.value}")
            return running
        return self._start(service, port)

    def down(self, service: Service) -> bool:
        """Stop `service` and wait until it has ended; False if it did not run. Its data stays."""
        if not self._is_held(service):
            return False
        facts = self.status(service)
        if facts is None:
            message = f"{service.value} is just starting or stopping"
            raise UnavailableError(message, "try again in some seconds")
        os.kill(int(facts["supervisor"]), signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while self._is_held(service):
            if time.monotonic() > deadline:
                message = f"{service.value} did not stop within {_STOP_SECONDS:.0f} s"
                raise UnavailableError(message, f"type: kill {facts['supervisor']} {facts['pid']}")
            time.sleep(_POLL_SECONDS)
        return True

    def status(self, service: Service) -> Mapping[str, str | int] | None:
        """The facts of `service` if it runs and is ready, else None."""
        if not self._is_held(service):
            return None
        try:
            facts: dict[str, str | int] = json.loads((self.directory / f"{service.value}.json").read_text())
        except FileNotFoundError:
            return None
        return facts

    def _start(self, service: Service, port: int | None) -> Mapping[str, str | int]:
        """Start a supervisor and wait for its one line."""
        arguments = [service.value, str(self.directory.resolve()), *([str(port)] if port is not None else [])]
        with (self.directory / f"{service.value}.out").open("wb") as errors:
            supervisor = subprocess.Popen(  # noqa: S603 - our own module, with a service's name and a directory
                [sys.executable, "-m", "penstock.dev.supervisor", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        try:
            line = _read_line(supervisor, _START_SECONDS)
        except BaseException:
            # Also on Ctrl-C: a service that nobody knows of must not stay behind.
            supervisor.terminate()
            raise
        return self._facts_of(service, line)

    def _facts_of(self, service: Service, line: bytes) -> Mapping[str, str | int]:
        """The facts in a supervisor's line; raises the error in it, or one of our own if there is no line."""
        if not line:
            message = f"{service.value} could not be started"
            raise PenstockError(message, f"read {self.directory / service.value}.out")
        answer = json.loads(line)
        if "error" not in answer:
            facts: dict[str, str | int] = answer["facts"]
            return facts
        error = answer["error"]
        kind = UsageError if error["exit_code"] == UsageError.exit_code else PenstockError
        raise kind(error["message"], error["hint"])

    def _is_held(self, service: Service) -> bool:
        """Whether a supervisor has the service's lock."""
        lock = self.directory / f"{service.value}.lock"
        if not lock.exists():
            return False
        with lock.open("r") as opened:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False


def _read_line(process: subprocess.Popen[bytes], wait_seconds: float) -> bytes:
    """The first line of a process, b"" if it ends without one; UnavailableError if `wait_seconds` pass."""
    assert process.stdout is not None  # noqa: S101 - it was started with a pipe
    with process.stdout as stdout, selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        if not selector.select(wait_seconds):
            message = f"a service was not ready after {wait_seconds:.0f} s"
            raise UnavailableError(message, "try again on a quieter machine")
        return stdout.readline()
