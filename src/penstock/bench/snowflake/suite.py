"""`penstock bench snowflake`: freshness at a steady rate, our CPU, and rounds in which few tables have news."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.bench.bench import Bench
from penstock.bench.capture.latency import percentile
from penstock.bench.figure import Figure, Series
from penstock.bench.meter import Meter
from penstock.bench.snowflake.tasks import measure_tasks
from penstock.bench.snowflake.zone import SCHEDULE_SECONDS, BenchZone, Looker, Writer
from penstock.bench.versions import python_versions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.bench.bench import Measure
    from penstock.bench.lab import Lab
    from penstock.bench.snowflake.zone import Looks

_TABLES: Final = 50
_RATE: Final = 500
_WITH_NEWS: Final = 20
_ROUNDS: Final = 5
_START_SECONDS: Final = 600.0
_START_SECONDS_A_TABLE: Final = 4
_ARRIVE_SECONDS: Final = 300.0
_FRESH_SECONDS: Final = 15.0
_MILLION: Final = 1_000_000
_WARM_UP_SECONDS: Final = 10
_CHART_POINTS: Final = 120


def measure_fresh(lab: Lab) -> Sequence[Figure]:
    """COMMIT to visible in the public table, of rows over 50 tables, and CPU meanwhile."""
    tables = range(_TABLES)
    zone = BenchZone(lab, "fresh", lab.folder("fresh"), _TABLES)
    zone.make()
    child = zone.start()
    try:
        with Looker(zone, tables) as looker:
            lab.say(f"snowflake: waiting for the first rows of {_TABLES} tables")
            looker.await_rows(dict.fromkeys(tables, 0), _START_SECONDS, child.alive)
            writer = Writer(zone, tables)
            writer.write(_RATE * _WARM_UP_SECONDS, _RATE)
            writer.committed.clear()
            lab.say(f"snowflake: {_RATE} changes a second for {lab.settings.seconds} s")
            with Meter(child.pid) as ours, Meter(lab.snowflake().pid) as theirs:
                begin, rows = time.monotonic(), _RATE * lab.settings.seconds
                rate = writer.write(rows, _RATE)
                end = looker.await_rows(_newest(writer), _ARRIVE_SECONDS, child.alive)
                ours.sample()
                theirs.sample()
        zone.require_equal()
    finally:
        child.stop()
    stand_in = theirs.cpu_between(begin, end) / (end - begin)
    fresh = Fresh(rows, rate, begin, writer.committed, ours.cpu_between(begin, end), stand_in)
    return plan_figures(fresh, looker.looks)


@dataclass(frozen=True, slots=True)
class Fresh:
    """What was written from `begin` on, at which rate, and what it took: CPU seconds of ours, cores of the stand-in."""

    rows: int
    rate: float
    begin: float
    committed: Mapping[tuple[int, int], float]
    cpu_seconds: float
    stand_in_cores: float


def plan_figures(fresh: Fresh, looks: Looks) -> Sequence[Figure]:
    """What is shown of it."""
    waits = looks.waits(fresh.committed)
    waited = looks.over_time(fresh.committed, fresh.begin, _CHART_POINTS)
    chart = (Series("Penstock", waited, "the longest wait in seconds"),)
    note = f"{fresh.rate:.0f} changes a second were written; tasks run every {SCHEDULE_SECONDS} s"
    p99 = percentile(waits, 99)
    tasks = "it runs the tasks, one by one"
    return [
        Figure("COMMIT to queryable, p50", "s", "less", percentile(waits, 50), note=note),
        Figure("COMMIT to queryable, p99", "s", "less", p99, target=_FRESH_SECONDS, target_of="value", series=chart),
        Figure("our CPU for a million rows", "CPU s", "less", fresh.cpu_seconds * _MILLION / fresh.rows),
        Figure("cores that the stand-in keeps busy", "cores", "less", fresh.stand_in_cores, note=tasks),
    ]


def _newest(writer: Writer) -> Mapping[int, int]:
    """The newest row of each table."""
    return dict(sorted(writer.committed))


def measure_rounds(lab: Lab, count: int) -> Sequence[Figure]:
    """Rounds of `count` tables of which 20 have news: until all of these are visible, and our CPU."""
    tables, name = range(0, count, count // _WITH_NEWS), f"rounds{count}"
    zone = BenchZone(lab, name, lab.folder(name), count)
    zone.make()
    child = zone.start()
    try:
        with Looker(zone, range(count)) as every:
            lab.say(f"snowflake: waiting for the first rows of {count:,} tables")
            begin = time.monotonic()
            first = dict.fromkeys(range(count), 0)
            started = every.await_rows(first, count * _START_SECONDS_A_TABLE, child.alive) - begin
        seconds, cpu = [], []
        with Looker(zone, tables) as looker:
            writer = Writer(zone, tables)
            for number in range(_ROUNDS):
                lab.say(f"snowflake: round {number + 1} of {_ROUNDS}")
                with Meter(child.pid) as ours:
                    writer.committed.clear()
                    writer.write(_WITH_NEWS, _MILLION)
                    begin = min(writer.committed.values())
                    end = looker.await_rows(_newest(writer), _ARRIVE_SECONDS, child.alive)
                    ours.sample()
                seconds.append(end - begin)
                cpu.append(ours.cpu_between(begin, end))
    finally:
        child.stop()
    said = f"a round of {count:,} tables, {_WITH_NEWS} with news"
    return [
        Figure(f"{said}: COMMIT to all queryable", "s", "less", percentile(sorted(seconds), 50)),
        Figure(f"{said}: our CPU", "CPU s", "less", percentile(sorted(cpu), 50)),
        Figure(f"{count:,} tables: from the start to the first row in each", "s", "less", started),
    ]


def _versions(_: Lab) -> Mapping[str, str]:
    return python_versions(("penstock", "pyspark", "snowflake-connector-python", "psycopg"))


_PARTS: Final[Mapping[str, Measure]] = {
    "fresh": measure_fresh,
    "rounds": partial(measure_rounds, count=100),
    "thousand": partial(measure_rounds, count=1_000),
    "tasks": measure_tasks,
}
SNOWFLAKE: Final = Bench("snowflake", _PARTS, _versions, seconds=600)
