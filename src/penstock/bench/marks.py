"""Marks: how a measured program says when it did what.

A mark is a line `mark NAME NUMBER` in the program's log. The number is a moment of
the machine's monotonic clock in seconds, which all processes (Java's
System.nanoTime too) share, or a count.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError, UnavailableError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.embedded.processes import Child

_POLL_SECONDS = 0.02
_TAIL_LINES = 6


def write_mark(name: str, number: float | None = None) -> None:
    """Write a mark to standard output, with this moment if no number is given."""
    sys.stdout.write(f"mark {name} {time.monotonic() if number is None else number:.6f}\n")
    sys.stdout.flush()


def read_marks(log: Path) -> dict[str, float]:
    """The marks in a log, the last of each name."""
    marks = {}
    for line in log.read_text(errors="replace").splitlines():
        words = line.split()
        if len(words) == 3 and words[0] == "mark":  # noqa: PLR2004 - mark, name, number
            marks[words[1]] = float(words[2])
    return marks


def await_mark(child: Child, name: str, wait_seconds: float) -> float:
    """Wait until `child` has written mark `name`; its number.

    Raises PenstockError when the child ends without it, UnavailableError when the time is up.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        # Asked before the log is read: what was written just before the end counts.
        alive = child.alive()
        marks = read_marks(child.log)
        if name in marks:
            return marks[name]
        if not alive:
            message = f"{child.name} ended (exit code {child.popen.returncode}): {tail(child.log)}"
            raise PenstockError(message, f"read {child.log}")
        if time.monotonic() > deadline:
            message = f"{child.name} did not come to its mark {name} within {wait_seconds:.0f} s"
            raise UnavailableError(message, f"read {child.log}, or measure fewer rows")
        time.sleep(_POLL_SECONDS)


def tail(log: Path) -> str:
    """The last lines of a log, in one."""
    return " | ".join(log.read_text(errors="replace").strip().splitlines()[-_TAIL_LINES:])
