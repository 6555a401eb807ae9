"""Figures: a backlog into Kafka through Spark, beside Debezium in Kafka Connect and beside the bare log of a slot."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.bench.capture.kafka import into_kafka, measure_backlog
from penstock.bench.capture.pipeline import BenchPipeline
from penstock.bench.figure import Figure
from penstock.bench.peers.debezium import CapturedPostgres
from penstock.bench.postgres.decode import read_slot_log
from penstock.bench.postgres.workload import create_table, drop_slots, make_slot, origin, write_bulk
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.bench.lab import Lab

_NAME: Final = "bench_kafka"
_SHARE_OF_BARE: Final = 0.85


def measure(lab: Lab) -> Sequence[Figure]:
    """CPU per million rows, and rows per second, from telling a worker that runs to begin until the last arrival."""
    server, table, rows = lab.postgres_source(), TableId(_NAME, "orders"), lab.settings.rows
    create_table(server, table)
    folder = lab.folder(_NAME)
    pipeline = BenchPipeline(lab, _NAME, table, folder, origin=origin(lab))
    slot = f"{_NAME}_bare", make_slot(server, f"{_NAME}_bare")
    peer = CapturedPostgres(server, f"{_NAME}_debezium")
    ours, theirs = measure_backlog(lab, pipeline, rows, partial(write_bulk, server, table, rows), peer)
    bare = read_slot_log(lab, table, slot, rows, "receive", folder)
    drop_slots(server)
    name = f"into Kafka through Spark, backlog of {rows:,} rows"
    note = "rows in bulk; start-up of Spark and of Connect's worker not counted"
    return [
        *into_kafka(name, ours, theirs, note),
        Figure(
            f"{name}, share of the log's bare speed",
            "rows per second",
            "more",
            ours.rows / ours.seconds,
            "the same log, received and thrown away",
            bare.rows / bare.seconds,
            target=_SHARE_OF_BARE,
            note="one slot, one walsender, which works on the same cores",
        ),
    ]
