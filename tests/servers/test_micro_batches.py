"""Tasks in a target: each row of a stream is taken once, whatever ends the process."""

from __future__ import annotations

import multiprocessing
import os
import signal
from contextlib import closing
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest
from tests.servers.cut_warehouse import CutError, CutWarehouse
from tests.servers.kinds import first
from tests.servers.sink_case import SCHEMAS, TABLE, Place, schema_change, write_batch

from penstock.core.errors import PositionError, SinkError, UnavailableError, UsageError
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.core.warehouse.micro_batches import Task
from penstock.links.warehouse.micro_batches import TaskRuns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.servers.sink_case import Target

    from penstock.core.batches import Batch
    from penstock.links.warehouse.sink import SqlSink
    from penstock.ports.warehouse import Value, Warehouse

KINDS = ("duckdb", "postgres", "redshift")
on_each = pytest.mark.parametrize("place", KINDS, indirect=True)
on_each_but_redshift_nightly = pytest.mark.parametrize("place", first(2, *KINDS), indirect=True)
"""On Redshift's stand-in each of these takes seconds; that a task is one transaction, others show every time."""
on_duckdb_and_redshift = pytest.mark.parametrize("place", first(2, "duckdb", "redshift", "postgres"), indirect=True)
on_each_nightly = pytest.mark.parametrize("place", first(1, *KINDS), indirect=True)
"""What does not differ between targets is shown on DuckDB for each change."""

EVENTS = TableSchema(TableId("app", "events"), (Column("id", IntegerType(32, unsigned=False), nullable=True),), ())
COPY = Task("copy", ("INSERT INTO mart.copied SELECT id FROM {stream} AS s WHERE _op = 'c'",), EVENTS.table)


def add_events(place: Place, sink: SqlSink, start: int, end: int) -> None:
    """Load entries of a change log."""
    batch = write_batch(place, EVENTS, 1, start, [(number, "c") for number in range(start, end)])
    sink.load(EVENTS.table, [batch], {1: EVENTS})


def make_mart(place: Place) -> None:
    place.do("CREATE SCHEMA mart", "CREATE TABLE mart.copied (id INTEGER)")


def copied(place: Place) -> list[int]:
    return [int(number) for (number,) in place.ask("SELECT id FROM mart.copied ORDER BY id")]


def run(place: Place, *tasks: Task) -> list[str]:
    """Run what has something to do, in a process of its own as it were; return the names of those that ran."""
    with closing(TaskRuns(place.target.connect("shop/tasks"), "shop", ["shopdb"])) as runs:
        runs.start()
        loads = runs.loads()
        return [task.name for task in tasks if runs.has_work(task, loads) and runs.run(task)]


@on_each_but_redshift_nightly
def test_numbers_are_read_in_their_order_and_not_in_that_of_their_texts(place: Place) -> None:
    make_mart(place)
    sink = place.open()
    add_events(place, sink, 0, 12)
    ran = [run(place, COPY)]
    add_events(place, sink, 12, 101)
    ran.append(run(place, COPY))

    assert (ran, copied(place)) == ([["copy"], ["copy"]], list(range(101)))


@on_each_but_redshift_nightly
def test_each_entry_is_taken_once_though_the_task_is_cut_at_every_statement(place: Place) -> None:
    make_mart(place)
    sink, tries = place.open(), 0

    for tries in count():
        add_events(place, sink, tries, tries + 1)
        cut = CutWarehouse(place.target.connect("shop/tasks"), tries)
        runs = TaskRuns(cut, "shop", ["shopdb"])  # type: ignore[arg-type]  # it has the rest by `__getattr__`
        try:
            runs.start()
            runs.run(COPY)
        except CutError:
            continue
        runs.close()
        break

    assert tries > 8
    assert copied(place) == list(range(tries + 1))
    assert run(place, COPY) == []


