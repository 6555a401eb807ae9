"""The exact SQL of tables that are made anew, of other keys and of soft deletes, in every dialect."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import sqlglot

from penstock.core.errors import TableStoppedError
from penstock.core.tables import Column, IntegerType, TableId, TableSchema, TextType
from penstock.core.warehouse.alter import plan_migration
from penstock.core.warehouse.attributes import Attributes, Grant, Spread
from penstock.core.warehouse.dialects import DIALECTS, POSTGRES, REDSHIFT
from penstock.core.warehouse.migration import Around, Migration, RetypedAhead
from penstock.core.warehouse.planner import plan_deletes, plan_merge, plan_truncate
from penstock.core.warehouse.target_table import LogPlace, TargetTable

if TYPE_CHECKING:
    from penstock.core.warehouse.dialect import Dialect

ID = Column("id", IntegerType(32, unsigned=False), nullable=False)
NAME = Column("name", TextType(64, "utf8mb4"), nullable=True)
ORDERS = TableSchema(TableId("shop", "orders"), (ID, NAME), ("id",))
LOG = replace(ORDERS, key=())
PLACE = LogPlace("bin.000007", 42, 0, 1500)
EVERY = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))


def parsed(dialect: Dialect, change: Migration) -> Migration:
    for statement in [*change.all_statements, *(check.query for check in change.checks)]:
        assert sqlglot.parse_one(statement, dialect=dialect.name).sql(dialect.name)
    return change


@EVERY
def test_a_change_log_that_gets_a_key_is_summed_up_behind_its_last_truncate(dialect: Dialect) -> None:
    change = parsed(dialect, plan_migration(dialect, TargetTable("", LOG), ORDERS, Around(PLACE)))

    (select,) = [line for line in change.statements if "HAVING" in line]
    length = ', LENGTH(s."name")' if dialect is REDSHIFT else ""
    assert select.endswith(
        'SELECT s."id", s."name" FROM (SELECT s."id", s."name" FROM "shop"."orders" AS s WHERE NOT EXISTS '
        '(SELECT 1 FROM "shop"."orders" AS e WHERE e."_op" = \'t\' AND (e."_file" > s."_file" OR '
        f'(e."_file" = s."_file" AND e."_pos" >= s."_pos"))) GROUP BY s."id", s."name"{length} HAVING '
        "SUM(CASE WHEN s.\"_op\" IN ('c', 'r', 'u+') THEN 1 ELSE -1 END) > 0) AS s"
    )
    assert [check.column for check in change.checks] == ["", ""]


@EVERY
def test_a_table_that_loses_its_key_begins_its_log_with_its_rows(dialect: Dialect) -> None:
    change = parsed(dialect, plan_migration(dialect, TargetTable("", ORDERS), LOG, Around(PLACE)))

    instant = dialect.instant_of_ms.format(ms=1500)
    select = f'SELECT s."id", s."name", \'r\', \'bin.000007\', 42, 0, {instant} FROM "shop"."orders" AS s'
    assert any(line.endswith(select) for line in change.statements)


def test_a_change_log_of_two_servers_that_was_emptied_gets_no_key() -> None:
    change = plan_migration(POSTGRES, TargetTable("", LOG), ORDERS, Around(replace(PLACE, timeline=1)))

    assert "changes of more than one server" in change.checks[-1].reason


def test_redshift_keeps_how_rows_are_spread_and_sorted_and_who_may_read_them() -> None:
    kept = Attributes(
        ("id", "name"),
        owner="etl",
        comment="it's",
        column_comments={"name": "whose", "gone": "x"},
        first_grantees=('"everybody"',),
        grants=(Grant("SELECT", '"reader"'), Grant("SELECT", "PUBLIC", "gone")),
        spread=Spread("KEY", "id", "COMPOUND", ("name", "id")),
    )
    wider = replace(ORDERS, columns=(replace(ID, type=IntegerType(64, unsigned=False)), NAME))

    change = parsed(REDSHIFT, plan_migration(REDSHIFT, TargetTable("", ORDERS), wider, Around(PLACE, attributes=kept)))

    assert change.statements == (
        (
            'CREATE TABLE "shop"."__penstock_copy" ("id" BIGINT, "name" VARCHAR(256)) '
            'DISTSTYLE KEY DISTKEY ("id") COMPOUND SORTKEY ("name", "id")'
        ),
        (
            'INSERT INTO "shop"."__penstock_copy" ("id", "name") '
            'SELECT CAST(s."id" AS BIGINT), s."name" FROM "shop"."orders" AS s'
        ),
        'DROP TABLE "shop"."orders"',
        'ALTER TABLE "shop"."__penstock_copy" RENAME TO "orders"',
        "COMMENT ON TABLE \"shop\".\"orders\" IS 'it''s'",
        'COMMENT ON COLUMN "shop"."orders"."name" IS \'whose\'',
        'REVOKE ALL ON TABLE "shop"."orders" FROM "everybody"',
        'GRANT SELECT ON TABLE "shop"."orders" TO "reader"',
        'ALTER TABLE "shop"."orders" OWNER TO "etl"',
    )


def test_redshift_gives_texts_more_room_ahead_of_the_transaction() -> None:
    longer = replace(ORDERS, columns=(ID, replace(NAME, type=TextType(100, "utf8mb4"))))

    change = parsed(REDSHIFT, plan_migration(REDSHIFT, TargetTable("", ORDERS), longer))

    statement = 'ALTER TABLE "shop"."orders" ALTER COLUMN "name" TYPE VARCHAR(400)'
    assert change.ahead == (RetypedAhead("name", "VARCHAR(400)", statement),)
    assert change.statements == ()


def test_a_column_or_trigger_that_is_not_ours_would_be_lost() -> None:
    for kept in (Attributes(("id", "name", "theirs")), Attributes(("id", "name"), unkept=("trigger watch",))):
        with pytest.raises(TableStoppedError, match=r"would lose .*(column theirs|trigger watch)"):
            plan_migration(POSTGRES, TargetTable("", ORDERS), LOG, Around(PLACE, attributes=kept))


@EVERY
def test_soft_deletes_mark_rows_and_revive_them(dialect: Dialect) -> None:
    soft = TargetTable("", ORDERS, "soft")
    _, insert = plan_merge(dialect, soft, ORDERS, '"staged"')
    (emptied,) = plan_truncate(dialect, soft, PLACE)
    lost = parsed(dialect, plan_deletes(dialect, soft, "hard"))

    for statement in (insert, emptied):
        assert sqlglot.parse_one(statement, dialect=dialect.name).sql(dialect.name)
    committed_at = dialect.instant_of_ms.format(ms='s."__penstock_ts_ms"')
    assert f"CASE WHEN s.\"__penstock_op\" = 'd' THEN {committed_at} END FROM" in insert
    assert "<> 'd'" not in insert
    assert emptied.startswith('UPDATE "shop"."orders" SET "_deleted_at" = ')
    assert parsed(dialect, plan_deletes(dialect, TargetTable("", ORDERS), "soft")).statements == (
        f'ALTER TABLE "shop"."orders" ADD COLUMN "_deleted_at" {dialect.timestamp}',
    )
    assert "IS NOT NULL" in lost.checks[0].query
