"""Figures: from COMMIT in the source to a reader of Kafka, at steady rates of transactions of one row.

Ours beside Debezium in Kafka Connect as it comes, and beside Debezium set up for low latency; and ours set up for it
beside the latter.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.adapters.mysql.connection import ask, connect
from penstock.bench.capture.arrivals import Arrivals
from penstock.bench.capture.debezium import NO_EXTRAS, start_following
from penstock.bench.capture.pipeline import LOW_LATENCY, BenchPipeline, await_session, mariadb_origin
from penstock.bench.capture.workload import create_table, login, without_sync
from penstock.bench.figure import Figure
from penstock.bench.marks import await_mark
from penstock.bench.meter import Meter
from penstock.bench.peers.debezium import topic_of
from penstock.core.avro.wire import FRAME_BYTES
from penstock.core.errors import PenstockError
from penstock.core.tables import TableId
from penstock.embedded.processes import start_child

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.bench.capture.pipeline import Origin
    from penstock.bench.figure import TargetOf
    from penstock.bench.lab import Lab
    from penstock.bench.peers.debezium import CapturedServer

TABLE: Final = TableId("bench_latency", "orders")
_RATES: Final = (200, 1_000)
_WARM_UP_SECONDS_MAX: Final = 10
_START_SECONDS: Final = 120.0
_COPY_SECONDS: Final = 600.0
"""The second of our sides copies what was written for the first."""
_ARRIVE_SECONDS: Final = 120.0
_MILLISECONDS: Final = 1_000
TUNED: Final = {"poll.interval.ms": "5", "producer.override.linger.ms": "0"}
DEFAULTS: Final = "Debezium in Kafka Connect, defaults"
LOW: Final = "Debezium in Kafka Connect, poll.interval.ms=5, linger.ms=0"


@dataclass(frozen=True, slots=True)
class Targets:
    """For p50 and p99 the milliseconds, or how many times the peer's; for CPU how many times the peer's."""

    p50: float | None = None
    p99: float | None = None
    p99_of: TargetOf = "value"
    cpu: float | None = None


_NONE: Final = Targets()
_AS_IT_COMES: Final = Targets(p50=30.0, p99=400.0, cpu=1.0)
_SET_UP: Final = Targets(p99=1.0, p99_of="ratio")


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds from COMMIT to arrival, how many cores were busy meanwhile, and the rate that was reached."""

    p50_ms: float
    p99_ms: float
    cores: float
    rate: float


Theirs: TypeAlias = Mapping[int, Times] | PenstockError
"""A peer's times by rate, or why there are none."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One of those who carry the rows: its process, its topic, and how its keys tell the row's id."""

    name: str
    pid: int
    alive: Callable[[], bool]
    topic: str
    read_key: Callable[[bytes], int]
    origin: Origin | None = None
    """Where rows are written: the lab's MariaDB, unless it is another."""


def measure(lab: Lab) -> Sequence[Figure]:
    """p50, p99 and busy cores at each rate, beside each of the two peers; and set up for low latency, beside one."""
    create_table(lab.source(), TABLE)
    ids = Ids()
    with closing(connect(login(lab.source()))) as connection, without_sync(connection):
        ours, tuned = (measure_ours(lab, ids, is_low_latency=tuned) for tuned in (False, True))
        peers: dict[str, Theirs] = {
            DEFAULTS: measure_debezium(lab, ids, "latency-debezium", NO_EXTRAS),
            LOW: measure_debezium(lab, ids, "latency-debezium-tuned", TUNED),
        }
        ask(connection, f"DROP DATABASE {TABLE.schema}")
    return plan_figures(ours, tuned, peers)


@dataclass(slots=True)
class Ids:
    """The next row's id: every row of the table gets its own."""

    following: int = 1

    def take(self, count: int) -> int:
        """The first of the next `count`."""
        first, self.following = self.following, self.following + count
        return first


def measure_ours(lab: Lab, ids: Ids, *, is_low_latency: bool, origin: Origin | None = None) -> Mapping[int, Times]:
    """Our side's times by rate, as it comes or set up for low latency, from MariaDB unless there is another origin."""
    name = "bench_latency_tuned" if is_low_latency else "bench_latency"
    pipeline = BenchPipeline(lab, name, TABLE, lab.folder(name), is_low_latency=is_low_latency, origin=origin)
    pipeline.write_file()
    lab.say(f"latency: starting {pipeline.name}")
    pipeline.run_once("first.log", _COPY_SECONDS)
    child = pipeline.start("run.log", once=False)
    try:
        await_session(child)
        side = _Side(pipeline.name, child.pid, child.alive, pipeline.topic, id_of_avro, origin)
        return _measure_rates(lab, ids, side)
    finally:
        child.stop()


def measure_debezium(
    lab: Lab,
    ids: Ids,
    name: str,
    extras: Mapping[str, str],
    captured: tuple[Origin, CapturedServer] | None = None,
) -> Theirs:
    """Debezium's times by rate, or why there are none."""
    origin, server = captured or (None, None)
    lab.say(f"latency: starting {name}")
    try:
        with start_following(lab, TABLE, name, extras, server) as worker:
            side = _Side(name, worker.pid, worker.alive, topic_of(TABLE), id_of_json, origin)
            return _measure_rates(lab, ids, side)
    except PenstockError as error:
        return error


