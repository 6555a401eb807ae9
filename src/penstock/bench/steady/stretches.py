"""Stretches of steady writing, and what a side took to carry each."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.bench.capture.latency import percentile, read_commits
from penstock.bench.capture.pipeline import mariadb_origin
from penstock.bench.marks import await_mark
from penstock.bench.meter import Meter
from penstock.bench.process_tree import tree_held
from penstock.embedded.processes import start_child

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from penstock.bench.capture.latency import Ids
    from penstock.bench.lab import Lab
    from penstock.bench.steady.visible import Visible
    from penstock.core.tables import TableId

RATES: Final = (5, 200, 1_000)
_WARM_UP_SECONDS: Final = 30
"""The broker is a fresh one, whose JVM compiles for longer than this; some of that falls into what is measured."""
START_SECONDS: Final = 180.0
"""How long a side may take to its first row."""
_REST_SECONDS: Final = 5.0
_ARRIVE_SECONDS: Final = 120.0
_WRITER_SECONDS: Final = 120.0
_MILLISECONDS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Side:
    """One of those who carry `table`: the process whose tree is counted, and where its rows are seen.

    `folder` is its own: the marks of a writer are never those of another side.
    """

    name: str
    pid: int
    alive: Callable[[], bool]
    visible: Visible
    table: TableId
    folder: Path


@dataclass(frozen=True, slots=True)
class Stretch:
    """Cores that were busy, the broker's and PostgreSQL's beside them; milliseconds from COMMIT to visible."""

    cores: float
    broker_cores: float
    target_cores: float
    p50_ms: float | None = None
    p99_ms: float | None = None


@dataclass(slots=True)
class Steady:
    """What came of a side: a stretch for each rate, 0 for idle; memory (PSS) behind them, and its start."""

    stretches: dict[int, Stretch] = field(default_factory=dict)
    memory_mebibytes: float = 0.0
    first_row_seconds: float = 0.0


def measure_side(lab: Lab, side: Side, ids: Ids, first_row_seconds: float, rates: Sequence[int] = RATES) -> Steady:
    """Measure a stretch for each of `rates`, of the setting `seconds`; the side runs, and has brought a first row."""
    steady = Steady(first_row_seconds=first_row_seconds)
    write_steadily(lab, side, ids, RATES[1], _WARM_UP_SECONDS)
    time.sleep(_REST_SECONDS)
    lab.say(f"steady: {side.name}, idle")
    steady.stretches[0] = _idle(lab, side)
    for rate in rates:
        lab.say(f"steady: {side.name}, {rate:,} a second")
        steady.stretches[rate] = write_steadily(lab, side, ids, rate, lab.settings.seconds)
        time.sleep(_REST_SECONDS)
    steady.memory_mebibytes = tree_held(side.pid).pss_bytes / (1 << 20)
    return steady


def _idle(lab: Lab, side: Side) -> Stretch:
    with ExitStack() as opened:
        meters = [opened.enter_context(Meter(pid)) for pid in _counted(lab, side)]
        begin = time.monotonic()
        time.sleep(lab.settings.seconds)
        end = time.monotonic()
        for meter in meters:
            meter.sample()
    return Stretch(*(meter.cpu_between(begin, end) / (end - begin) for meter in meters))


def write_steadily(lab: Lab, side: Side, ids: Ids, rate: int, seconds: int) -> Stretch:
    """Write rows at `rate` and wait until the last is visible."""
    count = rate * seconds
    first = ids.take(count)
    commits = side.folder / f"commits-{first}.txt"
    command = (*mariadb_origin(lab).login, side.table, first, count, rate, commits)
    program = [sys.executable, "-m", "penstock.bench.programs.write_paced", *map(str, command)]
    with ExitStack() as opened:
        meters = [opened.enter_context(Meter(pid)) for pid in _counted(lab, side)]
        writer = start_child("the writer", program, side.folder / f"writer-{first}.log")
        opened.callback(writer.kill)
        await_mark(writer, "rows", seconds * 5 + _WRITER_SECONDS)
        begin, end = (await_mark(writer, mark, 1.0) for mark in ("begin", "end"))
        side.visible.await_id(first + count - 1, _ARRIVE_SECONDS, side.alive)
    committed = read_commits(commits.read_text())
    waited = sorted((side.visible.seen[id_] - at) * _MILLISECONDS for id_, at in committed.items())
    cores, broker, target = (meter.cpu_between(begin, end) / (end - begin) for meter in meters)
    return Stretch(cores, broker, target, percentile(waited, 50), percentile(waited, 99))


def _counted(lab: Lab, side: Side) -> tuple[int, int, int]:
    """The processes whose trees are counted, in the order of a stretch's cores."""
    return side.pid, lab.kafka().pid, lab.postgres().pid
