"""Figure and chart: a backlog is carried while writes go on, beside Debezium in Kafka Connect."""

from __future__ import annotations

import sys
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from penstock.adapters.mysql.connection import ask, connect
from penstock.bench.capture.arrivals import Arrivals
from penstock.bench.capture.debezium import start_following
from penstock.bench.capture.pipeline import BenchPipeline, mariadb_origin
from penstock.bench.capture.workload import create_table, login, write_bulk
from penstock.bench.figure import Figure, Series
from penstock.bench.peers.debezium import topic_of
from penstock.core.errors import PenstockError, UnavailableError
from penstock.core.tables import TableId
from penstock.embedded.processes import start_child

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.bench.lab import Lab

_TABLE: Final = TableId("bench_catchup", "orders")
_PEER: Final = "Debezium in Kafka Connect, JSON"
_FILES: Final = 6
_RATE: Final = 500
"""Transactions of one row a second. With fewer rows behind than that, a side has caught up."""
_SAMPLE_SECONDS: Final = 0.5
_WAIT_SECONDS: Final = 1800.0
_START_SECONDS: Final = 120.0


def measure(lab: Lab) -> Sequence[Figure]:
    """Seconds until a side is less than a second behind, and how far behind it was all the while.

    Ours begins with `penstock run`, Spark's start included; Debezium's worker runs, and its connector is resumed.
    """
    create_table(lab.source(), _TABLE)
    ours = _measure_ours(lab)
    note = f"a backlog of {lab.settings.rows:,} rows in {_FILES} files, and {_RATE} transactions of one row a second"
    series: tuple[Series, ...] = (ours,)
    peer_value = None
    try:
        theirs = _measure_debezium(lab)
    except PenstockError as error:
        note = f"the peer could not be measured: {error.message}"
    else:
        series, peer_value = (ours, theirs), theirs.points[-1][0]
    name = "catching up while writes go on, start-up of Spark included"
    return [Figure(name, "seconds", "less", ours.points[-1][0], _PEER, peer_value, note=note, series=series)]


def _measure_ours(lab: Lab) -> Series:
    pipeline = BenchPipeline(lab, _TABLE.schema, _TABLE, lab.folder("catchup-ours"))
    pipeline.write_file()
    lab.say("catchup: starting ours on an empty table")
    pipeline.run_once("first.log", _START_SECONDS)
    with Arrivals(lab.kafka().bootstrap_servers, pipeline.topic) as arrivals, _writing(lab) as first:
        begin = time.monotonic()
        child = pipeline.start("run.log", once=False)
        try:
            return Series("Penstock", _watch(lab, arrivals, first, begin, child.alive))
        finally:
            child.stop()


def _measure_debezium(lab: Lab) -> Series:
    lab.say("catchup: starting Debezium")
    with start_following(lab, _TABLE, "catchup-debezium") as worker:
        worker.stop_connector()
        with Arrivals(lab.kafka().bootstrap_servers, topic_of(_TABLE)) as arrivals, _writing(lab) as first:
            begin = time.monotonic()
            worker.resume_connector()
            return Series(_PEER, _watch(lab, arrivals, first, begin, worker.alive))


@contextmanager
def _writing(lab: Lab) -> Iterator[int]:
    """Write the backlog, and go on writing while a `with` block lasts; it gets the first row's id."""
    rows = lab.settings.rows
    first = _last_id(lab) + 1
    lab.say(f"catchup: writing {rows:,} rows into {_FILES} files")
    write_bulk(lab.source(), _TABLE, rows, _FILES)
    place = (*mariadb_origin(lab).login, _TABLE, first + rows)
    command = (*place, round(_RATE * _WAIT_SECONDS), _RATE, lab.home / f"catchup-{first}.txt")
    arguments = [sys.executable, "-m", "penstock.bench.programs.write_paced", *map(str, command)]
    writer = start_child("the writer", arguments, lab.home / f"catchup-{first}.log")
    try:
        yield first
    finally:
        writer.kill()


def _watch(
    lab: Lab, arrivals: Arrivals, first: int, begin: float, alive: Callable[[], bool]
) -> tuple[tuple[float, float], ...]:
    """Note (seconds since `begin`, rows behind) until that is less than a second's; what came before is not counted."""
    before = arrivals.count
    lab.say("catchup: catching up")
    points: list[tuple[float, float]] = []
    while not points or points[-1][1] >= _RATE:
        if not alive() or time.monotonic() - begin > _WAIT_SECONDS:
            message = "it did not catch up"
            raise UnavailableError(message, "look at what it wrote before the bench removes it")
        time.sleep(_SAMPLE_SECONDS)
        behind = _last_id(lab) - first + 1 - (arrivals.count - before)
        points.append((time.monotonic() - begin, behind))
    return tuple(points)


def _last_id(lab: Lab) -> int:
    with closing(connect(login(lab.source()))) as connection:
        return int(ask(connection, f"SELECT COALESCE(MAX(id), 0) FROM {_TABLE}")[0][0])  # noqa: S608 - our own name
