"""Figures: the whole way into Kafka through Spark, beside Debezium in Kafka Connect, on one broker."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from penstock.adapters.kafka.cluster import KafkaCluster, create_topics
from penstock.adapters.mysql.connection import ask, connect
from penstock.bench.capture.arrivals import Arrivals
from penstock.bench.capture.pipeline import BenchPipeline, await_session
from penstock.bench.capture.workload import create_table, login, write_bulk
from penstock.bench.figure import Figure
from penstock.bench.meter import Meter
from penstock.bench.peers.debezium import connector_settings, topic_of
from penstock.bench.peers.debezium_connect import ConnectWorker, start_connect
from penstock.bench.programs.measured import Work
from penstock.core.errors import PenstockError
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.bench.lab import Lab

_TABLE = TableId("bench_kafka", "orders")
_PROBE = TableId("bench_kafka", "probe")
_PEER = "Debezium in Kafka Connect, JSON"
_WAIT_SECONDS = 1800.0
_PROBE_SECONDS = 120.0


def measure(lab: Lab) -> Sequence[Figure]:
    """CPU per million rows, and rows per second, from telling a worker that runs to begin until the last arrival."""
    create_table(lab.source(), _TABLE)
    pipeline = BenchPipeline(lab, "bench_kafka", _TABLE, lab.folder("kafka-ours"))
    pipeline.write_file()
    lab.say("kafka: starting ours on an empty table")
    pipeline.run_once("first.log", _PROBE_SECONDS)
    folder = lab.folder("kafka-debezium")
    lab.say("kafka: starting Debezium")
    try:
        worker = prepare_worker(lab, folder)
    except PenstockError as error:
        ours = _measure_ours(lab, pipeline)
        return _figures(ours, error)
    with worker:
        ours = _measure_ours(lab, pipeline)
        return _figures(ours, _measure_debezium(lab, worker))


def prepare_worker(lab: Lab, folder: Path) -> ConnectWorker:
    """Start a worker whose connector has seen a change of its probe table, and has been stopped then.

    It begins where the log ended, when it is resumed. Raises PenstockError when Debezium cannot be had.
    """
    bootstrap_servers = lab.kafka().bootstrap_servers
    topics = [topic_of(_TABLE), topic_of(_PROBE)]
    create_topics(KafkaCluster(bootstrap_servers), topics, {}, partitions=1)
    worker = start_connect(bootstrap_servers, folder)
    try:
        server = login(lab.source())
        worker.start_connector(connector_settings(server, _TABLE.schema, folder))
        with closing(connect(server)) as connection, Arrivals(bootstrap_servers, topic_of(_PROBE)) as arrivals:
            ask(connection, f"CREATE TABLE IF NOT EXISTS {_PROBE} (id INT PRIMARY KEY AUTO_INCREMENT)")
            deadline = time.monotonic() + _PROBE_SECONDS
            while not arrivals.count and time.monotonic() < deadline:
                ask(connection, f"INSERT INTO {_PROBE} VALUES ()")  # noqa: S608 - our own name
                time.sleep(0.5)
            arrivals.wait_for(1, 1.0, worker.alive)
        worker.stop_connector()
    except BaseException:
        worker.kill()
        raise
    return worker


def _measure_ours(lab: Lab, pipeline: BenchPipeline) -> Work:
    rows = lab.settings.rows
    lab.say(f"kafka: writing {rows:,} rows")
    write_bulk(lab.source(), _TABLE, rows)
    lab.say("kafka: carrying them, ours")
    with Arrivals(lab.kafka().bootstrap_servers, pipeline.topic) as arrivals:
        child = pipeline.start("second.log", once=True)
        try:
            with Meter(child.pid) as meter:
                begin = await_session(child)
                arrivals.wait_for(rows, _WAIT_SECONDS, lambda: child.alive() or arrivals.count == rows)
                meter.sample()
        finally:
            child.stop()
    return Work(rows, meter.cpu_between(begin, arrivals.last_at), arrivals.last_at - begin)


def _measure_debezium(lab: Lab, worker: ConnectWorker) -> Work | PenstockError:
    rows = lab.settings.rows
    lab.say("kafka: carrying them, Debezium")
    try:
        with Arrivals(lab.kafka().bootstrap_servers, topic_of(_TABLE)) as arrivals, Meter(worker.pid) as meter:
            begin = time.monotonic()
            worker.resume_connector()
            arrivals.wait_for(rows, _WAIT_SECONDS, worker.alive)
    except PenstockError as error:
        return error
    return Work(rows, meter.cpu_between(begin, arrivals.last_at), arrivals.last_at - begin)


def _figures(ours: Work, theirs: Work | PenstockError) -> Sequence[Figure]:
    got = theirs if isinstance(theirs, Work) else None
    note = f"the peer could not be measured: {theirs.message}" if isinstance(theirs, PenstockError) else ""
    note = note or f"{ours.rows:,} rows in bulk; start-up of Spark and of Connect's worker not counted"
    name = "into Kafka through Spark, bulk"
    cpu = Figure(
        f"{name}, CPU",
        "CPU seconds per million rows",
        "less",
        ours.cpu_per_million,
        _PEER,
        got and got.cpu_per_million,
        target=4,
        note=note,
    )
    speed = Figure(
        f"{name}, speed",
        "rows per second",
        "more",
        ours.rows / ours.seconds,
        _PEER,
        got and got.rows / got.seconds,
        target=3,
        note=note,
    )
    return [cpu, speed]
