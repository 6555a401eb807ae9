"""Dates that no calendar has, as the user wants them."""

from __future__ import annotations

import pytest

from penstock.core.tables import (
    Column,
    ColumnType,
    DateTimeType,
    DateType,
    IntegerType,
    PrintedType,
    TableId,
    TableSchema,
    TimestampType,
)
from penstock.core.zero_dates import ZeroDates, with_zero_dates

NULLED = True
_SCHEMA = TableSchema(
    TableId("shop", "t"),
    (
        Column("k", DateType(), nullable=False),
        Column("d", DateType(), nullable=False),
        Column("m", DateTimeType(3), nullable=False),
        Column("i", TimestampType(6), nullable=False),
        Column("n", IntegerType(32, unsigned=False), nullable=False),
    ),
    ("k",),
)


@pytest.mark.parametrize(
    ("policy", "types", "nullable"),
    [
        ("stop", (DateType(), DateType(), DateTimeType(3), TimestampType(6)), ""),
        (
            "to_null",
            (
                DateType(),
                DateType(zero_is_null=True),
                DateTimeType(3, zero_is_null=True),
                TimestampType(6, zero_is_null=True),
            ),
            "dmi",
        ),
        (
            "as_text",
            (PrintedType("date"), PrintedType("date"), PrintedType("datetime", 3), PrintedType("timestamp", 6)),
            "",
        ),
    ],
)
def test_the_policy_types_dates_and_nothing_else(
    policy: ZeroDates, types: tuple[ColumnType, ...], nullable: str
) -> None:
    """A primary key never becomes nullable."""
    schema = with_zero_dates(_SCHEMA, policy)

    assert tuple(column.type for column in schema.columns) == (*types, IntegerType(32, unsigned=False))
    assert "".join(column.name for column in schema.columns if column.nullable) == nullable
