"""Figures: the whole way into Kafka through Spark, beside Debezium in Kafka Connect, on one broker."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from penstock.bench.capture.arrivals import Arrivals
from penstock.bench.capture.debezium import start_following
from penstock.bench.capture.pipeline import BenchPipeline, await_end, await_session
from penstock.bench.capture.workload import create_table, write_bulk
from penstock.bench.figure import Figure
from penstock.bench.meter import Meter
from penstock.bench.peers.debezium import topic_of
from penstock.bench.programs.measured import Work
from penstock.core.errors import PenstockError
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.bench.lab import Lab
    from penstock.bench.peers.debezium import CapturedServer
    from penstock.bench.peers.debezium_connect import ConnectWorker

_PEER = "Debezium in Kafka Connect, JSON"
_SIZES = (1, 5)
"""Backlogs, in `--rows`: our start weighs less in the larger one."""
_FILES = 4
"""A backlog is read file by file, so each `--rows` of it are in more than one."""
_WAIT_SECONDS = 1800.0
_START_SECONDS = 120.0


def measure(lab: Lab) -> Sequence[Figure]:
    """CPU per million rows, and rows per second, from telling a worker that runs to begin until the last arrival."""
    return [figure for size in _SIZES for figure in _measure_size(lab, size)]


def _measure_size(lab: Lab, size: int) -> Sequence[Figure]:
    name = f"bench_kafka_{size}"
    table = TableId(name, "orders")
    create_table(lab.source(), table)
    pipeline = BenchPipeline(lab, name, table, lab.folder(name))
    rows = lab.settings.rows * size
    write = partial(write_bulk, lab.source(), table, rows, _FILES * size)
    ours, theirs = measure_backlog(lab, pipeline, rows, write)
    name = f"into Kafka through Spark, backlog of {ours.rows:,} rows"
    return into_kafka(name, ours, theirs, "rows in bulk; start-up of Spark and of Connect's worker not counted")


def measure_backlog(
    lab: Lab, pipeline: BenchPipeline, rows: int, write: Callable[[], object], server: CapturedServer | None = None
) -> tuple[Work, Work | PenstockError]:
    """Let `write` make a backlog of `rows` behind what both sides have carried; ours, and Debezium's or why not."""
    pipeline.write_file()
    lab.say("kafka: starting ours on an empty table")
    pipeline.run_once("first.log", _START_SECONDS)
    lab.say("kafka: starting Debezium")
    try:
        worker = start_following(lab, pipeline.table, f"{pipeline.name}-debezium", server=server)
    except PenstockError as error:
        return _measure_ours(lab, pipeline, rows, write), error
    with worker:
        worker.stop_connector()
        ours = _measure_ours(lab, pipeline, rows, write)
        return ours, _measure_debezium(lab, worker, pipeline.table, rows)


def _measure_ours(lab: Lab, pipeline: BenchPipeline, rows: int, write: Callable[[], object]) -> Work:
    lab.say(f"kafka: writing {rows:,} rows")
    write()
    lab.say("kafka: carrying them, ours")
    with Arrivals(lab.kafka().bootstrap_servers, pipeline.topic) as arrivals:
        child = pipeline.start("second.log", once=True)
        try:
            with Meter(child.pid) as meter:
                begin = await_session(child)
                arrivals.wait_for(rows, _WAIT_SECONDS, child.alive)
                meter.sample()
                await_end(child, _START_SECONDS)
        finally:
            child.kill()
    return Work(rows, meter.cpu_between(begin, arrivals.last_at), arrivals.last_at - begin)


def _measure_debezium(lab: Lab, worker: ConnectWorker, table: TableId, rows: int) -> Work | PenstockError:
    lab.say("kafka: carrying them, Debezium")
    try:
        with Arrivals(lab.kafka().bootstrap_servers, topic_of(table)) as arrivals, Meter(worker.pid) as meter:
            begin = time.monotonic()
            worker.resume_connector()
            arrivals.wait_for(rows, _WAIT_SECONDS, worker.alive)
    except PenstockError as error:
        return error
    return Work(rows, meter.cpu_between(begin, arrivals.last_at), arrivals.last_at - begin)


def into_kafka(name: str, ours: Work, theirs: Work | PenstockError, note: str) -> Sequence[Figure]:
    """The two figures called `name`; `note` says what was measured, unless the peer could not be."""
    got = theirs if isinstance(theirs, Work) else None
    if isinstance(theirs, PenstockError):
        note = f"the peer could not be measured: {theirs.message}"
    cpu = Figure(
        f"{name}, CPU",
        "CPU seconds per million rows",
        "less",
        ours.cpu_per_million,
        _PEER,
        None if got is None else got.cpu_per_million,
        target=4,
        note=note,
    )
    speed = Figure(
        f"{name}, speed",
        "rows per second",
        "more",
        ours.rows / ours.seconds,
        _PEER,
        None if got is None else got.rows / got.seconds,
        target=3,
        note=note,
    )
    return [cpu, speed]
