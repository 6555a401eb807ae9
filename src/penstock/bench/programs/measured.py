"""Runs one of these programs and reads off what it used."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.bench.marks import await_mark
from penstock.bench.meter import Meter
from penstock.core.errors import PenstockError
from penstock.embedded.processes import start_child

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Work:
    """How many rows a program went through, with how many CPU seconds, and in how many seconds."""

    rows: int
    cpu_seconds: float
    seconds: float

    @property
    def cpu_per_million(self) -> float:
        """CPU seconds per million rows."""
        return self.cpu_seconds * _MILLION / self.rows

    @property
    def rows_per_cpu_second(self) -> float:
        """Rows per CPU second."""
        return self.rows / self.cpu_seconds


def measure_python(program: str, arguments: Sequence[object], log: Path, wait_seconds: float) -> Work:
    """Run `penstock.bench.programs.PROGRAM` and measure it between its marks; raises PenstockError when it fails."""
    module = f"penstock.bench.programs.{program}"
    return measure_command(program, [sys.executable, "-m", module, *map(str, arguments)], log, wait_seconds)


def measure_command(name: str, command: Sequence[str], log: Path, wait_seconds: float) -> Work:
    """Run a command that writes the marks `begin`, `end` and `rows`, and measure its tree between the first two."""
    child = start_child(name, command, log)
    try:
        with Meter(child.pid) as meter:
            rows = int(await_mark(child, "rows", wait_seconds))
            begin, end = (await_mark(child, mark, wait_seconds) for mark in ("begin", "end"))
            meter.sample()
    finally:
        child.kill()
    if not rows:
        message = f"{name} found no rows"
        raise PenstockError(message, f"read {log}")
    return Work(rows, meter.cpu_between(begin, end), end - begin)
