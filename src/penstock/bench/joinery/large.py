"""A join whose state is large: what it takes in memory and on the disk, and how long it takes to go on with it."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.bench.figure import Figure
from penstock.bench.joinery.events import state_events
from penstock.bench.marks import await_mark
from penstock.bench.meter import Meter
from penstock.core.errors import PenstockError
from penstock.embedded.processes import start_child

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.bench.lab import Lab

_FILE_ROWS: Final = 100_000
_FILES_AT_ONCE: Final = 2
_INPUTS: Final = 2
_MORE_ROWS: Final = 1_000
_WAIT_SECONDS: Final = 7200.0
_MEBIBYTE: Final = 1 << 20
_MILLION: Final = 1_000_000
_FIRST_MTIME: Final = 1_700_000_000
_HEAP_TARGET_MIB, _RESTART_TARGET_SECONDS = 2048.0, 60.0


def measure_state(lab: Lab) -> Sequence[Figure]:
    """Join so many rows that stay, stop, and go on with a few more. Raises PenstockError if rows are missing then."""
    rows, folder = lab.settings.rows, lab.folder("state")
    lab.say(f"joinery: a state of {rows:,} rows")
    write_rows(folder / "events", 0, rows)
    child = start_child("our join", _command(folder), folder / "log")
    try:
        with Meter(child.pid) as meter:
            begin = time.monotonic()
            heap, size = (await_mark(child, mark, _WAIT_SECONDS) for mark in ("heap", "bytes"))
            meter.sample()
            cpu = meter.cpu_between(begin, time.monotonic())
            memory = max(peak.peak_bytes for peak in meter.peaks())
    finally:
        child.kill()
    lab.say("joinery: again, with that state")
    write_rows(folder / "events", rows, _MORE_ROWS)
    restarted, heap_again = restart(folder)
    return plan_state_figures(rows, cpu, (max(heap, heap_again), memory, size), restarted)


def plan_state_figures(
    rows: int, cpu_seconds: float, memory: tuple[float, float, float], restart_seconds: float
) -> Sequence[Figure]:
    """What is shown; `memory` has the heap, the largest process and the checkpoint, in bytes."""
    heap, process, size = (each / _MEBIBYTE for each in memory)
    about = f"a state of {rows:,} rows"
    return [
        Figure(f"{about}: heap that is held on to", "MiB", "less", heap, target=_HEAP_TARGET_MIB, target_of="value"),
        Figure(f"{about}: memory of the largest process", "MiB", "less", process),
        Figure(f"{about}: checkpoint", "MiB", "less", size),
        Figure(f"{about}: CPU for each million of them", "CPU s", "less", cpu_seconds * _MILLION / rows),
        Figure(
            f"{about}: start until the first micro-batch is joined",
            "s",
            "less",
            restart_seconds,
            target=_RESTART_TARGET_SECONDS,
            target_of="value",
        ),
    ]


def write_rows(folder: Path, first: int, count: int) -> None:
    """Files of rows, behind those that are there; Spark reads them in the order of their times."""
    folder.mkdir(exist_ok=True)
    number = len(list(folder.iterdir()))
    for start in range(first, first + count, _FILE_ROWS):
        events = state_events(start, min(_FILE_ROWS, first + count - start))
        file = folder / f"{number:05}.parquet"
        pq.write_table(pa.Table.from_batches([events]), file)
        os.utime(file, (_FIRST_MTIME + number, _FIRST_MTIME + number))
        number += 1


def restart(folder: Path) -> tuple[float, float]:
    """Start the join again; return the seconds until it has joined something, and its heap in bytes at the end."""
    began = time.monotonic()
    child = start_child("our join", _command(folder), folder / "log-again")
    try:
        if await_mark(child, "first", _WAIT_SECONDS) == 0:
            message = "the join began anew, without its state"
            raise PenstockError(message, "this is a mistake in the bench or in the join: report it")
        seconds = time.monotonic() - began
        return seconds, await_mark(child, "heap", _WAIT_SECONDS)
    finally:
        child.kill()


def _command(folder: Path) -> Sequence[str]:
    words = map(str, (folder, _INPUTS, _FILES_AT_ONCE))
    return [sys.executable, "-m", "penstock.bench.programs.join_events", *words]
