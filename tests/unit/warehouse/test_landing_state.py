"""What is told of a landing zone whose streams or tasks are not as they were made."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlglot

from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.core.warehouse.landing import LandingZone, plan_landed_merge
from penstock.core.warehouse.landing_state import (
    StreamFound,
    TaskFound,
    Writer,
    ZoneFound,
    find_troubles,
    plan_foreign_rows,
)

ZONE = LandingZone("landing", "load_wh", "30 SECONDS")
SCHEMA = TableSchema(
    TableId("shop", "orders"), (Column("id", IntegerType(64, unsigned=False), nullable=False),), ("id",)
)
TASK = TaskFound(
    is_started=True, schedule="30 SECONDS", virtual_warehouse="LOAD_WH", definition=plan_landed_merge(ZONE, SCHEMA)
)


def told(task: TaskFound | None, stream: StreamFound | None, *writers: Writer) -> list[tuple[str, str, str]]:
    tasks = {} if task is None else {"shop.orders/task": task}
    streams = {} if stream is None else {"shop.orders/stream": stream}
    found = ZoneFound(tasks, streams, writers)
    return [(each.level, each.text, each.hint) for each in find_troubles(ZONE, SCHEMA, found)]


def test_nothing_is_told_of_what_is_as_it_was_made() -> None:
    assert told(TASK, StreamFound(is_stale=False)) == []


@pytest.mark.parametrize(
    ("task", "level", "text", "hint"),
    [
        (None, "error", "no task any more", "snowflake apply FILE"),
        (replace(TASK, error="no such column"), "error", "failed: no such column", "merged by the next run"),
        (replace(TASK, is_started=False), "error", "its task is suspended", "snowflake apply FILE"),
        (
            replace(TASK, is_started=False, error="boom"),
            "error",
            "after its last run failed: boom",
            "lets it run again",
        ),
        (replace(TASK, definition="SELECT 1"), "warning", "does something else", "snowflake plan FILE"),
        (replace(TASK, schedule="1 HOUR"), "warning", "1 HOUR on LOAD_WH", "snowflake apply FILE"),
    ],
)
def test_a_task_is_told_that_merges_not_or_not_as_it_should(
    task: TaskFound | None, level: str, text: str, hint: str
) -> None:
    ((told_level, told_text, told_hint),) = told(task, StreamFound(is_stale=False))

    assert (told_level, text in told_text, hint in told_hint) == (level, True, True), (told_text, told_hint)


@pytest.mark.parametrize(("stream", "text"), [(None, "no stream any more"), (StreamFound(is_stale=True), "is stale")])
def test_a_stream_is_told_that_is_gone_or_stale_with_what_to_type(stream: StreamFound | None, text: str) -> None:
    ((level, told_text, hint),) = told(TASK, stream)

    assert (level, text in told_text) == ("error", True)
    assert "penstock snowflake rebuild FILE shop.orders" in hint


def test_who_else_may_write_to_the_landing_table_is_told_with_what_takes_that_away() -> None:
    writers = Writer("shop.orders", "UPDATE", "ANALYST"), Writer("shop.others", "UPDATE", "ANALYST")

    ((level, text, hint),) = told(TASK, StreamFound(is_stale=False), *writers)

    assert (level, "the role ANALYST has UPDATE" in text) == ("warning", True)
    assert hint.endswith('REVOKE UPDATE ON TABLE "landing"."shop.orders" FROM ROLE "ANALYST"')


def test_of_a_task_that_fails_for_a_stale_stream_the_remedy_is_the_streams() -> None:
    (_, (_, _, hint)) = told(replace(TASK, error="stale"), StreamFound(is_stale=True))

    assert "penstock snowflake rebuild FILE shop.orders" in hint


def test_messages_that_cannot_be_ours_are_counted_by_one_query_a_table() -> None:
    query = plan_foreign_rows(LandingZone("landing", "WH", "1 MINUTE"), TableId("it's", "orders"))

    assert query.count("?") == 2
    assert "p.\"source_table\" = 'it''s.orders'" in query
    assert not isinstance(sqlglot.parse_one(query, read="snowflake"), sqlglot.exp.Command)
