"""What an audit compares of values that the target cannot hold: the exact SQL, and which columns are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.core.audit.dialects import DUCKDB, MARIADB, POSTGRES, POSTGRES_SOURCE, AuditDialect
from penstock.core.audit.held_values import AS_IT_IS, held_value
from penstock.core.audit.redshift import REDSHIFT
from penstock.core.audit.table_plan import KnownTarget, plan_table
from penstock.core.errors import UsageError
from penstock.core.tables import (
    Column,
    DateType,
    DecimalType,
    GeometryType,
    IntegerType,
    PrintedType,
    TableId,
    TableSchema,
    TextType,
)
from penstock.core.warehouse.dialect import DUCKDB as DUCKDB_WAREHOUSE
from penstock.core.warehouse.overflow import fit_schema

if TYPE_CHECKING:
    from penstock.core.warehouse.load_plan import Overflow

ID = Column("id", IntegerType(32, unsigned=False), nullable=False)
WIDE = Column("wide", DecimalType(40, 2), nullable=True)
NOTE = Column("note", TextType(40, "utf8mb4"), nullable=True)
DAY = Column("day", DateType(), nullable=True)
SPOT = Column("spot", GeometryType(), nullable=True)
WORDS = Column("words", PrintedType("json"), nullable=True, declaration="varchar[]")
DAYS = Column("days", PrintedType("json"), nullable=True, declaration="timestamp[]")
MOODS = Column("moods", PrintedType("json"), nullable=True, declaration="mood[]")
MOST = f"{'9' * 36}.99"
TABLE = TableSchema(TableId("shop", "orders"), (ID, WIDE, NOTE, DAY), ("id",))


@pytest.mark.parametrize(
    ("source", "target", "column", "overflow", "held"),
    [
        (MARIADB, DUCKDB, WIDE, "stop", AS_IT_IS),
        (MARIADB, POSTGRES, WIDE, "null", AS_IT_IS),
        (MARIADB, DUCKDB, NOTE, "null", AS_IT_IS),
        (MARIADB, POSTGRES, DAY, "null", AS_IT_IS),
        (MARIADB, REDSHIFT, SPOT, "null", None),
        (POSTGRES_SOURCE, DUCKDB, WORDS, "null", "array_to_json({0})"),
        (POSTGRES_SOURCE, DUCKDB, DAYS, "stop", "array_to_json(CAST({0} AS TEXT[]))"),
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


def test_arrays_of_types_that_users_made_and_keys_that_are_arrays_are_left_out() -> None:
    table = TableSchema(TableId("shop", "sets"), (ID, WORDS, MOODS), ("id",))
    by_array = TableSchema(TableId("shop", "sets"), (ID, WORDS), ("id", "words"))

    plan = plan_table(table, KnownTarget(table, "hard"), (POSTGRES_SOURCE, DUCKDB), lambda _: "")
    refused = plan_table(by_array, KnownTarget(by_array, "hard"), (POSTGRES_SOURCE, DUCKDB), lambda _: "")

    assert [(each.column, each.why) for each in plan.not_compared] == [
        ("moods", "values of mood[] are not compared yet")
    ]
    assert refused.refusal == "its key has the column words, which is not compared: rows are not found by an array"


@pytest.mark.parametrize(("column", "dialect"), [(WORDS, POSTGRES_SOURCE), (SPOT, MARIADB)])
def test_no_condition_is_on_what_the_target_holds_otherwise(column: Column, dialect: AuditDialect) -> None:
    table = TableSchema(TableId("shop", "t"), (ID, column), ("id",))

    with pytest.raises(UsageError, match=column.name):
        plan_table(table, KnownTarget(table, "hard"), (dialect, DUCKDB), lambda _: "", where=f"{column.name} = 'x'")
