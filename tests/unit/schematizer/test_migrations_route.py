"""Migrations of data targets, over HTTP in this process; DuckDB runs its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb
import pytest
from tests.unit.schematizer.served import served
from tests.unit.schematizer.test_schematizer_app import ORDERS, register

from penstock.core.tables import Column, DecimalType, IntegerType, TableId, TextType

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

ID, NOTE = ORDERS.columns
SMALL = replace(ORDERS, columns=(Column("id", IntegerType(32, unsigned=False), nullable=False), NOTE))
LONGER = replace(NOTE, type=TextType(300, "utf8mb4"))
PRICE = Column("price", DecimalType(10, 2), nullable=False, default="1.50")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    database = tmp_path_factory.mktemp("migrations") / "schematizer.db"
    with served(f"sqlite:///{database}") as opened:
        yield opened


@pytest.fixture(scope="module")
def ids(client: httpx.Client) -> dict[str, int]:
    """Schemas of one table, and of another one, and of a key."""
    shapes = {
        "small": SMALL,
        "orders": ORDERS,
        "longer": replace(ORDERS, columns=(ID, LONGER)),
        "priced": replace(ORDERS, columns=(ID, NOTE, PRICE)),
        "renamed": replace(ORDERS, columns=(ID, replace(NOTE, name="remark"), PRICE)),
        "other": replace(ORDERS, table=TableId("shop", "other")),
    }
    told = {name: register(client, "shopdb", shape).json() for name, shape in shapes.items()}
    return {name: each["value_schema_id"] for name, each in told.items()} | {"key": told["orders"]["key_schema_id"]}


def plan(client: httpx.Client, target: str, before: int | None, after: int, **more: object) -> httpx.Response:
    body = {"target": target, "from_schema_id": before, "to_schema_id": after, **more}
    return client.post("/v1/schema_migrations", json=body)


def test_a_migration_is_told_in_the_targets_own_sql(client: httpx.Client, ids: dict[str, int]) -> None:
    assert plan(client, "snowflake", None, ids["orders"], catalog="lake").json() == {
        "target": "snowflake",
        "statements": [
            'CREATE SCHEMA IF NOT EXISTS "lake"."shop"',
            'CREATE TABLE "lake"."shop"."orders" ("id" NUMBER(38, 0), "note" VARCHAR(64))',
        ],
        "limits": [],
    }
    assert plan(client, "redshift", ids["orders"], ids["longer"]).json()["statements"] == [
        'ALTER TABLE "shop"."orders" ALTER COLUMN "note" TYPE VARCHAR(1200)'
    ]
    assert plan(client, "postgres", ids["orders"], ids["longer"]).json()["statements"] == []
    assert plan(client, "redshift", ids["small"], ids["orders"]).json()["statements"][0] == "BEGIN"


def test_duckdb_runs_what_it_is_told_and_keeps_its_rows(client: httpx.Client, ids: dict[str, int]) -> None:
    with duckdb.connect() as connection:
        for statement in plan(client, "duckdb", None, ids["small"]).json()["statements"]:
            connection.execute(statement)
        connection.execute("INSERT INTO shop.orders VALUES (1, 'x'), (2, NULL)")
        steps = [(ids["small"], ids["orders"], {}), (ids["orders"], ids["renamed"], {"note": "remark"})]

        for before, after, renames in steps:
            for statement in plan(client, "duckdb", before, after, renames=renames).json()["statements"]:
                connection.execute(statement)

        described = connection.execute("SELECT column_name, column_type FROM (DESCRIBE shop.orders)").fetchall()
        rows = connection.execute("SELECT id, remark, price::VARCHAR FROM shop.orders ORDER BY id").fetchall()
    assert described == [("id", "BIGINT"), ("remark", "VARCHAR"), ("price", "DECIMAL(10,2)")]
    assert rows == [(1, "x", "1.50"), (2, None, "1.50")]


def test_a_migration_that_is_not_safe_or_makes_no_sense_is_refused(client: httpx.Client, ids: dict[str, int]) -> None:
    def refusal(before: int | None, after: int, **more: object) -> tuple[int, str, str]:
        answer = plan(client, "duckdb", before, after, **more)
        told = answer.json()
        return answer.status_code, told["code"], f"{told['message']} | {told['hint']}"

    status, code, text = refusal(ids["longer"], ids["orders"])
    assert (status, code) == (422, "invalid_migration")
    assert "note" in text
    assert "may change stored values" in text
    assert 'send "renames"' in refusal(ids["orders"], ids["renamed"])[2]
    assert refusal(ids["orders"], ids["renamed"], renames={"no": "remark"})[1] == "invalid_migration"
    assert refusal(ids["orders"], ids["other"])[1] == "invalid_migration"
    assert refusal(None, ids["key"])[1] == "invalid_migration"
    assert refusal(None, 999)[:2] == (404, "unknown_schema")
    assert plan(client, "oracle", None, ids["orders"]).json()["code"] == "invalid_request"
