"""Which messages a merge takes that sees all of a landing table, run by DuckDB in Snowflake's dialect."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb
import pytest
import sqlglot

from penstock.core.batches import Batch
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.core.warehouse.landing import LandingZone, plan_landed_merge, render_position
from penstock.core.warehouse.messages import render_barrier, render_schema_changes

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = TableSchema(
    TableId("shop", "orders"), (Column("id", IntegerType(32, unsigned=False), nullable=False),), ("id",)
)
_COLUMNS = '"message" JSON, "topic" VARCHAR, "partition" INT, "offset" INT, "position" VARCHAR'
_BEFORE = [(0, 0, 10), (0, 1, 20), (1, 0, 18)]
"""Messages that landed before the columns changed: partition, offset, and how far in the log."""
_LATE = (1, 1, 19)
_BEHIND = (0, 2, 31)
_CREATE = Batch(
    "src", SCHEMA.table, "t", 0, 0, 0, 0, "", 0, "parquet", 1, (0, 0, 0), (0, 0, 0), 0, SchemaChangeKind.CREATE
)
_OLD_ENTRY = json.dumps([{"message": {"op": "schema"}, "position": render_position((0, 20, 0))}])


def taken(
    messages: Sequence[tuple[int, int, int]], entries: str, topic: str = "t", row_of: int | None = None
) -> set[tuple[int, int]]:
    """Return the partition and offset of each message that is merged; each is of a key of its own.

    With `row_of` the messages are rows of a copy at this place, with numbers.
    """
    rows = [
        {"message": {"op": "u", "row": {"id": f"{partition}{offset}"}}, "topic": topic}
        | {
            "partition": partition,
            "offset": offset,
            "position": render_position((0, at, 0) if row_of is None else (0, row_of, at)),
        }
        for partition, offset, at in messages
    ]
    with duckdb.connect() as connection:
        connection.execute(f'CREATE SCHEMA "landing"; CREATE TABLE "landing"."shop.orders/stream" ({_COLUMNS})')
        for row in [*rows, *json.loads(entries)]:
            values = [json.dumps(row["message"]), *map(row.get, ("topic", "partition", "offset", "position"))]
            connection.execute('INSERT INTO "landing"."shop.orders/stream" VALUES (?, ?, ?, ?, ?)', values)
        merge = sqlglot.parse_one(plan_landed_merge(LandingZone("landing", "WH", "1 MINUTE"), SCHEMA), "snowflake")
        query = merge.args["using"].this.sql("duckdb").replace("->", "->>")
        return {divmod(int(row[1]), 10) for row in connection.execute(query).fetchall()}


def test_what_landed_before_its_columns_changed_is_not_merged_again_and_what_came_late_is() -> None:
    entries = render_schema_changes({("t", 0): 2, ("t", 1): 1}, (0, 30, 0))

    assert taken([*_BEFORE, _LATE, _BEHIND], entries) == {_LATE[:2], _BEHIND[:2]}


def test_each_change_of_columns_counts() -> None:
    first, second = ({("t", 0): 1, ("t", 1): 1}, (0, 15, 0)), ({("t", 0): 2, ("t", 1): 2}, (0, 30, 0))
    entries = json.loads(render_schema_changes(*first)) + json.loads(render_schema_changes(*second))

    assert taken([*_BEFORE, _LATE, _BEHIND], json.dumps(entries)) == {_BEHIND[:2]}


@pytest.mark.parametrize(("topic", "number"), [("t", 2), ("other", 3)])
def test_a_topic_that_counts_its_offsets_anew_loses_nothing(topic: str, number: int) -> None:
    entries = render_schema_changes({("t", 0): 1000, ("t", number): 2}, (0, 30, 0))

    assert taken([(0, 0, 30), (0, 1, 31)], entries, topic) == {(0, 0), (0, 1)}


def test_an_entry_of_an_older_release_says_a_place_alone() -> None:
    assert taken([*_BEFORE, _LATE, _BEHIND], _OLD_ENTRY) == {_BEHIND[:2]}


@pytest.mark.parametrize("left_over", [0, 1, 3])
def test_a_copy_that_begins_again_is_merged_from_its_first_row_on_and_nothing_of_the_one_before(left_over: int) -> None:
    before = [(0, number, number) for number in range(left_over)]
    again = [(1, number, left_over + number) for number in range(2)]
    place = (0, 700, left_over or -1)
    event = replace(_CREATE, first_order=place, last_order=place)

    merged = taken([*before, *again], f"[{render_barrier(event)}]", row_of=700)

    assert merged == {(1, 0), (1, 1)}


@pytest.mark.parametrize("row", [0, 5])
def test_what_came_before_a_barrier_is_not_merged(row: int) -> None:
    event = replace(_CREATE, first_order=(0, 700, row), last_order=(0, 700, row))

    assert taken([(0, 0, 699), (0, 1, 701)], f"[{render_barrier(event)}]") == {(0, 1)}