class DyingWarehouse:
    """A warehouse whose process is killed behind a statement on `mart`, ahead of its commit."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def run(self, statement: str, values: Sequence[Value] = ()) -> None:
        self._warehouse.run(statement, values)
        if "mart" in statement:
            os.kill(os.getpid(), signal.SIGKILL)

    def __getattr__(self, name: str) -> object:
        return getattr(self._warehouse, name)


def run_and_die(target: Target) -> None:
    dying = DyingWarehouse(target.connect("shop/tasks"))
    runs = TaskRuns(dying, "shop", ["shopdb"])  # type: ignore[arg-type]  # as above
    runs.start()
    runs.run(COPY)


@on_each
@pytest.mark.nightly
def test_a_process_that_is_killed_between_rows_and_commit_leaves_nothing_and_loses_nothing(place: Place) -> None:
    make_mart(place)
    add_events(place, place.open(), 0, 3)
    place.close()
    process = multiprocessing.get_context("spawn").Process(target=run_and_die, args=[place.target])
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL

    assert copied(place) == []
    assert run(place, COPY) == ["copy"]
    assert copied(place) == [0, 1, 2]


@on_each_nightly
def test_a_task_behind_another_runs_once_for_each_run_of_that_and_not_without(place: Place) -> None:
    make_mart(place)
    sink = place.open()
    total = Task(
        "total", ("DELETE FROM mart.total", "INSERT INTO mart.total SELECT COUNT(*) FROM mart.copied"), after=("copy",)
    )
    place.do("CREATE TABLE mart.total (n INTEGER)")

    ran = [run(place, COPY, total)]
    add_events(place, sink, 0, 2)
    ran += [run(place, COPY), run(place, COPY, total), run(place, COPY, total)]
    add_events(place, sink, 2, 5)
    ran += [run(place, COPY, total)]

    assert ran == [[], ["copy"], ["total"], [], ["copy", "total"]]
    assert place.ask("SELECT n FROM mart.total") == [(5,)]


@on_each_nightly
def test_rows_that_come_below_the_offset_stop_the_task_and_move_nothing(place: Place) -> None:
    make_mart(place)
    sink = place.open()
    by_id = Task("by_qty", ("INSERT INTO mart.copied SELECT qty FROM {stream} AS s",), TABLE, by=("qty",))
    sink.load(TABLE, [place.batch(0, [("c", "a", 1), ("c", "b", 5)])], SCHEMAS)
    assert run(place, by_id) == ["by_qty"]

    sink.load(TABLE, [place.batch(2, [("c", "c", 3), ("c", "d", 7)])], SCHEMAS)
    with pytest.raises(PositionError, match="has got 1 rows that are not behind its offset"):
        run(place, by_id)
    assert copied(place) == [1, 5]

    sink.load(TABLE, [place.batch(4, [("d", "c", None)])], SCHEMAS)
    assert run(place, by_id) == ["by_qty"]
    assert copied(place) == [1, 5, 7]


@pytest.mark.nightly
@on_each
def test_a_change_log_is_read_on_behind_a_truncate_and_not_once_its_rows_came_anew(place: Place) -> None:
    make_mart(place)
    sink = place.open()
    add_events(place, sink, 0, 2)
    assert run(place, COPY) == ["copy"]

    sink.load(EVENTS.table, [stated(SchemaChangeKind.TRUNCATE, 2)], {1: EVENTS})
    add_events(place, sink, 3, 5)
    assert (run(place, COPY), copied(place)) == (["copy"], [0, 1, 3, 4])

    sink.load(EVENTS.table, [stated(SchemaChangeKind.CREATE, 5)], {1: EVENTS})
    add_events(place, sink, 6, 10)
    with pytest.raises(PositionError, match="was emptied or made anew"):
        run(place, COPY)
    assert copied(place) == [0, 1, 3, 4]

    place.do("DELETE FROM mart.copied")
    assert (run(place, replace(COPY, name="again")), copied(place)) == (["again"], [6, 7, 8, 9])


def stated(kind: SchemaChangeKind, at: int) -> Batch:
    """A statement on the change log at `at`, where its entries are where their offsets say."""
    told = replace(schema_change(1, at), table=EVENTS.table, end_offset=at + 1, kind=kind, file="bin.000001")
    return replace(told, first_order=(1, at, 0), last_order=(1, at, 0))


@on_each_nightly
def test_a_change_log_whose_rows_come_by_several_partitions_is_not_read_by_its_places(place: Place) -> None:
    make_mart(place)
    sink = place.open()
    add_events(place, sink, 0, 2)
    spread = replace(write_batch(place, EVENTS, 1, 0, [(7, "c")]), partition=1)
    sink.load(EVENTS.table, [spread], {1: EVENTS})

    with pytest.raises(UsageError, match="by several partitions"):
        run(place, COPY)


@on_each_nightly
def test_a_task_that_is_to_read_by_other_columns_does_not_read_its_rows_twice(place: Place) -> None:
    make_mart(place)
    add_events(place, place.open(), 0, 2)
    assert run(place, COPY) == ["copy"]
    add_events(place, place.opened[0], 2, 4)

    with pytest.raises(UsageError, match=r"has read app\.events, _file, _pos, _row; now it is to read app\.events, id"):
        run(place, replace(COPY, by=("id",)))


@on_each_nightly
def test_a_table_with_a_key_needs_columns_to_be_read_by_or_a_task_that_reads_all_of_it(place: Place) -> None:
    make_mart(place)
    sink = place.open()
    sink.load(TABLE, [place.batch(0, [("c", "a", 1), ("c", "b", 5)])], SCHEMAS)
    with pytest.raises(UsageError, match=r"shop\.orders, which has no column _file"):
        run(place, Task("news", ("INSERT INTO mart.copied SELECT qty FROM {stream} AS s",), TABLE))

    anew = Task("anew", ("DELETE FROM mart.copied", "INSERT INTO mart.copied SELECT qty FROM shop.orders"), TABLE)
    assert (run(place, anew), run(place, anew)) == (["anew"], [])
    sink.load(TABLE, [place.batch(2, [("u", "a", 9)])], SCHEMAS)
    assert (run(place, anew), copied(place)) == (["anew"], [5, 9])


@pytest.mark.nightly
@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_a_task_whose_table_somebody_locks_leaves_a_target_that_answers(place: Place) -> None:
    make_mart(place)
    add_events(place, place.open(), 0, 2)
    locked = replace(COPY, statements=("LOCK TABLE mart.copied IN EXCLUSIVE MODE NOWAIT", *COPY.statements))

    with closing(TaskRuns(place.target.connect("shop/tasks"), "shop", ["shopdb"])) as runs:
        runs.start()
        with closing(place.target.connect("somebody")) as somebody:

            def hold() -> None:
                somebody.run("LOCK TABLE mart.copied IN EXCLUSIVE MODE")
                with pytest.raises(UnavailableError, match="did not grant a lock in time"):
                    runs.run(locked)
                assert list(runs.loads()) == ["app.events"]

            somebody.transact(hold)
        assert runs.run(locked)
    assert copied(place) == [0, 1]


@on_duckdb_and_redshift
def test_a_statement_that_fails_takes_the_others_of_its_task_back(place: Place) -> None:
    make_mart(place)
    add_events(place, place.open(), 0, 2)
    wrong = Task("copy", (*COPY.statements, "INSERT INTO mart.nowhere SELECT 1"), EVENTS.table)

    with pytest.raises(SinkError, match="nowhere"):
        run(place, wrong)

    assert copied(place) == []
    assert run(place, COPY) == ["copy"]
    assert copied(place) == [0, 1]
