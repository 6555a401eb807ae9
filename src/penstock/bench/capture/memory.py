"""Figure: the most memory that a process of ours takes while it carries one very large transaction."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from penstock.adapters.mysql.connection import ask, connect
from penstock.bench.capture.arrivals import Arrivals
from penstock.bench.capture.pipeline import BenchPipeline, await_end
from penstock.bench.capture.workload import create_table, login, write_transaction
from penstock.bench.figure import Figure
from penstock.bench.meter import Meter
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.bench.lab import Lab

_TABLE: Final = TableId("bench_memory", "orders")
_GIBIBYTE: Final = 1 << 30
_WAIT_SECONDS: Final = 3600.0
_START_SECONDS: Final = 120.0
_JAVA: Final = "java"


def measure(lab: Lab) -> Sequence[Figure]:
    """The peak of the largest Python process, which is the worker that reads and publishes, and that of Spark's JVM."""
    source, megabytes = lab.source(), lab.settings.transaction_megabytes
    create_table(source, _TABLE)
    pipeline = BenchPipeline(lab, "bench_memory", _TABLE, lab.folder("memory"))
    pipeline.write_file()
    lab.say("memory: starting ours on an empty table")
    pipeline.run_once("first.log", _START_SECONDS)
    lab.say(f"memory: writing a transaction of {megabytes:,} MB")
    rows = write_transaction(source, _TABLE, megabytes)
    lab.say(f"memory: carrying its {rows:,} rows")
    with Arrivals(lab.kafka().bootstrap_servers, pipeline.topic) as arrivals:
        child = pipeline.start("second.log", once=True)
        try:
            with Meter(child.pid) as meter:
                arrivals.wait_for(rows, _WAIT_SECONDS, child.alive)
                meter.sample()
                await_end(child, _START_SECONDS)
        finally:
            child.kill()
    with closing(connect(login(source))) as connection:
        ask(connection, f"DROP DATABASE {_TABLE.schema}")
    name = f"memory during a transaction of {megabytes:,} MB"
    python = max(peak.peak_bytes for peak in meter.peaks() if peak.program.startswith("python"))
    java = max(peak.peak_bytes for peak in meter.peaks() if peak.program == _JAVA)
    note = f"{rows:,} rows in one transaction; peak resident size"
    return [
        Figure(
            f"{name}, largest Python process", "GiB", "less", python / _GIBIBYTE, target=1, target_of="value", note=note
        ),
        Figure(f"{name}, Spark's JVM", "GiB", "less", java / _GIBIBYTE, note=note),
    ]
