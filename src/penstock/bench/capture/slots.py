"""Figure: a backlog of several binlog files, read with two Spark slots and with one."""

from __future__ import annotations

import hashlib
import os
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.adapters.kafka.cluster import KafkaCluster
from penstock.adapters.kafka.reader import TopicReader
from penstock.adapters.mysql.catalog import read_tables
from penstock.adapters.mysql.connection import connect
from penstock.bench.capture.arrivals import Arrivals
from penstock.bench.capture.pipeline import BenchPipeline, await_end
from penstock.bench.capture.workload import create_table, login, write_bulk
from penstock.bench.figure import Figure
from penstock.core.avro.envelope_decode import decode_changes
from penstock.core.avro.schemas import value_schema
from penstock.core.errors import PenstockError
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.bench.lab import Lab
    from penstock.core.tables import TableSchema

_TABLE: Final = TableId("bench_slots", "orders")
_FILES: Final = 6
_COMPARED_ROWS: Final = 10_000
_WAIT_SECONDS: Final = 1800.0
_START_SECONDS: Final = 120.0


def measure(lab: Lab) -> Sequence[Figure]:
    """Rows per second of both behind their first message, after a check that both published the same in one order."""
    create_table(lab.source(), _TABLE)
    pipelines = [_pipeline(lab, slots) for slots in (1, 2)]
    for pipeline in pipelines:
        lab.say(f"slots: starting {pipeline.name} on an empty table")
        pipeline.run_once("first.log", _START_SECONDS)
    lab.say(f"slots: writing {lab.settings.rows:,} rows into {_FILES} files")
    write_bulk(lab.source(), _TABLE, lab.settings.rows, _FILES)
    one, two = (_rows_per_second(lab, pipeline) for pipeline in pipelines)
    lab.say("slots: comparing what came")
    first, second = (_digest(lab, pipeline.topic) for pipeline in pipelines)
    if first != second:
        message = "one slot and two slots have published different rows, or in another order"
        raise PenstockError(message, f"compare the topics {pipelines[0].topic} and {pipelines[1].topic}")
    cores = len(os.sched_getaffinity(0))
    note = f"{lab.settings.rows:,} rows in {_FILES} files; content and order are identical"
    if cores <= len(pipelines):
        note += f"; {cores} cores also carry the source, the broker and the reader, so two slots never have two of them"
    return [
        Figure(
            "backlog with two Spark slots, behind its first message",
            "rows per second",
            "more",
            two,
            "ours with one",
            one,
            1.6,
            note=note,
        )
    ]


def _pipeline(lab: Lab, slots: int) -> BenchPipeline:
    name = f"bench_slots_{slots}"
    pipeline = BenchPipeline(lab, name, _TABLE, lab.folder(name), f"local[{slots}]", backlog_tasks=slots)
    pipeline.write_file()
    return pipeline


def _rows_per_second(lab: Lab, pipeline: BenchPipeline) -> float:
    rows = lab.settings.rows
    lab.say(f"slots: carrying them, {pipeline.master}")
    with Arrivals(lab.kafka().bootstrap_servers, pipeline.topic) as arrivals:
        child = pipeline.start("second.log", once=True)
        try:
            arrivals.wait_for(rows, _WAIT_SECONDS, child.alive)
            await_end(child, _START_SECONDS)
        finally:
            child.kill()
    return rows / (arrivals.last_at - arrivals.first_at)


def _digest(lab: Lab, topic: str) -> str:
    """Hash what the messages of a topic say, in their order: everything but the pipeline's name and the time."""
    with closing(connect(login(lab.source()))) as connection:
        schema = read_tables(connection, [_TABLE])[_TABLE]
    reader = TopicReader(KafkaCluster(lab.kafka().bootstrap_servers))
    digest = hashlib.sha256()
    try:
        end = reader.ends([(topic, 0)])[topic, 0]
        values = (value for messages in reader.read(topic, 0, 0, end) for _, value in messages)
        for part in _parts(values):
            digest.update(_content(schema, part))
    finally:
        reader.close()
    return digest.hexdigest()


def _parts(values: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Yield some values at a time, always the same number: the fetches of two readers differ."""
    for first in values:
        yield [first, *islice(values, _COMPARED_ROWS - 1)]


def _content(schema: TableSchema, values: Sequence[bytes]) -> bytes:
    """Put the rows and the places of some messages into bytes."""
    changes = decode_changes(schema, value_schema(schema), pa.array(values, pa.binary()))
    columns = [*changes.after.columns, changes.op, changes.file, pa.array(changes.pos), pa.array(changes.row)]
    batch = pa.RecordBatch.from_arrays(columns, names=[str(number) for number in range(len(columns))])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()
