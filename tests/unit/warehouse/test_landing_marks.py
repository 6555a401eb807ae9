"""Which messages a merge takes that sees all of a landing table, run by DuckDB in Snowflake's dialect."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import duckdb
import pytest
import sqlglot

from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.core.warehouse.landing import LandingZone, plan_landed_merge, render_position
from penstock.core.warehouse.messages import render_schema_changes

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
_OLD_ENTRY = json.dumps([{"message": {"op": "schema"}, "position": render_position((0, 20, 0))}])


def taken(messages: Sequence[tuple[int, int, int]], entries: str, topic: str = "t") -> set[tuple[int, int]]:
    """Return the partition and offset of each message that is merged; each is of a key of its own."""
    rows = [
        {"message": {"op": "u", "row": {"id": f"{partition}{offset}"}}, "topic": topic}
        | {"partition": partition, "offset": offset, "position": render_position((0, at, 0))}
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
