"""Figures: the same changes from topics into DuckDB beside dlt, and into PostgreSQL beside Debezium's JDBC sink."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.bench.capture.workload import create_table
from penstock.bench.figure import Figure
from penstock.bench.meter import Meter
from penstock.bench.peers.debezium_connect import start_connect
from penstock.bench.peers.debezium_jdbc import jdbc_plugin, jdbc_settings
from penstock.bench.peers.dlt_duckdb import measure_merge, measure_topic_merge
from penstock.bench.programs.measured import Work
from penstock.bench.warehouse.compare import (
    connect_postgres,
    create_database,
    require_equal_duckdb,
    require_equal_postgres,
)
from penstock.bench.warehouse.flat_messages import MARK_ID, send_changes, send_rows
from penstock.bench.warehouse.pipeline import OBJECTS, TargetPipeline, duckdb_sink, postgres_sink
from penstock.bench.warehouse.workload import WARM_UP_ROWS, Mix, write_changes, write_warm_up
from penstock.core.errors import PenstockError, UnavailableError
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import psycopg

    from penstock.bench.figure import Better
    from penstock.bench.lab import Lab
    from penstock.bench.peers.debezium_connect import ConnectWorker

_DLT_TOPIC_LOADS: Final = 20
_DLT_LOADS: Final = (20, 1)
"""In how many loads dlt gets the changes from memory: often, as a stream wants it, and at once, which is its best."""
_JDBC: Final = "Debezium's JDBC sink, tuned"
_JDBC_TABLE: Final = "orders"
_POLL_SECONDS: Final = 0.1
_WAIT_SECONDS: Final = 3600.0
_START_SECONDS: Final = 120.0
_MILLION: Final = 1_000_000
_ALL_FILES: Final = "inline_bytes_max: 0"
"""Peers read the files."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What one side did, and the CPU seconds that the target's own process took for it."""

    work: Work
    target_cpu_seconds: float = 0.0

    @property
    def speed(self) -> float:
        """Rows per second."""
        return self.work.rows / self.work.seconds

    @property
    def cpu_with_target(self) -> float:
        """CPU seconds per million rows, the target's included."""
        return (self.work.cpu_seconds + self.target_cpu_seconds) * _MILLION / self.work.rows


def measure_files(lab: Lab) -> Sequence[Figure]:
    """What the S3 spolt takes to write Parquet files."""
    table = TableId("bench_files", "orders")
    pipeline = prepare(lab, table, {"unused": duckdb_sink(lab.home)})
    ours = measure_ours(lab, pipeline, table, (OBJECTS,))
    per_second = ours.work.rows_per_cpu_second
    note = f"{ours.work.rows:,} changes, some with two images; Spark, Kafka's client and Parquet with zstd included"
    name = "S3 spolt: topics to Parquet"
    return [
        Figure(name, "rows per CPU second", "more", per_second, target=150_000, target_of="value", note=note),
        Figure(f"{name}, speed", "rows per second", "more", ours.speed, note=note),
    ]


def measure_duckdb(lab: Lab) -> Sequence[Figure]:
    """Topics to DuckDB, and dlt's merge of the same changes from a topic and from memory."""
    table = TableId("bench_duckdb", "orders")
    target = lab.home / "ours.duckdb"
    pipeline = prepare(lab, table, {"duckdb": duckdb_sink(target)})
    ours = measure_ours(lab, pipeline, table, (OBJECTS, pipeline.link))
    require_equal_duckdb(lab.source(), table, "Penstock", target, str(table))
    files = _batch_files(pipeline)
    name, targets = "topics to DuckDB", {"speed": 3.0}
    peer = f"dlt's merge from a topic, {_DLT_TOPIC_LOADS} loads"
    figures = _figures(name, peer, ours, _tried(partial(_measure_dlt_topic, lab, table, files)), targets)
    for loads in _DLT_LOADS:
        peer = f"dlt's merge from memory, {loads} load{'s' * (loads > 1)}"
        figures += _figures(name, peer, ours, _tried(partial(_measure_dlt, lab, table, files, loads)), {})
    return figures


