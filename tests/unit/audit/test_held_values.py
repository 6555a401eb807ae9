"""What an audit compares of values that the target cannot hold: the exact SQL, and which columns are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.core.audit.dialects import DUCKDB, MARIADB, POSTGRES, POSTGRES_SOURCE, AuditDialect
from penstock.core.audit.held_values import AS_IT_IS, held_value
from penstock.core.audit.table_plan import KnownTarget, plan_table
from penstock.core.tables import Column, DateType, DecimalType, IntegerType, TableId, TableSchema, TextType
from penstock.core.warehouse.dialect import DUCKDB as DUCKDB_WAREHOUSE
from penstock.core.warehouse.overflow import fit_schema

if TYPE_CHECKING:
    from penstock.core.warehouse.load_plan import Overflow

ID = Column("id", IntegerType(32, unsigned=False), nullable=False)
WIDE = Column("wide", DecimalType(40, 2), nullable=True)
NOTE = Column("note", TextType(40, "utf8mb4"), nullable=True)
DAY = Column("day", DateType(), nullable=True)
MOST = f"{'9' * 36}.99"
TABLE = TableSchema(TableId("shop", "orders"), (ID, WIDE, NOTE, DAY), ("id",))


@pytest.mark.parametrize(
    ("source", "target", "column", "overflow", "held"),
    [
        (MARIADB, DUCKDB, WIDE, "stop", AS_IT_IS),
        (MARIADB, POSTGRES, WIDE, "null", AS_IT_IS),
        (MARIADB, DUCKDB, NOTE, "null", AS_IT_IS),
        (MARIADB, POSTGRES, DAY, "null", AS_IT_IS),
        (POSTGRES_SOURCE, POSTGRES, DAY, "null", None),
        (POSTGRES_SOURCE, POSTGRES, DAY, "stop", AS_IT_IS),
        (MARIADB, DUCKDB, WIDE, "null", f"CASE WHEN ABS({{0}}) >= 1{'0' * 36} THEN NULL ELSE {{0}} END"),
        (
            MARIADB,
            DUCKDB,
            WIDE,
            "clamp",
            f"CASE WHEN ABS({{0}}) >= 1{'0' * 36} THEN CASE WHEN {{0}} < 0 THEN -{MOST} ELSE {MOST} END ELSE {{0}} END",
        ),
        (
            MARIADB,
            POSTGRES,
            NOTE,
            "clamp",
            "CONVERT(REPLACE(CAST(CONVERT({0} USING utf8mb4) AS BINARY), CHAR(0), '') USING utf8mb4)",
        ),
        (
            MARIADB,
            POSTGRES,
            NOTE,
            "null",
            "CASE WHEN INSTR(CAST(CONVERT({0} USING utf8mb4) AS BINARY), CHAR(0)) > 0 THEN NULL ELSE {0} END",
        ),
    ],
)
def test_the_source_says_what_the_target_has_of_a_value(
    source: AuditDialect, target: AuditDialect, column: Column, overflow: Overflow, held: str | None
) -> None:
    assert held_value((source, target), column, overflow) == held


def test_a_decimal_that_lost_digits_is_compared_and_without_a_policy_it_is_another_type() -> None:
    known = fit_schema(DUCKDB_WAREHOUSE, TABLE, "clamp")

    as_treated = plan_table(TABLE, KnownTarget(known, "hard", overflow="clamp"), (MARIADB, DUCKDB), lambda _: "")
    as_it_is = plan_table(TABLE, KnownTarget(known, "hard"), (MARIADB, DUCKDB), lambda _: "")

    assert as_treated.not_compared == ()
    assert [(each.column, each.is_wrong) for each in as_it_is.not_compared] == [("wide", True)]


def test_a_column_of_which_the_source_cannot_tell_is_left_out_and_said_so() -> None:
    plan = plan_table(TABLE, KnownTarget(TABLE, "hard", overflow="null"), (POSTGRES_SOURCE, POSTGRES), lambda _: "")

    assert [(each.column, each.is_wrong) for each in plan.not_compared] == [("day", False)]
