"""Masks: what is left of a value, of a default, and which types can hold which mask."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.transforms.rows import CUSTOMERS, EMAIL, TEXT, TOTAL, Row, applied

from penstock.core.errors import TableStoppedError
from penstock.core.tables import (
    BitType,
    BytesType,
    Column,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    GeometryType,
    IntegerType,
    PrintedType,
    SetType,
    TableSchema,
    TextType,
    TimestampType,
    TimeType,
    VectorType,
    YearType,
)
from penstock.core.transforms.masks import Blank, FixedValue, KeepLast, Mask, MaskColumns

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
TYPES_AND_VALUES: list[tuple[ColumnType, str, object, object]] = [
    (TextType(3, "utf8mb4"), "é!x", "é!x", "***"),
    (IntegerType(24, unsigned=True), "16777215", 2**24 - 1, 0),
    (BitType(3), "7", 7, 0),
    (YearType(), "2155", 2155, 0),
    (DecimalType(5, 2), "-999.99", Decimal("-999.99"), Decimal("0.00")),
    (DecimalType(65, 30), "1", Decimal(f"1.{30 * '0'}"), Decimal(f"0.{30 * '0'}")),
    (FloatType(32), "1e3", 1000.0, 0.0),
    (EnumType(("a", "b")), "b", "b", ""),
    (SetType(("a", "b")), "b,a", "a,b", ""),
    (DateType(), "2024-02-29", dt.date(2024, 2, 29), dt.date(1970, 1, 1)),
    (DateTimeType(0), "2024-02-29 01:02:03", dt.datetime(2024, 2, 29, 1, 2, 3), dt.datetime(1970, 1, 1)),  # noqa: DTZ001 - without a zone
    (TimestampType(2), "1970-01-01 00:00:00.25", EPOCH + dt.timedelta(milliseconds=250), EPOCH),
    (TimeType(0), "-01:00:00", dt.timedelta(hours=-1), dt.timedelta()),
    (BytesType(4, fixed=True), "ab", b"ab\0\0", None),
    (PrintedType("json"), "{}", "{}", None),
    (PrintedType("uuid"), "00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000000", None),
    (PrintedType("inet4"), "0.0.0.0", "0.0.0.0", None),  # noqa: S104 - an address that says nothing
    (PrintedType("datetime", 1), "0000-00-00 00:00:00.0", "0000-00-00 00:00:00.0", None),
]  # fmt: skip


def with_column(type_: ColumnType) -> TableSchema:
    return replace(CUSTOMERS, columns=(CUSTOMERS.column("id"), Column("x", type_, nullable=True)))


@pytest.mark.parametrize(("type_", "text", "value"), [case[:3] for case in TYPES_AND_VALUES])
def test_a_fixed_value_is_one_of_the_column_s_type_and_null_stays_null(
    type_: ColumnType, text: str, value: object
) -> None:
    given_values: list[Row] = [{"id": 1, "x": value}, {"id": 2, "x": None}]

    found = applied(MaskColumns(("x",), FixedValue(text)), given_values, with_column(type_))

    assert [row["x"] for row in found] == [value, None]


@pytest.mark.parametrize(
    ("type_", "value", "blank"), [(case[0], *case[2:]) for case in TYPES_AND_VALUES if case[3] is not None]
)
def test_a_mask_without_a_value_says_nothing(type_: ColumnType, value: object, blank: object) -> None:
    found = applied(MaskColumns(("x",), Blank()), [{"id": 1, "x": value}, {"id": 2}], with_column(type_))

    assert [row["x"] for row in found] == [blank, None]


@given(st.lists(st.none() | st.text(max_size=8)), st.integers(0, 4))
def test_the_last_characters_are_kept_unless_they_are_all(texts: list[str | None], kept: int) -> None:
    rows: list[dict[str, object]] = [{"id": n, "email": text} for n, text in enumerate(texts)]

    found = applied(MaskColumns(("email",), KeepLast(kept)), rows)

    for row, text in zip(found, texts, strict=True):
        masked = row["email"]
        if text is None or not isinstance(masked, str):
            assert masked is text
            continue
        shown = text[-kept:] if 0 < kept < len(text) else ""
        assert masked == "*" * (len(text) - len(shown)) + shown


@pytest.mark.parametrize(
    ("column", "mask", "default"),
    [
        (replace(EMAIL, default="a@b.de"), KeepLast(3), ("***.de", False)),
        (replace(EMAIL, default="a@b.de"), FixedValue("x"), ("x", False)),
        (EMAIL, FixedValue("x"), (None, False)),
        (replace(EMAIL, nullable=False), FixedValue("x"), ("x", False)),
        (replace(TOTAL, nullable=False), Blank(), ("0", False)),
        (replace(TOTAL, default="uuid()", default_is_expression=True), Blank(), (None, True)),
        (Column("x", DateType(), nullable=False), Blank(), (None, True)),
        (Column("x", BytesType(9, fixed=False), nullable=False, default="0xff"), FixedValue("x"), (None, True)),
    ],
)
def test_a_default_is_masked_like_the_values_that_rows_get_from_it(
    column: Column, mask: Mask, default: tuple[str | None, bool]
) -> None:
    schema = replace(CUSTOMERS, columns=(CUSTOMERS.column("id"), column))

    masked = MaskColumns((column.name,), mask).derive(schema).column(column.name)

    assert (masked.default, masked.default_is_expression) == default
    assert (masked.type, masked.nullable) == (column.type, column.nullable)


@pytest.mark.parametrize(
    ("type_", "mask", "said"),
    [
        (TextType(3, "utf8mb4"), FixedValue("xxxx"), "'xxxx' has 4 characters, and the column holds 3"),
        (IntegerType(8, unsigned=False), FixedValue("128"), "128 is not between -128 and 127"),
        (IntegerType(8, unsigned=False), FixedValue("***"), "'***' is not a whole number"),
        (IntegerType(8, unsigned=False), KeepLast(2), "only of a text the last characters can be kept"),
        (DecimalType(4, 2), FixedValue("100"), "100 does not fit into 4 digits, 2 of them after the point"),
        (DecimalType(4, 2), FixedValue("1.005"), "does not fit"),
        (DecimalType(4, 2), FixedValue("x"), "'x' is not a number"),
        (FloatType(32), FixedValue("1e39"), "is no number of 32 bits"),
        (FloatType(64), FixedValue("nan"), "is no number of 64 bits"),
        (DateType(), FixedValue("***"), "is not a date like 2024-01-31"),
        (DateType(), FixedValue("2023-02-29"), "day"),
        (DateTimeType(0), FixedValue("2024-01-01 00:00:00.5"), "more than the column's 0 fraction digits"),
        (TimeType(0), FixedValue("839:00:00"), "more than 838 hours"),
        (YearType(), FixedValue("1900"), "1900 is not between 1901 and 2155"),
        (EnumType(("a",)), FixedValue("b"), "'b' is none of its labels 'a', ''"),
        (SetType(("a",)), FixedValue("b"), "'b' is none of its labels 'a'"),
        (PrintedType("json"), FixedValue("***"), "Expecting value"),
        (PrintedType("json"), Blank(), "there is no value that stands for any other"),
        (PrintedType("uuid"), FixedValue("x"), "badly formed"),
        (PrintedType("postgres"), FixedValue("x"), "whose rules PostgreSQL alone knows"),
        (GeometryType(), FixedValue("x"), "holds no value that can be written as text"),
        (VectorType(3), Blank(), "there is no value"),
        (BytesType(1, fixed=False), FixedValue("é"), "has 2 bytes, and the column holds 1"),
    ],
)
def test_a_mask_that_the_type_cannot_hold_stops_the_table(type_: ColumnType, mask: Mask, said: str) -> None:
    with pytest.raises(TableStoppedError) as caught:
        MaskColumns(("x",), mask).derive(with_column(type_))

    assert "cannot hold the mask" in str(caught.value)
    assert said in str(caught.value)


def test_a_column_of_the_key_is_not_masked() -> None:
    with pytest.raises(TableStoppedError, match=r"(?s)a key that is masked .* hash the column instead"):
        MaskColumns(("email", "id"), Blank()).derive(CUSTOMERS)


def test_the_type_of_a_masked_text_is_its_own() -> None:
    assert MaskColumns(("email",), KeepLast(4)).derive(CUSTOMERS).column("email").type == TEXT
