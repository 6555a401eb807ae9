"""Two instances of a pipeline, as a supervisor keeps them: one leads, one stands by, and who ends is started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.config.crash_points import VARIABLE
from penstock.core.errors import PenstockError
from penstock.embedded.processes import Child, start_child

if TYPE_CHECKING:
    from pathlib import Path

_POLL_SECONDS: Final = 0.2
_LEAD_SECONDS: Final = 300.0
_HEAD_START_SECONDS: Final = 60.0
_LEADS: Final = "running; Ctrl-C ends it"
_WORKER: Final = "pyspark.worker"


@dataclass(frozen=True, slots=True)
class Instance:
    """One `penstock run` with a log of its own."""

    file: Path
    child: Child
    started_at: float

    @property
    def home(self) -> Path:
        """Where it keeps what is its own."""
        return self.file.with_suffix("")

    def leads(self) -> bool:
        """Whether it runs the pipeline."""
        return self.child.alive() and _LEADS in self.child.log.read_text(errors="replace")

    def is_starting(self) -> bool:
        """Whether it is new and does not lead yet."""
        return not self.leads() and time.monotonic() - self.started_at < _HEAD_START_SECONDS

    def processes(self) -> dict[int, str]:
        """Each of its processes and its command line: the driver, Spark's JVM, Python workers."""
        # PySpark's daemons have process groups of their own; the session is the instance's.
        listed = subprocess.run(["/bin/ps", "-eo", "pid=,sess=,args="], capture_output=True, text=True, check=True)
        found = (line.split(None, 2) for line in listed.stdout.splitlines())
        return {int(words[0]): words[2] for words in found if int(words[1]) == self.child.pid}

    def workers(self) -> list[int]:
        """Its Python workers and the daemon that forks them."""
        return [pid for pid, command in self.processes().items() if _WORKER in command and "java" not in command]

    def jvm(self) -> int | None:
        """Spark's JVM."""
        return next((pid for pid, command in self.processes().items() if "SparkSubmit" in command), None)

    def signal(self, number: int) -> None:
        """Send a signal to every process of it."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """End all of it as kill -9 would."""
        self.signal(signal.SIGKILL)
        self.child.kill()


class Instances:
    """The instances of one pipeline, each with a file (and so a home) of its own."""

    def __init__(self, files: tuple[Path, ...]) -> None:
        """Start one instance per file; the first to come leads."""
        self._files = files
        self._armed = files[0].with_name("crash_at")
        self._started = 0
        self._running: list[Instance] = []
        self.keep_running()

    def keep_running(self) -> None:
        """Start those again that have ended; a second one gives the first a head start, which it would slow down."""
        running = []
        for instance in self._running:
            if instance.child.alive():
                running.append(instance)
            else:
                instance.kill()
        self._running = running
        for file in self._files:
            is_missing = not any(instance.file == file for instance in self._running)
            if is_missing and not any(instance.is_starting() for instance in self._running):
                self._running.append(self._start(file))

    def leader(self) -> Instance:
        """Whoever leads; waits for one, keeping both running. Raises PenstockError where nobody comes to lead."""
        deadline = time.monotonic() + _LEAD_SECONDS
        while time.monotonic() < deadline:
            self.keep_running()
            leading = [instance for instance in self._running if instance.leads()]
            if leading:
                return leading[-1]
            time.sleep(_POLL_SECONDS)
        message = f"nobody leads the pipeline for {_LEAD_SECONDS:.0f} s"
        raise PenstockError(message, f"read the logs beside {self._files[0]}")

    def arm(self, point: str) -> None:
        """Tell whichever process comes by `point` next to end itself there."""
        part = self._armed.with_suffix(".part")
        part.write_text(point)
        part.replace(self._armed)

    def is_armed(self) -> bool:
        """Whether nobody has come by yet."""
        return self._armed.exists()

    def disarm(self) -> None:
        """Let everybody pass again."""
        self._armed.unlink(missing_ok=True)

    def stop(self) -> None:
        """End them all as kill -9 would."""
        for instance in self._running:
            instance.kill()
        self._running = []

    def _start(self, file: Path) -> Instance:
        self._started += 1
        command = [sys.executable, "-m", "penstock.cli.main", "run", str(file), "--standby"]
        log = file.with_name(f"{file.stem}-{self._started:03}.log")
        environment = {VARIABLE: str(self._armed)}
        return Instance(file, start_child("penstock run", command, log, environment), time.monotonic())
