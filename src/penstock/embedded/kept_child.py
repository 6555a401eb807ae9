"""A child of this process that an earlier program of the same process has started, before execve(2)."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass

_POLL_SECONDS = 0.05


@dataclass(slots=True)
class KeptChild:
    """Known by its number alone, which stays its own until we have asked for its exit status."""

    pid: int
    _has_ended: bool = False

    def alive(self) -> bool:
        """Whether it is our child, and runs."""
        if not self._has_ended:
            try:
                self._has_ended = os.waitpid(self.pid, os.WNOHANG) != (0, 0)
            except ChildProcessError:
                self._has_ended = True
        return not self._has_ended

    def stop(self, wait_seconds: float) -> None:
        """Ask it to end, wait up to `wait_seconds`, then kill it. Safe to call twice."""
        if not self.alive():
            return
        os.kill(self.pid, signal.SIGTERM)
        until = time.monotonic() + wait_seconds
        while self.alive():
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
                with suppress(ChildProcessError):
                    os.waitpid(self.pid, 0)
                return
            time.sleep(_POLL_SECONDS)