def measure_postgres(lab: Lab) -> Sequence[Figure]:
    """Topics to PostgreSQL, and Debezium's JDBC sink in Kafka Connect."""
    table = TableId("bench_postgres", "orders")
    create_database(lab.postgres(), "ours")
    pipeline = prepare(lab, table, {"postgres": postgres_sink(lab.postgres(), "ours")})
    ours = measure_ours(lab, pipeline, table, (OBJECTS, pipeline.link), lab.postgres().pid)
    require_equal_postgres(lab.source(), table, "Penstock", (lab.postgres(), "ours", str(table)))
    theirs = _tried(partial(_measure_jdbc, lab, table, _batch_files(pipeline)))
    targets = {"speed": 4.0, "cpu": 3.0}
    return _figures("topics to PostgreSQL", _JDBC, ours, theirs, targets)


def prepare(
    lab: Lab, table: TableId, sinks: dict[str, str], objects: str = "", keys: Mapping[str, str] | None = None
) -> TargetPipeline:
    """Make the table with its first rows, and a pipeline that has them in its topic; see `TargetPipeline`.

    It writes every batch to a file, wherever `objects` says that files are.
    """
    create_table(lab.source(), table)
    write_warm_up(lab.source(), table)
    objects = ", ".join(filter(None, (objects, _ALL_FILES)))
    pipeline = TargetPipeline(lab, table.schema, str(table), lab.folder(table.schema), sinks, objects, keys or {})
    pipeline.write_file()
    lab.say(f"{table.schema}: starting ours")
    pipeline.capture("first.log")
    return pipeline


def measure_ours(
    lab: Lab, pipeline: TargetPipeline, table: TableId, links: Sequence[str], target_pid: int | None = None
) -> Loaded:
    """Let `links` carry the changes of the settings, all of which are in the table's topic when they begin."""
    mix = Mix.of(lab.settings.rows)
    with pipeline.warm(table, WARM_UP_ROWS, *links) as warm:
        lab.say(f"{table.schema}: writing {mix.rows:,} changes")
        write_changes(lab.source(), table, mix)
        pipeline.capture("second.log")
        lab.say(f"{table.schema}: carrying them, ours")
        return Loaded(*warm.carry(table, mix.rows, target_pid))


def _batch_files(pipeline: TargetPipeline) -> list[Path]:
    """The files that the S3 spolt wrote, in the order of their rows; the first has what was there before."""
    return sorted((pipeline.folder / "home" / "objects").rglob("*.parquet"))


def _tried(measure: Callable[[], Loaded]) -> Loaded | PenstockError:
    """What came of a peer, or why nothing did."""
    try:
        return measure()
    except PenstockError as error:
        return error


def _measure_dlt_topic(lab: Lab, table: TableId, files: Sequence[Path]) -> Loaded:
    brokers, topic = lab.kafka().bootstrap_servers, f"{table.schema}-rows"
    lab.say(f"{table.schema}: writing them as rows of a topic for dlt")
    counts = send_rows(brokers, topic, files[:1]), send_rows(brokers, topic, files[1:])
    lab.say(f"{table.schema}: merging them, dlt from a topic")
    folder = lab.folder("dlt-topic")
    database = folder / "theirs.duckdb"
    work = measure_topic_merge((brokers, topic), counts, database, folder, _DLT_TOPIC_LOADS)
    require_equal_duckdb(lab.source(), table, "dlt from a topic", database, "bench.orders")
    return Loaded(work)


def _measure_dlt(lab: Lab, table: TableId, files: Sequence[Path], loads: int) -> Loaded:
    lab.say(f"{table.schema}: merging them, dlt in {loads} load{'s' * (loads > 1)}")
    folder = lab.folder(f"dlt-{loads}")
    database = folder / "theirs.duckdb"
    work = measure_merge(files, database, folder, loads)
    require_equal_duckdb(lab.source(), table, "dlt", database, "bench.orders")
    return Loaded(work)


