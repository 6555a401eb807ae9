"""Tasks of a DuckDB sink over an hour of rounds, most of them skipped, beside rebuilding the same tables once."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

from penstock.adapters.duckdb.warehouse import DuckdbWarehouse
from penstock.bench.figure import Figure
from penstock.core.errors import PenstockError
from penstock.core.tables import TableId
from penstock.core.warehouse.micro_batches import Task
from penstock.links.warehouse.micro_batches import TaskRuns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.bench.lab import Lab

_TABLES: Final = 84
_ROUNDS: Final = 60
_WITH_NEWS: Final = 5
_ROWS_BEFORE: Final = 100_000
_ROWS_A_ROUND: Final = 1_000
_POSITIONS: Final = (
    "pipeline VARCHAR, source VARCHAR, source_table VARCHAR, topic VARCHAR, partition INT, next_offset INT"
)
_MERGE: Final = """\
MERGE INTO mart.t{n} AS m USING (SELECT kind, COUNT(*) AS n FROM {{stream}} AS s GROUP BY kind) AS s ON m.kind = s.kind
WHEN MATCHED THEN UPDATE SET n = m.n + s.n WHEN NOT MATCHED THEN INSERT (kind, n) VALUES (s.kind, s.n)"""


def measure_tasks(lab: Lab) -> Sequence[Figure]:
    """An hour of tasks that look every minute: CPU, that of a run that is skipped, and that of a rebuild."""
    with closing(DuckdbWarehouse(lab.folder("tasks") / "warehouse.duckdb")) as warehouse:
        _make(warehouse)
        runs = TaskRuns(warehouse, "bench")
        runs.start()
        tasks = [Task(f"t{n}", (_MERGE.format(n=n),), TableId("app", f"t{n}"), ("id",)) for n in range(_TABLES)]
        for task in tasks:
            runs.run(task)
        lab.say(f"snowflake: {_ROUNDS} rounds of {_TABLES} tasks in DuckDB")
        looking, ran, skipped = 0.0, 0.0, 0
        for number in range(_ROUNDS):
            for n in range(_WITH_NEWS):
                _add(warehouse, (number * _WITH_NEWS + n) % _TABLES, _ROWS_A_ROUND)
            began = time.process_time()
            loads = runs.loads()
            due = [task for task in tasks if runs.has_work(task, loads)]
            found = time.process_time()
            for task in due:
                runs.run(task)
            looking, ran = looking + found - began, ran + time.process_time() - found
            skipped += len(tasks) - len(due)
        began = time.process_time()
        for n in range(_TABLES):
            grouped = f"SELECT kind, COUNT(*) AS n FROM app.t{n} GROUP BY kind"  # noqa: S608 - a name of ours
            warehouse.run(f"CREATE OR REPLACE TABLE rebuilt.t{n} AS {grouped}")
        rebuilt = time.process_time() - began
        _require_equal(warehouse)
    name = f"{_TABLES * _ROUNDS:,} runs of tasks, {skipped:,} of them skipped: CPU"
    note = "the peer's tables are an hour old when they are rebuilt, ours a minute at most"
    return [
        Figure(name, "CPU s", "less", looking + ran, "rebuilding the same tables once", rebuilt, note=note),
        Figure("a run of a task that is skipped: CPU", "CPU ms", "less", looking * 1000 / (_TABLES * _ROUNDS)),
        Figure("a run of a task that has something: CPU", "CPU ms", "less", ran * 1000 / (_ROUNDS * _WITH_NEWS)),
    ]


def _make(warehouse: DuckdbWarehouse) -> None:
    for schema in ("app", "mart", "rebuilt", "penstock"):
        warehouse.run(f"CREATE SCHEMA {schema}")
    warehouse.run(f"CREATE TABLE penstock.positions ({_POSITIONS})")
    for n in range(_TABLES):
        warehouse.run(f"CREATE TABLE app.t{n} (id BIGINT, kind INT)")
        warehouse.run(f"CREATE TABLE mart.t{n} (kind INT, n BIGINT)")
        warehouse.run("INSERT INTO penstock.positions VALUES ('bench', 's', ?, 'topic', 0, 0)", [f"app.t{n}"])
        _add(warehouse, n, _ROWS_BEFORE)


def _add(warehouse: DuckdbWarehouse, n: int, rows: int) -> None:
    """Add rows as a load does, with how far it is."""
    table = f"app.t{n}"

    def load() -> None:
        above = f"(SELECT COALESCE(MAX(id), 0) FROM {table})"  # noqa: S608 - a name of ours
        warehouse.run(f"INSERT INTO {table} SELECT {above} + i, i % 100 FROM range(1, {rows + 1}) AS r(i)")  # noqa: S608 - as above
        warehouse.run(
            "UPDATE penstock.positions SET next_offset = next_offset + ? WHERE source_table = ?", [rows, table]
        )

    warehouse.transact(load)


def _require_equal(warehouse: DuckdbWarehouse) -> None:
    for n in range(_TABLES):
        ours, theirs = (f"SELECT kind, n FROM {schema}.t{n}" for schema in ("mart", "rebuilt"))  # noqa: S608 - names of ours
        if warehouse.fetch(f"({ours} EXCEPT {theirs}) UNION ALL ({theirs} EXCEPT {ours})"):
            message = f"the task's table t{n} is not what a rebuild makes of the same rows"
            raise PenstockError(message, "this is a mistake in the bench or in tasks: report it")
