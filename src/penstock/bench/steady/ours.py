"""Our side: `penstock run` from the bench's source into PostgreSQL, or into DuckDB as well."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from penstock.adapters.mysql.connection import connect
from penstock.bench.capture.workload import create_table, insert_range, login, without_sync
from penstock.bench.steady.stretches import RATES, START_SECONDS, Side, Steady, measure_side
from penstock.bench.steady.visible import Visible
from penstock.bench.warehouse.compare import create_database, require_equal_postgres
from penstock.bench.warehouse.pipeline import TargetPipeline, duckdb_sink, postgres_sink
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.bench.capture.latency import Ids
    from penstock.bench.lab import Lab


def measure_ours(
    lab: Lab, ids: Ids, sinks: int, *, is_low_latency: bool = False, rates: Sequence[int] = RATES
) -> Steady:
    """Carry a table of its own into one or two sinks. Raises PenstockError when that fails."""
    name = f"bench_steady_{'soon' if is_low_latency else sinks}"
    link_keys = ", freshness_ms: 0" if is_low_latency else ""
    with carrying(lab, ids, name, sinks, link_keys=link_keys) as (side, first_row_seconds):
        return measure_side(lab, side, ids, first_row_seconds, rates)


@contextmanager
def carrying(
    lab: Lab, ids: Ids, name: str, sinks: int, *, link_keys: str = "", objects: str = ""
) -> Iterator[tuple[Side, float]]:
    """Run a pipeline `name` with a table of its own; yield it, and the seconds from its start to the first row.

    `link_keys` and `objects` are those of `TargetPipeline`. What came is compared at the end.
    Raises PenstockError when something fails or differs.
    """
    table = TableId(name, "orders")
    home = lab.folder(name)
    create_database(lab.postgres(), name)
    targets = {"postgres": postgres_sink(lab.postgres(), name)}
    if sinks > 1:
        targets["duckdb"] = duckdb_sink(home / "target.duckdb")
    pipeline = TargetPipeline(lab, name, str(table), home, targets, objects, link_keys=link_keys)
    pipeline.write_file()
    create_table(lab.source(), table)
    with closing(connect(login(lab.source()))) as source, without_sync(source):
        first = ids.take(1)
        insert_range(source, table, first, first)
        lab.say(f"steady: starting Penstock, {sinks} sink{'s' * (sinks > 1)}")
        began = time.monotonic()
        child = pipeline.start("run", str(pipeline.file), log="run.log")
        try:
            with Visible(lab.postgres(), name, str(table)) as visible:
                visible.await_id(first, START_SECONDS, child.alive)
                side = Side(f"Penstock, {sinks} sinks", child.pid, child.alive, visible, table, home)
                yield side, time.monotonic() - began
            require_equal_postgres(lab.source(), table, "Penstock", (lab.postgres(), name, str(table)))
        finally:
            child.stop()
