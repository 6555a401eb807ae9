"""Figure: how long a round takes where a pipeline carries very many tables, of which a few are active."""

from __future__ import annotations

import statistics
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

from penstock.adapters.mysql.connection import ask, connect
from penstock.bench.capture.workload import login
from penstock.bench.figure import Figure
from penstock.bench.marks import tail
from penstock.bench.meter import Meter
from penstock.bench.warehouse.compare import connect_postgres, create_database
from penstock.bench.warehouse.pipeline import TargetPipeline, postgres_sink
from penstock.core.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import psycopg
    import pymysql

    from penstock.bench.lab import Lab
    from penstock.embedded.processes import Child

_SCHEMA: Final = "bench_tables"
_ROWS_PER_TABLE: Final = 1_000
"""Of the rows of the other parts: a thousand tables for a million."""
_ACTIVE: Final = 20
_ROUNDS: Final = 7
_CHANGES: Final = 50
_POLL_SECONDS: Final = 0.05
_START_SECONDS: Final = 3600.0
_ROUND_SECONDS: Final = 600.0


def measure(lab: Lab) -> Sequence[Figure]:
    """From the last commit in the source until all rows of a round are in PostgreSQL; the pipeline runs."""
    tables = max(_ACTIVE, lab.settings.rows // _ROWS_PER_TABLE)
    create_database(lab.postgres(), _SCHEMA)
    pipeline = TargetPipeline(
        lab, _SCHEMA, f"{_SCHEMA}.*", lab.folder(_SCHEMA), {"postgres": postgres_sink(lab.postgres(), _SCHEMA)}
    )
    pipeline.write_file()
    with (
        closing(connect(login(lab.source()))) as source,
        closing(connect_postgres(lab.postgres(), _SCHEMA)) as target,
    ):
        lab.say(f"tables: making {tables:,} tables")
        _make_tables(source, tables)
        child = pipeline.start("run", str(pipeline.file), log="run.log")
        try:
            lab.say("tables: waiting until all of them are in the target")
            count = f"SELECT count(*) FROM information_schema.tables WHERE table_schema = '{_SCHEMA}'"  # noqa: S608 - our own name
            _await(
                child, lambda: _number(target, "SELECT to_regclass('penstock.tables') IS NOT NULL") == 1, _START_SECONDS
            )
            _await(child, lambda: _number(target, count) == tables, _START_SECONDS)
            lab.say(f"tables: {_ROUNDS} rounds")
            with Meter(child.pid) as meter:
                begin = time.monotonic()
                rounds = [_measure_round(source, target, child, number, tables) for number in range(_ROUNDS)]
                meter.sample()
                cpu = meter.cpu_between(begin, time.monotonic()) / _ROUNDS
        finally:
            child.stop()
    # The first one finds connections that have to be opened, and code that is to be imported.
    seconds = statistics.median(rounds[1:])
    longest = max(rounds)
    note = f"{_CHANGES} rows into each; median of {_ROUNDS - 1} rounds, the longest took {longest:.2f} s"
    name = f"a round of {_ACTIVE} active tables among {tables:,}"
    return [
        Figure(name, "seconds", "less", seconds, target=10, target_of="value", note=note),
        Figure(f"{name}, CPU", "CPU seconds", "less", cpu, note="all of Penstock, capture included"),
    ]


def _make_tables(source: pymysql.Connection, tables: int) -> None:
    ask(source, f"CREATE DATABASE {_SCHEMA}")
    for number in range(tables):
        ask(source, f"CREATE TABLE {_table(number)} (id INT PRIMARY KEY, name VARCHAR(40), amount DECIMAL(10,2))")
        ask(source, f"INSERT INTO {_table(number)} VALUES (0, 'the first', 0.5)")  # noqa: S608 - our own names


def _measure_round(
    source: pymysql.Connection, target: psycopg.Connection, child: Child, number: int, tables: int
) -> float:
    active = [_table((number + place * (tables // _ACTIVE)) % tables) for place in range(_ACTIVE)]
    first = number * _CHANGES + 1
    for table in active:
        rows = ", ".join(f"({first + n}, 'round {number}', {n}.25)" for n in range(_CHANGES))
        ask(source, f"INSERT INTO {table} VALUES {rows}")  # noqa: S608 - our own names and numbers
    begin = time.monotonic()
    counts = " + ".join(f"(SELECT count(*) FROM {table} WHERE id >= {first})" for table in active)  # noqa: S608 - as above
    _await(child, lambda: _number(target, f"SELECT {counts}") == _ACTIVE * _CHANGES, _ROUND_SECONDS)
    return time.monotonic() - begin


def _table(number: int) -> str:
    return f"{_SCHEMA}.t{number:05d}"


def _number(target: psycopg.Connection, query: str) -> int:
    (found,) = target.execute(query.encode()).fetchone() or (0,)
    return int(found)


def _await(child: Child, is_so: Callable[[], bool], wait_seconds: float) -> None:
    deadline = time.monotonic() + wait_seconds
    while not is_so():
        if not child.alive() or time.monotonic() > deadline:
            message = f"the rows did not come to the target: {tail(child.log)}"
            raise UnavailableError(message, f"read {child.log}")
        time.sleep(_POLL_SECONDS)