def _measure_jdbc(lab: Lab, table: TableId, files: Sequence[Path]) -> Loaded:
    bootstrap_servers, topic = lab.kafka().bootstrap_servers, f"{table.schema}-flat"
    create_database(lab.postgres(), "theirs")
    lab.say(f"{table.schema}: starting Debezium's JDBC sink")
    send_changes(bootstrap_servers, topic, files[:1], mark=0)
    with (
        start_connect(bootstrap_servers, lab.folder("jdbc"), [jdbc_plugin()]) as worker,
        closing(connect_postgres(lab.postgres(), "theirs")) as connection,
    ):
        worker.start_connector(jdbc_settings(lab.postgres(), "theirs", topic, _JDBC_TABLE))
        _await_mark(worker, connection, 0, _START_SECONDS)
        worker.pause_connector()
        send_changes(bootstrap_servers, topic, files[1:], mark=1)
        lab.say(f"{table.schema}: carrying them, Debezium's JDBC sink")
        loaded = _resume(lab, worker, connection, Mix.of(lab.settings.rows).rows)
        connection.execute(f"DELETE FROM {_JDBC_TABLE} WHERE id >= {MARK_ID}".encode())  # noqa: S608 - our own name
    place = (lab.postgres(), "theirs", _JDBC_TABLE)
    require_equal_postgres(lab.source(), table, _JDBC, place)
    return loaded


def _resume(lab: Lab, worker: ConnectWorker, connection: psycopg.Connection, rows: int) -> Loaded:
    with Meter(worker.pid) as meter, Meter(lab.postgres().pid) as target:
        begin = time.monotonic()
        worker.resume_connector()
        _await_mark(worker, connection, 1, _WAIT_SECONDS)
        end = time.monotonic()
        meter.sample()
        target.sample()
    return Loaded(Work(rows, meter.cpu_between(begin, end), end - begin), target.cpu_between(begin, end))


def _await_mark(worker: ConnectWorker, connection: psycopg.Connection, mark: int, wait_seconds: float) -> None:
    """Wait until the row behind all others is in the table, which the connector makes."""
    deadline = time.monotonic() + wait_seconds
    there = f"SELECT to_regclass('{_JDBC_TABLE}') IS NOT NULL"
    marked = f"SELECT EXISTS (SELECT 1 FROM {_JDBC_TABLE} WHERE id = {MARK_ID + mark})"  # noqa: S608 - our own names
    while not all(_is_true(connection, question) for question in (there, marked)):
        if time.monotonic() > deadline or not worker.alive():
            message = f"{_JDBC} did not load all rows within {wait_seconds:.0f} s"
            raise UnavailableError(message, f"read {worker.child.log}, or measure fewer rows")
        time.sleep(_POLL_SECONDS)


def _is_true(connection: psycopg.Connection, question: str) -> bool:
    return connection.execute(question.encode()).fetchone() == (True,)


def _figures(
    name: str, peer: str, ours: Loaded, theirs: Loaded | PenstockError, targets: dict[str, float]
) -> list[Figure]:
    """Rows per second, and CPU with and without that of the target's own process where it has one."""
    got = theirs if isinstance(theirs, Loaded) else None
    note = f"{ours.work.rows:,} changes over half as many keys; both sides ran before; results compared row by row"
    if isinstance(theirs, PenstockError):
        note = f"the peer could not be measured: {theirs.message}"

    def figure(what: str, unit: str, better: Better, pick: Callable[[Loaded], float], target: float | None) -> Figure:
        peer_value = None if got is None else pick(got)
        return Figure(f"{name}, {what}", unit, better, pick(ours), peer, peer_value, target=target, note=note)

    cpu = "CPU seconds per million rows"
    speed = figure("speed", "rows per second", "more", lambda side: side.speed, targets.get("speed"))
    if not ours.target_cpu_seconds:
        return [speed, figure("CPU", cpu, "less", lambda side: side.cpu_with_target, None)]
    return [
        speed,
        figure("CPU without the database's", cpu, "less", lambda side: side.work.cpu_per_million, None),
        figure("CPU with the database's", cpu, "less", lambda side: side.cpu_with_target, targets.get("cpu")),
    ]
