"""`penstock bench snapshot`: a table read by the initial snapshot, and again by one that is asked for."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.bench.bench import Bench
from penstock.bench.capture.arrivals import Arrivals
from penstock.bench.capture.latency import id_of_avro, percentile, read_commits
from penstock.bench.capture.pipeline import mariadb_origin
from penstock.bench.capture.suite import CAPTURE
from penstock.bench.capture.workload import create_table, write_bulk
from penstock.bench.figure import Figure
from penstock.bench.marks import await_mark
from penstock.bench.meter import Meter
from penstock.bench.programs.measured import Work
from penstock.bench.snapshot.sides import TABLE, Side, await_topic, debezium, ours
from penstock.core.errors import PenstockError
from penstock.embedded.processes import start_child

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.bench.lab import Lab

_WAIT_SECONDS: Final = 1800.0
_LIVE_SECONDS: Final = 600.0
_RATE: Final = 500
_ASK_AFTER_SECONDS: Final = 2.0
_AGAIN: Final = "snapshot of a running pipeline"
_CPU_TIMES: Final = 5.0
_MEBIBYTE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Read:
    """What reading the table took: at first, and again while nothing else changed."""

    initial: Work
    again: Work


@dataclass(frozen=True, slots=True)
class Live:
    """What live changes and memory were like while the table was read again."""

    lag_p99_seconds: float
    lag_max_seconds: float
    memory_bytes: int
    rows_per_second: float


def measure(lab: Lab) -> Sequence[Figure]:
    """Rows per CPU second and per second of both sides; lag and memory of ours while changes flow."""
    create_table(lab.source(), TABLE)
    lab.say(f"snapshot: writing {lab.settings.rows:,} rows")
    write_bulk(lab.source(), TABLE, lab.settings.rows)
    theirs: Read | PenstockError
    try:
        lab.say("snapshot: Debezium")
        with debezium(lab) as side:
            theirs = _read(lab, side)
    except PenstockError as error:
        theirs = error
    lab.say("snapshot: ours")
    with ours(lab) as side:
        mine = _read(lab, side)
        lab.say(f"snapshot: ours, with {_RATE} changes a second")
        live = _read_under_writes(lab, side)
    return plan_figures(mine, live, theirs)


def _read(lab: Lab, side: Side) -> Read:
    rows = lab.settings.rows
    with Meter(side.pid) as meter:
        begin = time.monotonic()
        side.begin()
        await_topic(lab, side.topic, side.alive, _WAIT_SECONDS)
        with Arrivals(lab.kafka().bootstrap_servers, side.topic) as arrivals:
            arrivals.wait_for(rows, _WAIT_SECONDS, side.alive)
            meter.sample()
            initial = Work(rows, meter.cpu_between(begin, arrivals.last_at), arrivals.last_at - begin)
            before = arrivals.settled()
            begin = time.monotonic()
            side.read_again()
            arrivals.wait_for(before + rows, _WAIT_SECONDS, side.alive)
            meter.sample()
            again = Work(rows, meter.cpu_between(begin, arrivals.last_at), arrivals.last_at - begin)
    return Read(initial, again)


def _read_under_writes(lab: Lab, side: Side) -> Live:
    """Read all rows again while a writer inserts others, and see how late the latter come."""
    rows, first, commits = lab.settings.rows, 1_000_000_000, lab.home / "commits.txt"
    count = _RATE * lab.settings.seconds
    written = (*mariadb_origin(lab).login, TABLE, first, count, _RATE, commits)
    command = [sys.executable, "-m", "penstock.bench.programs.write_paced", *map(str, written)]
    with Arrivals(lab.kafka().bootstrap_servers, side.topic, keep_keys=True) as arrivals, Meter(side.pid) as meter:
        before = arrivals.settled()
        writer = start_child("the writer", command, lab.home / "writer.log")
        try:
            await_mark(writer, "begin", _LIVE_SECONDS)
            time.sleep(_ASK_AFTER_SECONDS)
            asked_at = time.monotonic()
            side.read_again()
            await_mark(writer, "rows", lab.settings.seconds + _LIVE_SECONDS)
            # Rows of the writer that are there when a chunk is read come twice.
            arrivals.wait_for(before + rows + count, _WAIT_SECONDS, side.alive)
        finally:
            writer.kill()
    committed, read_at = read_commits(commits.read_text()), asked_at
    seen: dict[int, float] = {}
    for key, at in arrivals.keys[before:]:
        row = id_of_avro(key)
        if row >= first:
            seen.setdefault(row, at)
        else:
            read_at = at
    waited = sorted(at - committed[row] for row, at in seen.items() if asked_at <= committed[row] <= read_at)
    memory = max(peak.peak_bytes for peak in meter.peaks() if peak.program.startswith("python"))
    return Live(percentile(waited, 99), waited[-1], memory, rows / (read_at - asked_at))


def plan_figures(mine: Read, live: Live, theirs: Read | PenstockError) -> Sequence[Figure]:
    """What is shown."""
    if isinstance(theirs, PenstockError):
        initial, again, note = None, None, f"the peer could not be measured: {theirs.message}"
    else:
        initial, again, note = theirs.initial, theirs.again, ""
    return [
        *_beside("initial snapshot", mine.initial, initial, note),
        *_beside(_AGAIN, mine.again, again, note, _CPU_TIMES),
        *_live(live),
    ]


def _beside(name: str, ours_: Work, theirs: Work | None, note: str, target: float | None = None) -> Sequence[Figure]:
    """CPU, which has the target, and speed."""
    peer = f"Debezium in Kafka Connect, {'incremental' if name == _AGAIN else 'initial'} snapshot"
    cpu = None if theirs is None else theirs.rows_per_cpu_second
    speed = None if theirs is None else theirs.rows / theirs.seconds
    unit = "rows per CPU second"
    return [
        Figure(f"{name}, CPU", unit, "more", ours_.rows_per_cpu_second, peer, cpu, target, note=note),
        Figure(f"{name}, speed", "rows per second", "more", ours_.rows / ours_.seconds, peer, speed, note=note),
    ]


def _live(live: Live) -> Sequence[Figure]:
    name = f"snapshot with {_RATE} changes a second"
    memory = live.memory_bytes / _MEBIBYTE
    note = f"the longest {live.lag_max_seconds:.2f} s; {live.rows_per_second:,.0f} rows per second meanwhile"
    return [
        Figure(f"{name}, lag p99", "s", "less", live.lag_p99_seconds, target=3, target_of="value", note=note),
        Figure(f"{name}, largest Python process", "MiB", "less", memory, target=500, target_of="value"),
    ]


SNAPSHOT: Final = Bench("snapshot", {"snapshot": measure}, CAPTURE.versions)