def _measure_rates(lab: Lab, ids: Ids, side: _Side) -> Mapping[int, Times]:
    warm_up = min(_WARM_UP_SECONDS_MAX, lab.settings.seconds)
    _measure_rate(lab, ids, side, _RATES[0], warm_up)
    return {rate: _measure_rate(lab, ids, side, rate, lab.settings.seconds) for rate in _RATES}


def _measure_rate(lab: Lab, ids: Ids, side: _Side, rate: int, seconds: int) -> Times:
    lab.say(f"latency: {side.name}, {rate} transactions a second for {seconds} s")
    count = rate * seconds
    first = ids.take(count)
    origin = side.origin or mariadb_origin(lab)
    commits = lab.home / f"commits-{first}.txt"
    command = (*origin.login, TABLE, first, count, rate, commits)
    module = "penstock.bench.programs.write_paced"
    with Arrivals(lab.kafka().bootstrap_servers, side.topic, keep_keys=True) as arrivals, Meter(side.pid) as meter:
        before = arrivals.settled()
        log = lab.home / f"writer-{first}.log"
        writer = start_child("the writer", [sys.executable, "-m", module, *map(str, command)], log)
        try:
            await_mark(writer, "rows", seconds * 5 + _START_SECONDS)
            begin, end = (await_mark(writer, mark, 1.0) for mark in ("begin", "end"))
            arrivals.wait_for(before + count, _ARRIVE_SECONDS, side.alive)
        finally:
            writer.kill()
    committed = read_commits(commits.read_text())
    waited = sorted((at - committed[key]) * _MILLISECONDS for key, at in _arrived(arrivals, before, side))
    cores = meter.cpu_between(begin, end) / (end - begin)
    return Times(percentile(waited, 50), percentile(waited, 99), cores, count / (end - begin))


def _arrived(arrivals: Arrivals, before: int, side: _Side) -> list[tuple[int, float]]:
    return [(side.read_key(key), at) for key, at in arrivals.keys[before:]]


def read_commits(text: str) -> dict[int, float]:
    """When each id was committed, from what the writer wrote down."""
    pairs = (line.split() for line in text.splitlines())
    return {int(key): float(at) for key, at in pairs}


def percentile(ranked: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile of sorted values, of which there is at least one."""
    return ranked[max(0, math.ceil(len(ranked) * percent / 100) - 1)]


def id_of_avro(key: bytes) -> int:
    """A key of ours: the frame, then the id as Avro's zigzag varint (Avro specification, "Binary Encoding")."""
    zigzag = 0
    for place, octet in enumerate(key[FRAME_BYTES:]):
        zigzag |= (octet & 0x7F) << 7 * place
    return zigzag >> 1 ^ -(zigzag & 1)


def id_of_json(key: bytes) -> int:
    """A key of Debezium's: a JSON object."""
    return int(json.loads(key)["id"])


def plan_figures(
    ours: Mapping[int, Times], tuned: Mapping[int, Times], peers: Mapping[str, Theirs]
) -> Sequence[Figure]:
    """What is shown of the times by rate: ours beside each peer, ours set up for low latency beside the tuned one."""
    told: list[Figure] = []
    for peer, theirs in peers.items():
        told += plan_beside(ours, peer, theirs, _AS_IT_COMES if peer == DEFAULTS else _NONE)
    for rate in _RATES:
        name = f"commit to Kafka at {rate:,} one-row transactions a second, {LOW_LATENCY}"
        told += _figures(name, tuned[rate], LOW, _at(rate, peers[LOW]), _SET_UP)
    return told


def plan_beside(ours: Mapping[int, Times], peer: str, theirs: Theirs, targets: Targets) -> Sequence[Figure]:
    """What is shown of the times by rate beside one peer."""
    told: list[Figure] = []
    for rate in _RATES:
        name = f"commit to Kafka at {rate:,} one-row transactions a second"
        told += _figures(name, ours[rate], peer, _at(rate, theirs), targets)
    return told


def _at(rate: int, theirs: Theirs) -> Times | PenstockError:
    return theirs if isinstance(theirs, PenstockError) else theirs[rate]


def _figures(name: str, ours: Times, peer: str, theirs: Times | PenstockError, targets: Targets) -> Sequence[Figure]:
    if isinstance(theirs, PenstockError):
        p50 = p99 = cores = None
        note = f"the peer could not be measured: {theirs.message}"
    else:
        p50, p99, cores = theirs.p50_ms, theirs.p99_ms, theirs.cores
        note = f"the writer reached {ours.rate:.0f}/s and {theirs.rate:.0f}/s"
    return [
        Figure(f"{name}, p50", "ms", "less", ours.p50_ms, peer, p50, targets.p50, "value", note),
        Figure(f"{name}, p99", "ms", "less", ours.p99_ms, peer, p99, targets.p99, targets.p99_of, note),
        Figure(f"{name}, CPU", "cores busy", "less", ours.cores, peer, cores, targets.cpu, note=note),
    ]
