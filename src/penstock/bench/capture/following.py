"""Figures: rows in bulk into Kafka through Spark while both sides run, beside Debezium in Kafka Connect."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from penstock.bench.capture.arrivals import Arrivals
from penstock.bench.capture.debezium import start_following
from penstock.bench.capture.kafka import into_kafka
from penstock.bench.capture.pipeline import BenchPipeline, await_session
from penstock.bench.capture.workload import create_table, write_bulk
from penstock.bench.meter import Meter
from penstock.bench.peers.debezium import topic_of
from penstock.bench.programs.measured import Work
from penstock.core.errors import PenstockError
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.bench.figure import Figure
    from penstock.bench.lab import Lab

_TABLE: Final = TableId("bench_follow", "orders")
_WARM_UP_ROWS: Final = 20_000
_WAIT_SECONDS: Final = 1800.0
_START_SECONDS: Final = 120.0


def measure(lab: Lab) -> Sequence[Figure]:
    """CPU per million rows, and rows per second, from the writer's first row until the last arrival."""
    create_table(lab.source(), _TABLE)
    ours = _measure_ours(lab)
    try:
        theirs: Work | PenstockError = _measure_debezium(lab)
    except PenstockError as error:
        theirs = error
    note = f"{ours.rows:,} rows, written meanwhile; both sides ran before, and had carried {_WARM_UP_ROWS:,} rows"
    return into_kafka("into Kafka through Spark, following", ours, theirs, note)


def _measure_ours(lab: Lab) -> Work:
    pipeline = BenchPipeline(lab, _TABLE.schema, _TABLE, lab.folder("follow-ours"))
    pipeline.write_file()
    lab.say("follow: starting ours")
    pipeline.run_once("first.log", _START_SECONDS)
    child = pipeline.start("run.log", once=False)
    try:
        await_session(child)
        return _carry(lab, pipeline.topic, child.pid, child.alive)
    finally:
        child.stop()


def _measure_debezium(lab: Lab) -> Work:
    lab.say("follow: starting Debezium")
    with start_following(lab, _TABLE, "follow-debezium") as worker:
        return _carry(lab, topic_of(_TABLE), worker.pid, worker.alive)


def _carry(lab: Lab, topic: str, pid: int, alive: Callable[[], bool]) -> Work:
    """Write rows, and see how long they take and what the processes below `pid` use for them."""
    rows = lab.settings.rows
    with Arrivals(lab.kafka().bootstrap_servers, topic) as arrivals, Meter(pid) as meter:
        before = arrivals.settled()
        write_bulk(lab.source(), _TABLE, _WARM_UP_ROWS)
        arrivals.wait_for(before + _WARM_UP_ROWS, _START_SECONDS, alive)
        before = arrivals.settled()
        lab.say(f"follow: writing {rows:,} rows")
        begin = time.monotonic()
        write_bulk(lab.source(), _TABLE, rows)
        arrivals.wait_for(before + rows, _WAIT_SECONDS, alive)
        meter.sample()
    return Work(rows, meter.cpu_between(begin, arrivals.last_at), arrivals.last_at - begin)
