"""What existing rows get in a column that is added."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.mysql.statements.added_columns import Clock, with_fills
from penstock.core.mysql.statements.evolution import refusal
from penstock.core.tables import (
    Column,
    ColumnType,
    DateTimeType,
    DateType,
    IntegerType,
    PrintedType,
    TableId,
    TableSchema,
    TextType,
    TimestampType,
)

ID = Column("id", IntegerType(32, unsigned=False), nullable=False)
BEFORE = TableSchema(TableId("shop", "orders"), (ID,), ("id",))


def no_zone(zone: str, _: int) -> int:
    raise AssertionError(zone)


def filled(column: Column, clock: Clock) -> Column:
    return with_fills(BEFORE, TableSchema(BEFORE.table, (ID, column), ("id",)), clock).columns[1]


def computed(type_: ColumnType, expression: str) -> Column:
    return Column("c", type_, nullable=True, default_is_expression=True, default_expression=expression)


@pytest.mark.parametrize(
    ("type_", "expression", "zone", "expected"),
    [
        (TimestampType(0), "current_timestamp()", "+02:00", "1970-01-02 00:00:00"),
        (TimestampType(6), "CURRENT_TIMESTAMP(3)", "", "1970-01-02 00:00:00.987000"),
        (DateTimeType(0), "now()", "-01:30", "1970-01-01 22:30:00"),
        (DateTimeType(6), "(localtimestamp(6))", "+14:00", "1970-01-02 14:00:00.987654"),
        (DateTimeType(0), "utc_timestamp()", "+14:00", "1970-01-02 00:00:00"),
        (DateType(), "curdate()", "-00:01", "1970-01-01"),
        (PrintedType("datetime", 3), "current_timestamp(3)", "", "1970-01-02 00:00:00.987"),
        (IntegerType(64, unsigned=False), "unix_timestamp()", "", "86400"),
        (DateTimeType(0), "uuid()", "", None),
        (DateTimeType(0), "(now() + interval 1 day)", "", None),
        (TextType(36, "ascii"), "now()", "", None),
    ],
)
def test_a_clock_of_the_statement_fills_them(
    type_: ColumnType, expression: str, zone: str, expected: str | None
) -> None:
    column = filled(computed(type_, expression), Clock(86_400, 987_654, zone, no_zone))

    assert column.filled == expected
    after = TableSchema(BEFORE.table, (ID, column), ("id",))
    assert (refusal(BEFORE, after) is None) == (expected is not None)


@given(st.integers(-14 * 60, 14 * 60), st.integers(0, 2**31 - 1))
def test_a_zone_with_an_offset_needs_nobody_to_ask(minutes: int, seconds: int) -> None:
    sign = "-" if minutes < 0 else "+"
    zone = f"{sign}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
    zoned = dt.datetime.fromtimestamp(seconds, dt.timezone(dt.timedelta(minutes=minutes)))

    assert Clock(seconds, 0, zone, no_zone).local() == zoned.replace(tzinfo=None)


def test_a_zone_that_the_source_alone_knows_is_asked_of_it() -> None:
    clock = Clock(0, 5, "SYSTEM", lambda zone, seconds: {"SYSTEM": seconds + 3600}[zone])

    assert clock.local() == dt.datetime(1970, 1, 1, 1, 0, 0, 5)  # noqa: DTZ001 - a local time


def test_a_column_that_was_there_keeps_what_its_default_says() -> None:
    there = TableSchema(BEFORE.table, (ID, computed(TimestampType(0), "now()")), ("id",))

    assert with_fills(there, there, Clock(0, 0, "", no_zone)).columns[1].filled is None


def test_a_zero_date_that_is_carried_as_text_or_not_at_all() -> None:
    as_text = Column("c", PrintedType("datetime", 2), nullable=False)
    as_date = Column("c", DateType(), nullable=False)
    clock = Clock(0, 0, "", no_zone)

    assert filled(as_text, clock).filled == "0000-00-00 00:00:00.00"
    found = refusal(BEFORE, TableSchema(BEFORE.table, (ID, filled(as_date, clock)), ("id",)))
    assert found is not None
    assert "0000-00-00" in found.reason
    assert "zero_dates" in found.hint
