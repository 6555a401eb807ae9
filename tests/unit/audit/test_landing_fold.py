"""The SQL that folds a landing table for an audit, run by DuckDB in Snowflake's dialect, beside a fold in Python."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from penstock.core.audit.landing import describe_foreign, folded_rows, foreign_query, lacking_query, unmerged_query
from penstock.core.tables import Column, IntegerType, TableId, TableSchema, TextType
from penstock.core.warehouse.landing import LandingZone

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ZONE = LandingZone("landing", "WH", "1 MINUTE")
TABLE = TableId("shop", "orders")
SCHEMA = TableSchema(
    TABLE,
    (
        Column("id", IntegerType(32, unsigned=False), nullable=False),
        Column("note", TextType(40, "utf8mb4"), nullable=True),
    ),
    ("id",),
)
PARTIAL = replace(SCHEMA, partial_rows=True)

Message = tuple[str, int, str | None, bool]
"""What it does, the key, the note, and whether it has one."""


def landing(messages: Sequence[Message]) -> duckdb.DuckDBPyConnection:
    """A landing table with these messages, one a batch."""
    connection = duckdb.connect()
    connection.execute('CREATE SCHEMA "landing"')
    columns = (
        '"message" JSON, "topic" VARCHAR, "partition" INT, "offset" INT, "position" VARCHAR, "loaded_at" TIMESTAMP'
    )
    connection.execute(f'CREATE TABLE "landing"."shop.orders" ({columns})')
    for number, (op, key, note, has_note) in enumerate(messages):
        row: dict[str, Any] = {"id": str(key), **({"note": note} if has_note else {})}
        message = {"op": op} if op == "truncate" else {"op": op, "row": row}
        place = ("t", 0, None if op == "truncate" else number, f"{number:09d}")
        connection.execute(
            'INSERT INTO "landing"."shop.orders" VALUES (?, ?, ?, ?, ?, NULL)', [json.dumps(message), *place]
        )
    return connection


def ask(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    """Ask DuckDB; a value of JSON that is cast to a text loses its quotes, as in Snowflake."""

    def unquote(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Cast) and isinstance(value := node.this, exp.JSONExtract):
            return exp.JSONExtractScalar(this=value.this, expression=value.expression)
        return node

    read = sqlglot.parse_one(query, read="snowflake").transform(unquote)
    return connection.execute(read.sql(dialect="duckdb")).fetchall()


def folded(messages: Sequence[Message]) -> Mapping[int, str | None]:
    rows: dict[int, str | None] = {}
    for op, key, note, has_note in messages:
        if op == "truncate":
            rows.clear()
        elif op == "d":
            rows.pop(key, None)
        elif has_note:
            rows[key] = note
    return rows


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """What a source may do: it changes rows that are there, some without a value, and inserts others."""
    there: set[int] = set()
    messages: list[Message] = []
    for _ in range(draw(st.integers(0, 12))):
        key, note = draw(st.integers(0, 2)), draw(st.sampled_from(["a", "b", None]))
        match draw(st.sampled_from(["change", "change", "lack", "delete", "truncate"])):
            case "truncate":
                there.clear()
                messages.append(("truncate", 0, None, False))
            case "delete" if key in there:
                there.discard(key)
                messages.append(("d", key, note, True))
            case "lack" if key in there:
                messages.append(("u", key, None, False))
            case "change":
                messages.append(("u" if key in there else "c", key, note, True))
                there.add(key)
    return messages


@given(histories())
def test_messages_amount_to_the_rows_that_the_source_has(messages: list[Message]) -> None:
    with landing(messages) as connection:
        rows = ask(connection, f"SELECT * FROM {folded_rows(ZONE, PARTIAL)}")

    assert {int(key): note for key, note in rows} == folded(messages)
    assert len(rows) == len(folded(messages))


def test_a_column_that_no_message_of_a_row_has_is_told() -> None:
    with landing([("c", 1, None, True), ("c", 2, None, False), ("c", 3, "x", True), ("d", 3, "x", False)]) as there:
        whole = ask(there, lacking_query(ZONE, SCHEMA))
        partial = ask(there, lacking_query(ZONE, replace(PARTIAL)))

    assert whole == [(0, 1)]
    assert partial == [(0, 1)]


def test_every_query_is_one_that_snowflake_reads() -> None:
    for query in (
        f"SELECT 1 FROM {folded_rows(ZONE, PARTIAL)}",
        lacking_query(ZONE, SCHEMA),
        foreign_query(ZONE, TABLE, ("shop", "o'dd")),
        unmerged_query(ZONE, TABLE, "1/2"),
    ):
        sqlglot.parse_one(query, read="snowflake")


def test_messages_of_somebody_else_are_named_and_not_all_of_many() -> None:
    one = describe_foreign(ZONE.table(TABLE), TABLE, [(None, None, None, "2024-02-29 12:00:00")])
    many = describe_foreign(ZONE.table(TABLE), TABLE, [("t", 0, number, "2024") for number in range(21)])

    assert 'somebody wrote to "landing"."shop.orders": of no topic, loaded at 2024-02-29 12:00:00' in one
    assert "penstock snapshot FILE shop.orders --full-refresh" in one
    assert "t/0 offset 19, loaded at 2024, and more" in many
    assert describe_foreign(ZONE.table(TABLE), TABLE, []) == ""
