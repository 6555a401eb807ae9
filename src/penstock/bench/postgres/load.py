"""Figures: a table that has rows already, by the initial snapshot, beside Debezium in Kafka Connect."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from penstock.adapters.kafka.cluster import KafkaCluster, create_topics
from penstock.bench.capture.arrivals import Arrivals
from penstock.bench.capture.pipeline import BenchPipeline, await_end, await_session
from penstock.bench.figure import Figure
from penstock.bench.meter import Meter
from penstock.bench.peers.debezium import CapturedPostgres, topic_of
from penstock.bench.peers.debezium_connect import start_connect
from penstock.bench.postgres.workload import create_table, drop_slots, origin, write_bulk
from penstock.bench.programs.measured import Work
from penstock.bench.snapshot.sides import await_topic
from penstock.core.errors import PenstockError
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.bench.lab import Lab

_TABLE: Final = TableId("bench_load", "orders")
_PEER: Final = "Debezium in Kafka Connect, initial snapshot"
_TARGET: Final = 5.0
_WAIT_SECONDS: Final = 1800.0
_END_SECONDS: Final = 120.0


def measure(lab: Lab) -> Sequence[Figure]:
    """Rows per CPU second, and per second, from a worker that runs until the last arrival."""
    server = lab.postgres_source()
    create_table(server, _TABLE)
    lab.say(f"load: writing {lab.settings.rows:,} rows")
    write_bulk(server, _TABLE, lab.settings.rows)
    try:
        theirs: Work | PenstockError = _measure_debezium(lab)
    except PenstockError as error:
        theirs = error
    ours = _measure_ours(lab)
    drop_slots(server)
    return plan_figures(ours, theirs)


def _measure_ours(lab: Lab) -> Work:
    lab.say("load: ours")
    pipeline = BenchPipeline(lab, _TABLE.schema, _TABLE, lab.folder("load-ours"), origin=origin(lab))
    pipeline.write_file()
    child = pipeline.start("run.log", once=True)
    try:
        with Meter(child.pid) as meter:
            begin = await_session(child)
            await_topic(lab, pipeline.topic, child.alive, _END_SECONDS)
            with Arrivals(lab.kafka().bootstrap_servers, pipeline.topic) as arrivals:
                # All rows are visible at once, with the commit: a run that ended well may be ahead of who reads them.
                arrivals.wait_for(lab.settings.rows, _WAIT_SECONDS, lambda: not child.popen.poll())
                meter.sample()
                await_end(child, _END_SECONDS)
    finally:
        child.kill()
    return Work(lab.settings.rows, meter.cpu_between(begin, arrivals.last_at), arrivals.last_at - begin)


def _measure_debezium(lab: Lab) -> Work:
    lab.say("load: Debezium")
    folder, brokers = lab.folder("load-debezium"), lab.kafka().bootstrap_servers
    settings = CapturedPostgres(lab.postgres_source(), "bench_load_debezium").settings(_TABLE.schema, folder)
    create_topics(KafkaCluster(brokers), [topic_of(_TABLE)], {}, partitions=1)
    with (
        start_connect(brokers, folder) as worker,
        Arrivals(brokers, topic_of(_TABLE)) as arrivals,
        Meter(worker.pid) as meter,
    ):
        begin = time.monotonic()
        worker.start_connector({**settings, "snapshot.mode": "initial"})
        arrivals.wait_for(lab.settings.rows, _WAIT_SECONDS, worker.alive)
        meter.sample()
    return Work(lab.settings.rows, meter.cpu_between(begin, arrivals.last_at), arrivals.last_at - begin)


def plan_figures(ours: Work, theirs: Work | PenstockError) -> Sequence[Figure]:
    """CPU, which has the target, and speed."""
    got = theirs if isinstance(theirs, Work) else None
    note = "with our link's first start; start-up of Spark and of Connect's worker not counted"
    if isinstance(theirs, PenstockError):
        note = f"the peer could not be measured: {theirs.message}"
    cpu = None if got is None else got.rows_per_cpu_second
    speed = None if got is None else got.rows / got.seconds
    name = f"initial snapshot of {ours.rows:,} rows"
    return [
        Figure(f"{name}, CPU", "rows per CPU second", "more", ours.rows_per_cpu_second, _PEER, cpu, _TARGET, note=note),
        Figure(f"{name}, speed", "rows per second", "more", ours.rows / ours.seconds, _PEER, speed, note=note),
    ]
