"""The exact SQL that DuckDB is given for statements that empty and rename tables, and rename columns."""

from __future__ import annotations

import sqlglot

from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.core.warehouse.dialect import DUCKDB
from penstock.core.warehouse.planner import plan_column_renames, plan_renames, plan_truncate
from penstock.core.warehouse.target_table import LogPlace, TargetTable

A, B = (Column(name, IntegerType(32, unsigned=False), nullable=False) for name in "ab")
ORDERS = TableId("shop", "orders")
PLACE = LogPlace("bin's.000007", 42, 0, 1_700_000_000_000)


def target(*key: str) -> TargetTable:
    return TargetTable("w", TableSchema(ORDERS, (A, B), key))


def parsed(statements: list[str]) -> list[str]:
    for statement in statements:
        assert sqlglot.parse_one(statement, dialect="duckdb").sql()
    return statements


def test_a_table_with_a_key_is_emptied() -> None:
    assert parsed(plan_truncate(DUCKDB, target("a"), PLACE)) == ['DELETE FROM "w"."shop"."orders"']


def test_a_change_log_gets_an_entry() -> None:
    assert parsed(plan_truncate(DUCKDB, target(), PLACE)) == [
        (
            'INSERT INTO "w"."shop"."orders" ("_op", "_file", "_pos", "_row", "_committed_at") '
            "VALUES ('t', 'bin''s.000007', 42, 0, MAKE_TIMESTAMPTZ(1700000000000 * 1000))"
        )
    ]


def test_tables_swap_by_way_of_names_of_ours_and_are_copied_to_another_schema() -> None:
    renames = {ORDERS: TableId("shop", "old"), TableId("shop", "new"): ORDERS, TableId("a", "x"): TableId("b", "y")}

    assert parsed(plan_renames(DUCKDB, "w", renames)) == [
        'ALTER TABLE "w"."shop"."orders" RENAME TO "__penstock_renamed_0"',
        'ALTER TABLE "w"."shop"."new" RENAME TO "__penstock_renamed_1"',
        'ALTER TABLE "w"."a"."x" RENAME TO "__penstock_renamed_2"',
        'ALTER TABLE "w"."shop"."__penstock_renamed_0" RENAME TO "old"',
        'ALTER TABLE "w"."shop"."__penstock_renamed_1" RENAME TO "orders"',
        'CREATE TABLE "w"."b"."y" AS SELECT * FROM "w"."a"."__penstock_renamed_2"',
        'DROP TABLE "w"."a"."__penstock_renamed_2"',
    ]


def test_columns_swap_by_way_of_names_of_ours_and_take_the_place_of_one_that_went() -> None:
    orders, alter = target("a"), 'ALTER TABLE "w"."shop"."orders"'

    assert parsed(plan_column_renames(DUCKDB, orders, [("a", "b")])) == [
        f'{alter} DROP COLUMN "b"',
        f'{alter} RENAME COLUMN "a" TO "__penstock_renamed_0"',
        f'{alter} RENAME COLUMN "__penstock_renamed_0" TO "b"',
    ]
    assert parsed(plan_column_renames(DUCKDB, orders, [("a", "b"), ("b", "a")])) == [
        f'{alter} RENAME COLUMN "a" TO "__penstock_renamed_0"',
        f'{alter} RENAME COLUMN "b" TO "__penstock_renamed_1"',
        f'{alter} RENAME COLUMN "__penstock_renamed_0" TO "b"',
        f'{alter} RENAME COLUMN "__penstock_renamed_1" TO "a"',
    ]
