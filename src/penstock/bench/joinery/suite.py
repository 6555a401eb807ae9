"""`penstock bench joinery`: the same events joined by our kernel and by Flink, one after the other."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.bench.bench import Bench
from penstock.bench.figure import Better, Figure
from penstock.bench.joinery.events import join_events
from penstock.bench.joinery.large import measure_state
from penstock.bench.marks import await_mark
from penstock.bench.meter import Meter
from penstock.bench.peers.flink_join import FlinkJoin, compile_flink_join, flink_command
from penstock.bench.versions import jar_versions, java_version, python_versions
from penstock.core.errors import PenstockError
from penstock.embedded.jars import JarSet
from penstock.embedded.processes import start_child

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from penstock.bench.lab import Lab

_EVENTS_PER_KEY: Final = 10
_FURTHER: Final = 3
_SLOTS: Final = 2
_PAIR: Final = 2
_COMMIT_MS: Final = 5000
_WAIT_SECONDS: Final = 3600.0
_MILLION: Final = 1_000_000
_MEBIBYTE: Final = 1 << 20
_MARKS: Final = ("joined", "commits", "bytes")
_FIRST_MTIME: Final = 1_700_000_000
_TARGET_START, _TARGET_FURTHER = 1 / 0.65, 2.0


@dataclass(frozen=True, slots=True)
class Joined:
    """What one side took for `events`, its start included; `rows` are what the result has at the end."""

    events: int
    rows: int
    commits: int
    cpu_seconds: float
    seconds: float
    checkpoint_bytes: int
    memory_bytes: int


def measure(lab: Lab, inputs: int) -> Sequence[Figure]:
    """CPU of both sides, their starts included, and of each further million; speed, and what checkpoints take."""
    rows = lab.settings.rows
    theirs: Sequence[Joined] | PenstockError
    try:
        class_path = compile_flink_join(lab.folder(f"flink-{inputs}"))
        theirs = [_flink(lab, class_path, events, inputs) for events in (rows, _FURTHER * rows)]
    except PenstockError as error:
        theirs = error
    mine: list[Joined] = []
    for number, events in enumerate((rows, _FURTHER * rows)):
        lab.say(f"joinery: ours, {inputs} inputs, {events:,} events")
        # As many commits as the peer made.
        commits = events * 8 // _MILLION if isinstance(theirs, PenstockError) else theirs[number].commits
        mine.append(_ours(lab, events, inputs, max(1, commits)))
    if not isinstance(theirs, PenstockError):
        _require_equal(mine, theirs)
    return plan_figures(inputs, mine, theirs)


def _flink(lab: Lab, class_path: str, events: int, inputs: int) -> Joined:
    lab.say(f"joinery: Flink, {inputs} inputs, {events:,} events")
    folder = lab.folder(f"flink-{inputs}-{events}")
    join = FlinkJoin(events, _keys(events), inputs, _SLOTS, _COMMIT_MS)
    return _run("Flink", flink_command(class_path, join, folder), folder, events)


def _keys(events: int) -> int:
    return max(1, events // _EVENTS_PER_KEY)


def _ours(lab: Lab, events: int, inputs: int, commits: int) -> Joined:
    folder = lab.folder(f"ours-{inputs}-{events}")
    _write_events(folder / "events", events, inputs, commits)
    command = [sys.executable, "-m", "penstock.bench.programs.join_events", *map(str, (folder, inputs, _SLOTS))]
    return _run("our join", command, folder, events)


def _write_events(folder: Path, events: int, inputs: int, commits: int) -> None:
    """A file for each task of each micro-batch; Spark reads them in the order of their times."""
    folder.mkdir()
    files, keys = commits * _SLOTS, _keys(events)
    for number in range(files):
        first, last = events * number // files, events * (number + 1) // files
        file = folder / f"{number:05}.parquet"
        pq.write_table(pa.Table.from_batches([join_events(first, last - first, events, keys, inputs)]), file)
        os.utime(file, (_FIRST_MTIME + number // _SLOTS, _FIRST_MTIME + number // _SLOTS))


def _run(name: str, command: Sequence[str], folder: Path, events: int) -> Joined:
    """Measure a program from its start to its end."""
    child = start_child(name, command, folder / "log")
    try:
        with Meter(child.pid) as meter:
            begin = time.monotonic()
            rows, commits, size = (int(await_mark(child, mark, _WAIT_SECONDS)) for mark in _MARKS)
            meter.sample()
            end = time.monotonic()
            cpu, seconds = meter.cpu_between(begin, end), end - begin
    finally:
        child.kill()
    return Joined(events, rows, commits, cpu, seconds, size, sum(peak.peak_bytes for peak in meter.peaks()))


def _require_equal(mine: Sequence[Joined], theirs: Sequence[Joined]) -> None:
    for ours, flink in zip(mine, theirs, strict=True):
        if ours.rows != flink.rows:
            message = f"of {ours.events} events we made {ours.rows} rows, and Flink {flink.rows}"
            raise PenstockError(message, "this is a mistake in the bench or in the join: report it")


def plan_figures(inputs: int, mine: Sequence[Joined], theirs: Sequence[Joined] | PenstockError) -> Sequence[Figure]:
    """What is shown of a run of some events, and of one of three times as many."""
    sides, note = [mine], ""
    if isinstance(theirs, PenstockError):
        note = f"the peer could not be measured: {theirs.message}"
    else:
        sides.append(theirs)
    peer = "Flink SQL, RocksDB" + (", multi-join" if inputs > _PAIR else "")

    def figure(name: str, unit: str, value_of: Callable[[Sequence[Joined]], float], target: float | None) -> Figure:
        values = [value_of(side) for side in sides]
        better: Better = "more" if target is None and unit == "events/s" else "less"
        return Figure(name, unit, better, values[0], peer, values[1] if values[1:] else None, target, note=note)

    few = f"{inputs} inputs, {mine[0].events:,} events"
    many = f"{inputs} inputs, {mine[-1].events:,} events"
    return [
        figure(f"{few}, start included", "CPU s", lambda side: side[0].cpu_seconds, _TARGET_START),
        figure(f"{few}, speed with start", "events/s", lambda side: side[0].events / side[0].seconds, None),
        figure(f"{inputs} inputs, each further million events", "CPU s", _further, _TARGET_FURTHER),
        figure(f"{many}, speed with start", "events/s", lambda side: side[-1].events / side[-1].seconds, None),
        figure(f"{many}, checkpoint", "MiB", lambda side: side[-1].checkpoint_bytes / _MEBIBYTE, None),
        figure(f"{many}, memory of all processes", "MiB", lambda side: side[-1].memory_bytes / _MEBIBYTE, None),
        figure(f"{many}, commits", "commits", lambda side: side[-1].commits, None),
    ]


def _further(runs: Sequence[Joined]) -> float:
    few, many = runs[0], runs[-1]
    return (many.cpu_seconds - few.cpu_seconds) * _MILLION / (many.events - few.events)


def _versions(_: Lab) -> Mapping[str, str]:
    packages = ("penstock", "pyspark", "pyarrow", "numpy")
    return {**python_versions(packages), "java": java_version(), **jar_versions(JarSet.FLINK, ["flink-runtime"])}


JOINERY: Final = Bench(
    "joinery",
    {"two": partial(measure, inputs=2), "five": partial(measure, inputs=5), "state": measure_state},
    _versions,
)
