"""A long stretch of steady writing: whether memory, threads and files stay what they are.

Memory is that which belongs to no file: the rest depends on who else has the same files mapped.
Files are deleted a tenth of the stretch after they were written, and at the soonest when
the pipeline looks for old ones (every five minutes): a stretch of less than half an hour
says little about them.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Final

from penstock.bench.beside import Beside
from penstock.bench.capture.latency import Ids
from penstock.bench.figure import Figure, Series
from penstock.bench.process_tree import tree_held
from penstock.bench.steady.ours import carrying
from penstock.bench.steady.stretches import write_steadily

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.bench.lab import Lab
    from penstock.bench.steady.stretches import Stretch

_RATE: Final = 200
_LOOKS: Final = 60
_HOUR_SECONDS: Final = 3_600
_GROWTH_MAX: Final = 1.05
_MEBIBYTE: Final = 1 << 20
_MEASURES: Final = {"memory": "MiB", "threads": "threads", "open files": "files", "files in the store": "files"}


@dataclass(slots=True)
class Watched:
    """What was seen, as (seconds since the beginning, a value for each of `_MEASURES`), oldest first."""

    looks: list[tuple[float, dict[str, float]]] = field(default_factory=list)

    def quarters(self, measure: str) -> tuple[float, float]:
        """The averages of a measure over the second and over the last quarter; needs eight looks."""
        values = [look[measure] for _, look in self.looks]
        quarter = len(values) // 4
        return fmean(values[quarter : 2 * quarter]), fmean(values[-quarter:])


class Watch(Beside):
    """Looks at a process tree, and at a folder of files, every so often while a `with` block lasts."""

    def __init__(self, pid: int, files: Path, every_seconds: float) -> None:
        """Look at nothing yet."""
        self.seen = Watched()
        self._pid = pid
        self._files = files
        self._every_seconds = every_seconds
        super().__init__("watch")

    def _end(self) -> None:
        """See `Beside`: nothing is left to do."""

    def _run(self) -> None:
        begin = time.monotonic()
        while not self._stopping.wait(self._every_seconds):
            held = tree_held(self._pid)
            files = sum(len(names) for _, _, names in os.walk(self._files))
            values = (held.own_bytes / _MEBIBYTE, held.threads, held.open_files, files)
            self.seen.looks.append((time.monotonic() - begin, dict(zip(_MEASURES, values, strict=True))))


def measure_long(lab: Lab) -> Sequence[Figure]:
    """Write for the setting `seconds` into PostgreSQL and DuckDB. Raises PenstockError when that fails."""
    seconds, ids = lab.settings.seconds, Ids()
    objects = f"keep_hours: {seconds / 10 / _HOUR_SECONDS:.4f}"
    with carrying(lab, ids, "bench_steady_long", sinks=2, objects=objects) as (side, _):
        lab.say(f"steady: {side.name}, {_RATE} a second for {seconds:,} s")
        with Watch(side.pid, side.folder / "home" / "objects", seconds / _LOOKS) as watch:
            stretch = write_steadily(lab, side, ids, _RATE, seconds)
    return plan_long_figures(watch.seen, stretch)


def plan_long_figures(seen: Watched, stretch: Stretch) -> Sequence[Figure]:
    """What is shown: how much each measure of the last quarter is of the second one's, and what all of it took."""
    name = f"{_RATE} one-row transactions a second for long, into PostgreSQL and DuckDB"
    told = [_growth(name, measure, unit, seen) for measure, unit in _MEASURES.items()]
    cores = stretch.cores + stretch.broker_cores
    own = f"{stretch.cores:.3f} ours, {stretch.broker_cores:.3f} the broker's"
    return [
        *told,
        Figure(f"{name}: CPU, the broker's too", "cores busy", "less", cores, note=own),
        Figure(f"{name}: commit to visible, p50", "ms", "less", stretch.p50_ms),
        Figure(f"{name}: commit to visible, p99", "ms", "less", stretch.p99_ms),
    ]


def _growth(name: str, measure: str, unit: str, seen: Watched) -> Figure:
    second, last = seen.quarters(measure)
    most = max(look[measure] for _, look in seen.looks)
    points = tuple((at, look[measure]) for at, look in seen.looks)
    return Figure(
        f"{name}: {measure} in the last quarter, of that in the second",
        "times",
        "less",
        last / second if second else None,
        target=_GROWTH_MAX,
        target_of="value",
        note=f"{second:,.0f} and {last:,.0f} {unit} on average, {most:,.0f} at most",
        series=(Series("Penstock", points, unit),),
    )
