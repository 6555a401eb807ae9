"""The exact SQL of task graphs behind a landing zone, and what is told of those that are not as they were made."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlglot
from sqlglot import exp

from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.core.warehouse.landing import LandingZone, plan_end, plan_task
from penstock.core.warehouse.landing_state import (
    StreamFound,
    TaskFound,
    ZoneFound,
    find_cleared,
    find_halted,
    find_removed,
    find_task_troubles,
    plan_clearing,
    roots_of,
)
from penstock.core.warehouse.landing_tasks import ZoneTask, plan_graphs, plan_removal, plan_streams_anew

ORDERS = TableId("shop", "orders")
SCHEMA = TableSchema(ORDERS, (Column("id", IntegerType(64, unsigned=False), nullable=False),), ("id",))
CREATE = "CREATE TABLE IF NOT EXISTS mart.days (id INT)"
READ = ZoneTask(
    "shop/read", (CREATE, "INSERT INTO mart.days SELECT id FROM {stream}"), "shop.orders", ORDERS, "", ("shop.orders",)
)
READ = replace(READ, stream=ORDERS)
SUMS = ZoneTask("shop/sums", ("DELETE FROM mart.sum -- all", "INSERT INTO mart.sum SELECT 1"), "shop.orders", ORDERS)
SUMS = replace(SUMS, after=("shop/read", "shop.orders"))
HOURLY = ZoneTask("shop/hourly", ("DELETE FROM mart.x",), "shop/hourly", None, "1 HOUR", failures_max=3)
ZONE = LandingZone("landing", "load_wh", "30 SECONDS", (), (READ, SUMS, HOURLY))


def test_tasks_behind_a_merge_are_made_while_it_is_suspended_and_resumed_with_it() -> None:
    suspend, merge, *graph = plan_task(ZONE, SCHEMA)

    assert suspend == 'ALTER TASK IF EXISTS "landing"."shop.orders/task" SUSPEND'
    assert merge.startswith(
        'CREATE OR REPLACE TASK "landing"."shop.orders/task" WAREHOUSE = load_wh SCHEDULE = \'30 SECONDS\' '
        "QUOTED_IDENTIFIERS_IGNORE_CASE = FALSE, DATE_INPUT_FORMAT = 'AUTO', TIMESTAMP_INPUT_FORMAT = 'AUTO' "
        "SUSPEND_TASK_AFTER_NUM_FAILURES = 0 WHEN "
    )
    assert graph == [
        'ALTER TASK IF EXISTS "landing"."shop/read/task" SUSPEND',
        'ALTER TASK IF EXISTS "landing"."shop/sums/task" SUSPEND',
        CREATE,
        'CREATE STREAM IF NOT EXISTS "landing"."shop/read/stream" ON TABLE "shop"."orders" SHOW_INITIAL_ROWS = TRUE',
        (
            'CREATE OR REPLACE TASK "landing"."shop/read/task" WAREHOUSE = load_wh '
            "QUOTED_IDENTIFIERS_IGNORE_CASE = FALSE "
            'AFTER "landing"."shop.orders/task" WHEN SYSTEM$STREAM_HAS_DATA(\'"landing"."shop/read/stream"\') '
            'AS INSERT INTO mart.days SELECT id FROM "landing"."shop/read/stream"'
        ),
        (
            'CREATE OR REPLACE TASK "landing"."shop/sums/task" WAREHOUSE = load_wh '
            "QUOTED_IDENTIFIERS_IGNORE_CASE = FALSE "
            'AFTER "landing"."shop/read/task", "landing"."shop.orders/task" '
            "AS BEGIN BEGIN TRANSACTION; DELETE FROM mart.sum -- all\n; INSERT INTO mart.sum SELECT 1\n; COMMIT; "
            "EXCEPTION WHEN OTHER THEN ROLLBACK; RAISE; END"
        ),
        'SELECT SYSTEM$TASK_DEPENDENTS_ENABLE(\'"landing"."shop.orders/task"\')',
    ]
    for statement in (graph[2], READ.body(ZONE), graph[-1]):
        assert not isinstance(sqlglot.parse_one(statement, dialect="snowflake"), exp.Command)


@pytest.mark.parametrize("comment", ["-- theirs\n", "/* theirs */ ", "// theirs; 'its\n"])
def test_a_comment_ahead_of_create_keeps_it_out_of_the_transaction(comment: str) -> None:
    task = replace(READ, statements=(comment + CREATE, READ.statements[1]))

    assert task.body(ZONE) == READ.body(ZONE)
    assert comment + CREATE in plan_graphs(replace(ZONE, tasks=(task,)), ORDERS)


def test_a_graph_of_no_table_has_a_root_of_its_own_that_counts_failures() -> None:
    assert plan_graphs(ZONE, None) == [
        'ALTER TASK IF EXISTS "landing"."shop/hourly/task" SUSPEND',
        (
            'CREATE OR REPLACE TASK "landing"."shop/hourly/task" WAREHOUSE = load_wh SCHEDULE = \'1 HOUR\' '
            "QUOTED_IDENTIFIERS_IGNORE_CASE = FALSE SUSPEND_TASK_AFTER_NUM_FAILURES = 3 AS DELETE FROM mart.x"
        ),
        'SELECT SYSTEM$TASK_DEPENDENTS_ENABLE(\'"landing"."shop/hourly/task"\')',
    ]


def test_a_table_ends_with_the_graph_behind_it_from_its_last_task_on() -> None:
    assert plan_end(ZONE, ORDERS) == [
        'ALTER TASK IF EXISTS "landing"."shop.orders/task" SUSPEND',
        'DROP TASK IF EXISTS "landing"."shop/sums/task"',
        'DROP TASK IF EXISTS "landing"."shop/read/task"',
        'DROP STREAM IF EXISTS "landing"."shop/read/stream"',
        'DROP TASK IF EXISTS "landing"."shop.orders/task"',
        'DROP STREAM IF EXISTS "landing"."shop.orders/stream"',
    ]


def test_streams_begin_again_where_their_table_was_replaced() -> None:
    assert plan_streams_anew(ZONE, ORDERS) == [
        'CREATE OR REPLACE STREAM "landing"."shop/read/stream" ON TABLE "shop"."orders" SHOW_INITIAL_ROWS = TRUE'
    ]


FOUND = TaskFound(
    is_started=True,
    schedule="",
    virtual_warehouse="LOAD_WH",
    definition=READ.body(ZONE),
    condition=READ.condition(ZONE),
    predecessors=("shop.orders/task",),
)
OTHERS = {
    "shop/sums/task": replace(FOUND, definition=SUMS.body(ZONE), condition="", predecessors=SUMS.predecessors),
    "shop/hourly/task": replace(
        FOUND, schedule="1 HOUR", definition="DELETE FROM mart.x", condition="", predecessors=()
    ),
}
STREAMS = {"shop/read/stream": StreamFound(is_stale=False)}


def test_nothing_is_told_of_tasks_that_are_as_they_were_made() -> None:
    found = ZoneFound({"shop/read/task": FOUND, **OTHERS}, STREAMS)

    assert [*find_task_troubles(ZONE, ORDERS, found), *find_task_troubles(ZONE, None, found)] == []
    assert find_removed(ZONE, "shop", found) == []


@pytest.mark.parametrize(
    ("task", "level", "text"),
    [
        (None, "error", "Snowflake has no such task"),
        (replace(FOUND, error="no such column"), "error", "its last run failed: no such column"),
        (replace(FOUND, is_started=False, error="boom"), "error", "it is suspended after its last run failed: boom"),
        (replace(FOUND, definition="SELECT 1"), "warning", "another one in Snowflake than in the file"),
        (replace(FOUND, predecessors=()), "warning", "another one in Snowflake than in the file"),
        (replace(FOUND, condition=""), "warning", "another one in Snowflake than in the file"),
    ],
)
def test_a_task_is_told_that_runs_not_or_is_another_one(task: TaskFound | None, level: str, text: str) -> None:
    tasks = OTHERS if task is None else {"shop/read/task": task, **OTHERS}

    (told,) = find_task_troubles(ZONE, ORDERS, ZoneFound(tasks, STREAMS))

    assert (told.table, told.level, text in told.text) == ("task read", level, True), told.text


@pytest.mark.parametrize(
    ("streams", "text", "hint"),
    [
        ({}, "it has no stream on shop.orders", "snowflake apply FILE"),
        ({"shop/read/stream": StreamFound(is_stale=True)}, "is stale", "CREATE OR REPLACE STREAM"),
    ],
)
def test_a_stream_of_a_task_is_told_that_is_gone_or_stale(
    streams: dict[str, StreamFound], text: str, hint: str
) -> None:
    (told,) = find_task_troubles(ZONE, ORDERS, ZoneFound({"shop/read/task": FOUND, **OTHERS}, streams))

    assert (text in told.text, hint in told.hint) == (True, True), told


def test_a_task_that_moves_behind_another_table_leaves_the_graph_of_the_first_before_either_is_made_anew() -> None:
    merges = {f"shop.{name}/task": replace(FOUND, predecessors=()) for name in ("orders", "lines")}
    moved = replace(FOUND, predecessors=("shop.lines/task",))
    found = ZoneFound({**OTHERS, **merges, "shop/read/task": moved}, STREAMS)

    assert plan_clearing(ZONE, "shop", found) == [
        'ALTER TASK IF EXISTS "landing"."shop.lines/task" SUSPEND',
        'ALTER TASK IF EXISTS "landing"."shop/read/task" SUSPEND',
        'DROP TASK IF EXISTS "landing"."shop/read/task"',
    ]
    scheduled = replace(FOUND, predecessors=(), schedule="1 HOUR")
    assert find_cleared(ZONE, "shop", replace(found, tasks={"shop/read/task": scheduled})) == {"shop/read/task": True}


def test_roots_that_ran_before_and_were_suspended_in_vain_run_again() -> None:
    root = replace(FOUND, predecessors=())
    halted = replace(root, is_started=False)
    before = ZoneFound({"a": root, "b": root, "c": halted, "d": FOUND, "e": root}, {})
    now = ZoneFound({"a": halted, "b": root, "c": halted, "d": replace(FOUND, is_started=False)}, {})

    assert find_halted("edcbaf", before, now) == ["a"]


@pytest.mark.parametrize(
    ("table", "is_on"),
    [
        ("DB.shop.orders", True),
        ("shop.orders", True),
        ("orders", True),
        ("", True),
        ("DB.shop.lines", False),
        ("DB.other.orders", False),
        ("No privilege or table dropped", False),
    ],
)
def test_a_stream_on_another_table_is_told_and_dropped(table: str, is_on: bool) -> None:  # noqa: FBT001
    streams = {"shop/read/stream": StreamFound(is_stale=False, table=table)}
    found = ZoneFound({"shop.orders/task": replace(FOUND, predecessors=()), "shop/read/task": FOUND, **OTHERS}, streams)

    told = [each.text for each in find_task_troubles(ZONE, ORDERS, found)]
    assert told == ([] if is_on else [f"its stream is on {table}, and the file says shop.orders"])
    assert plan_clearing(ZONE, "shop", found)[-2:] == (
        []
        if is_on
        else ['DROP TASK IF EXISTS "landing"."shop/read/task"', 'DROP STREAM IF EXISTS "landing"."shop/read/stream"']
    )


def test_a_task_that_the_file_has_no_more_is_removed_once_the_root_of_its_graph_is_suspended() -> None:
    gone = {"shop/old/task": replace(FOUND, predecessors=("shop/read/task",)), "other/old/task": FOUND}
    found = ZoneFound({"shop/read/task": FOUND, "shop.orders/task": replace(FOUND, predecessors=()), **gone}, {})

    assert find_removed(ZONE, "shop", found) == ["shop/old/task"]
    assert plan_removal(ZONE, "shop/old/task", roots_of("shop/old/task", found)) == [
        'ALTER TASK IF EXISTS "landing"."shop.orders/task" SUSPEND',
        'ALTER TASK IF EXISTS "landing"."shop/old/task" SUSPEND',
        'DROP TASK IF EXISTS "landing"."shop/old/task"',
        'DROP STREAM IF EXISTS "landing"."shop/old/stream"',
    ]
