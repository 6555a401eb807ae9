"""The exact SQL that PostgreSQL is given, where it is not what DuckDB is given."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlglot

from penstock.core.errors import TableStoppedError
from penstock.core.tables import BytesType, Column, IntegerType, TableId, TableSchema, TextType
from penstock.core.warehouse.alter import plan_migration
from penstock.core.warehouse.dialects import POSTGRES
from penstock.core.warehouse.planner import plan_create, plan_merge, plan_renames, plan_truncate
from penstock.core.warehouse.target_table import LogPlace, TargetTable

ID = Column("id", IntegerType(32, unsigned=False), nullable=False)
NAME = Column("name", TextType(64, "utf8mb4"), nullable=True)
ORDERS = TableSchema(TableId("shop", "orders"), (ID, NAME), ("id",))


def parsed(statements: list[str]) -> list[str]:
    for statement in statements:
        assert sqlglot.parse_one(statement, dialect="postgres").sql()
    return statements


def create(schema: TableSchema) -> list[str]:
    return parsed(plan_create(POSTGRES, TargetTable("", schema)))


def test_a_table_is_made_with_an_index_on_its_key() -> None:
    assert create(ORDERS) == [
        'CREATE SCHEMA IF NOT EXISTS "shop"',
        'CREATE TABLE "shop"."orders" ("id" INTEGER, "name" TEXT)',
        'CREATE INDEX ON "shop"."orders" ("id")',
    ]


@pytest.mark.parametrize(
    ("type_", "indexed"),
    [
        (TextType(650, "utf8mb4"), True),
        (TextType(651, "utf8mb4"), False),
        (BytesType(2600, fixed=False), True),
        (BytesType(2601, fixed=False), False),
    ],
)
def test_a_key_that_an_index_might_refuse_gets_none(type_: TextType | BytesType, *, indexed: bool) -> None:
    statements = create(replace(ORDERS, columns=(replace(ID, type=type_), NAME)))

    assert (len(statements) == 3) is indexed


def test_a_table_without_a_key_gets_no_index() -> None:
    assert len(create(replace(ORDERS, key=()))) == 2


def test_another_key_gets_another_index() -> None:
    after = replace(ORDERS, key=("id", "name"))

    assert parsed([*plan_migration(POSTGRES, TargetTable("", ORDERS), after).statements]) == [
        'CREATE INDEX ON "shop"."orders" ("id", "name")'
    ]


def test_the_newest_change_of_each_key_is_inserted_unless_it_deletes() -> None:
    assert parsed(plan_merge(POSTGRES, TargetTable("", ORDERS), ORDERS, '"staged"')) == [
        'DELETE FROM "shop"."orders" AS t WHERE EXISTS (SELECT 1 FROM "staged" AS s WHERE s."id" = t."id")',
        (
            'INSERT INTO "shop"."orders" ("id", "name") SELECT s."id", s."name" FROM '
            '(SELECT DISTINCT ON ("id") * FROM "staged" ORDER BY "id", "__penstock_offset" DESC) AS s '
            "WHERE s.\"__penstock_op\" <> 'd'"
        ),
    ]


def test_a_table_moves_to_another_schema_with_all_that_belongs_to_it() -> None:
    renames = {TableId("shop", "orders"): TableId("archive", "old_orders")}

    assert parsed(plan_renames(POSTGRES, "", renames)) == [
        'ALTER TABLE "shop"."orders" RENAME TO "__penstock_renamed_0"',
        'ALTER TABLE "shop"."__penstock_renamed_0" SET SCHEMA "archive"',
        'ALTER TABLE "archive"."__penstock_renamed_0" RENAME TO "old_orders"',
    ]


def test_a_change_log_gets_an_entry_for_truncate() -> None:
    log = TargetTable("", replace(ORDERS, key=()))

    assert parsed(plan_truncate(POSTGRES, log, LogPlace("bin.000001", 4, 0, 1500))) == [
        (
            'INSERT INTO "shop"."orders" ("_op", "_file", "_pos", "_row", "_committed_at") VALUES '
            "('t', 'bin.000001', 4, 0, (TIMESTAMPTZ 'epoch' + 1500 * INTERVAL '1 millisecond'))"
        )
    ]


def test_names_that_postgresql_would_cut_are_refused() -> None:
    with pytest.raises(TableStoppedError, match="63 bytes"):
        create(replace(ORDERS, table=TableId("shop", "é" * 32)))
