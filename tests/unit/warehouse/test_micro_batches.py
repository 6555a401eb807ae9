"""Which tasks are due, in which order they run, and what they take for new."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import duckdb
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import PositionError, UsageError
from penstock.core.tables import TableId
from penstock.core.warehouse.dialect import DUCKDB
from penstock.core.warehouse.dialects import POSTGRES, REDSHIFT
from penstock.core.warehouse.micro_batches import (
    Offset,
    Stream,
    Task,
    TaskPlace,
    by_folded_names,
    choose_columns,
    find_due,
    has_work,
    order_tasks,
    parse_offset,
    render_offset,
    seconds_to_next,
    sees,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

TABLE = TableId("app", "events")
SQL = ("INSERT INTO mart.copied SELECT * FROM {stream}",)


@st.composite
def graphs(draw: st.DrawFn) -> list[Task]:
    """Tasks that come after some of those drawn before them, in any order."""
    tasks: list[Task] = []
    for number in range(draw(st.integers(1, 12))):
        names = [task.name for task in tasks]
        after = draw(st.lists(st.sampled_from(names), unique=True, max_size=3)) if names else []
        tasks.append(Task(f"t{number}", SQL, TABLE, after=tuple(after)))
    return draw(st.permutations(tasks))


@given(graphs())
def test_every_task_runs_behind_those_it_comes_after(tasks: list[Task]) -> None:
    names = [task.name for task in order_tasks(tasks)]

    assert sorted(names) == sorted(task.name for task in tasks)
    assert all(names.index(before) < names.index(task.name) for task in tasks for before in task.after)


def test_a_circle_is_named() -> None:
    tasks = [Task("a", SQL, after=("b",)), Task("b", SQL, after=("a",))]

    with pytest.raises(UsageError, match=r"in a circle: \w after \w after \w"):
        order_tasks(tasks)


@given(graphs(), st.data())
def test_with_tables_loaded_in_between_each_task_runs_once_for_all_that_came_before_it(
    tasks: list[Task], data: st.DataObject
) -> None:
    """Rounds like those of a run; what a task reads is taken for read when it has run."""
    order, places, loaded = order_tasks(tasks), dict[str, TaskPlace](), 0
    ran: list[str] = []

    def do_round() -> None:
        for task in order:
            seen = sees(task, {str(TABLE): str(loaded)} if loaded else {}, places)
            before = places.get(task.name, TaskPlace())
            if has_work(task, seen, before):
                ran.append(task.name)
                places[task.name] = TaskPlace(before.runs + 1, seen)

    for comes in data.draw(st.lists(st.booleans(), min_size=1, max_size=6)):
        loaded, before = loaded + comes, len(ran)
        do_round()
        assert sorted(ran[before:]) == (sorted(task.name for task in tasks) if comes else [])


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60), st.integers(1, 30))
def test_a_task_is_due_once_in_an_interval_and_never_waits_for_two(pauses: list[int], seconds: int) -> None:
    tasks = [Task("a", SQL, TABLE, seconds=seconds), Task("b", SQL, after=("a",))]
    now, checked_at, dues = 1_000.0, dict[str, float](), list[float]()

    for pause in pauses:
        now += pause
        if find_due(tasks, checked_at, now):
            dues.append(now)
            checked_at["a"] = now
        assert 0 <= seconds_to_next(tasks, checked_at, now) <= seconds

    assert dues[0] == 1_000.0 + pauses[0]
    assert all(later - sooner >= seconds for sooner, later in pairwise(dues))


_memory = duckdb.connect(config={"threads": 1})


def read(
    rows: list[tuple[str, int]], known: Offset | None, barrier: str = "0:0:0", by: tuple[str, str] = ("f", "n")
) -> tuple[list[tuple[str, int]], Offset | None]:
    """Read what is new in a table of DuckDB with these rows; return it and the offset behind it."""
    types: Mapping[str, str] = {by[0]: "VARCHAR", by[1]: "INTEGER"}
    stream = Stream(DUCKDB, "app.events", "events", by, types)
    _memory.execute(f"CREATE OR REPLACE TABLE events ({by[0]} VARCHAR, {by[1]} INTEGER)")
    if rows:
        _memory.executemany("INSERT INTO events VALUES (?, ?)", rows)
    end = _memory.execute(stream.plan_end()).fetchone()
    if end is None:
        return [], known
    row = _memory.execute(stream.plan_counts(known, end, f"'{barrier}'")).fetchone()
    assert row is not None
    after = stream.advance(known, end, row[:3], row[3])
    return _memory.execute(f"FROM {stream.render(known, after.values)} ORDER BY ALL").fetchall(), after


places = st.tuples(st.sampled_from(["b.1", "b.2", "it's"]), st.integers(-3, 9))


@settings(max_examples=20)
@given(st.lists(places, unique=True, max_size=6), st.data())
def test_rows_that_come_in_the_order_of_their_columns_are_read_once_and_others_are_refused(
    rows: list[tuple[str, int]], data: st.DataObject
) -> None:
    known, taken, there = None, list[tuple[str, int]](), list[tuple[str, int]]()
    for row in sorted(rows):
        there.append(row)
        if data.draw(st.booleans()):
            new, known = read(there, known)
            taken += new
            known = parse_offset(render_offset(known))
    new, known = read(there, known)

    assert taken + new == sorted(rows)
    if known is not None:
        with pytest.raises(PositionError, match="has got 1 rows that are not behind its offset"):
            read([*there, data.draw(st.sampled_from(rows))], known)


def test_a_table_that_was_filled_anew_is_not_read_a_second_time_nor_passed_over() -> None:
    _, known = read([("b.2", 1), ("b.2", 2)], None, "1:1:0")

    for anew in ([("b.3", 1), ("b.3", 2)], [("b.1", 1), ("b.1", 2)], [("b.1", 1)], [("b.2", 1), ("b.2", 3)]):
        with pytest.raises(PositionError, match="emptied or made anew") as told:
            read(anew, known, "2:1:0")
        assert "empty what the task made, and give it another name" in told.value.hint


def test_a_table_that_has_its_rows_again_is_read_on() -> None:
    _, known = read([("b.2", 1), ("b.2", 2)], None, "1:1:0")

    new, after = read([("b.2", 1), ("b.2", 2), ("b.2", 7)], known, "2:1:0")

    assert (new, after) == ([("b.2", 7)], Offset(("app.events", "f", "n"), ("b.2", "7"), 3, "2:1:0"))


def test_rows_that_are_deleted_stop_no_task_and_move_no_offset_back() -> None:
    _, known = read([("b.2", 1), ("b.2", 2)], None)

    new, known = read([("b.2", 1)], known)
    assert (new, known) == ([], Offset(("app.events", "f", "n"), ("b.2", "2"), 1, "0:0:0"))
    with pytest.raises(PositionError, match="1 rows that are not behind its offset"):
        read([("b.2", 1), ("b.2", 2)], known)
    assert read([("b.2", 3)], known)[0] == [("b.2", 3)]


def test_a_change_log_that_ends_before_the_offset_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    by = ("_file", "_pos")
    monkeypatch.setattr("penstock.core.warehouse.micro_batches.LOG_PLACE", by)
    _, known = read([("b.9", 1), ("b.9", 2)], None, by=by)

    with pytest.raises(PositionError, match=r"ends at b\.2 7, before its offset b\.9 2"):
        read([("b.2", 7)], known, by=by)


def test_the_sql_of_a_stream_is_what_every_warehouse_takes() -> None:
    types = {"_file": "VARCHAR(255)", "_pos": "BIGINT"}
    stream = Stream(POSTGRES, "app.events", '"app"."events"', ("_file", "_pos"), types)
    known = Offset(stream.columns, ("bin.1", "7"), 3, "")
    file, pos = "CAST('{0}' AS VARCHAR(255))", "CAST('{1}' AS BIGINT)"
    behind = f'("_file" > {file} OR ("_file" = {file} AND ("_pos" > {pos})))'

    queries = [
        stream.plan_end(),
        stream.plan_counts(known, ("it's", "9"), "'1:2:3'"),
        stream.render(known, ("it's", "9")),
    ]

    old, end = behind.format("bin.1", "7"), behind.format("it''s", "9")
    some = "COALESCE(SUM(CASE WHEN {} THEN 1 ELSE 0 END), 0)"
    counts = [some.format(each) for each in ('"_file" IS NULL OR "_pos" IS NULL', f"NOT {old}", f"NOT {end}")]
    texts = 'CAST(t."_file" AS VARCHAR), CAST(t."_pos" AS VARCHAR) FROM "app"."events" AS t'
    there, newest = '"_file" IS NOT NULL AND "_pos" IS NOT NULL', 't."_file" DESC, t."_pos" DESC LIMIT 1'
    assert queries == [
        f"SELECT {texts} WHERE {there} ORDER BY {newest}",
        f'SELECT {", ".join(counts)}, \'1:2:3\' FROM "app"."events"',
        f'(SELECT * FROM "app"."events" WHERE NOT {end} AND {old})',
    ]
    for dialect in ("postgres", "redshift", "duckdb"):
        assert all(sqlglot.parse_one(query, read=dialect) for query in queries)


def test_columns_are_found_however_they_are_written_where_all_names_are_small() -> None:
    task = Task("a", SQL, TABLE, by=("createdAt", "ID"))
    types = {"createdat": "TIMESTAMP", "id": "BIGINT"}

    assert choose_columns(REDSHIFT, task, types) == ("createdat", "id")
    with pytest.raises(UsageError, match="has no column createdAt"):
        choose_columns(POSTGRES, task, types)


def test_how_far_a_table_is_loaded_is_found_however_it_is_written_where_all_names_are_small() -> None:
    loads = {"Shop.Orders": "t/0:7"}

    assert by_folded_names(REDSHIFT, loads) == {"Shop.Orders": "t/0:7", "shop.orders": "t/0:7"}
    assert by_folded_names(POSTGRES, loads) == loads


def test_no_offset_is_kept_in_floats_of_which_not_all_digits_are_printed() -> None:
    task = Task("a", SQL, TABLE, by=("id", "seen"))
    types = {"id": "BIGINT", "seen": "DOUBLE PRECISION"}

    with pytest.raises(UsageError, match="by seen, of whose floats redshift does not print all digits"):
        choose_columns(REDSHIFT, task, types)
    assert choose_columns(POSTGRES, task, types) == ("id", "seen")
