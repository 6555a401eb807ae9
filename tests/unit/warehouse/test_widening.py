"""Which type changes are safe."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from penstock.core.mysql.statements.evolution import refusal
from penstock.core.mysql.types.charsets import BYTES_PER_CHARACTER
from penstock.core.tables import (
    BytesType,
    Column,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    TableId,
    TableSchema,
    TextType,
    TimestampType,
    UnsupportedType,
    YearType,
)
from penstock.core.warehouse.widening import widens

BITS = st.sampled_from((8, 16, 24, 32, 64))


def integer(bits: int, *, unsigned: bool = False) -> IntegerType:
    return IntegerType(bits, unsigned)  # type: ignore[arg-type]


def limits(type_: IntegerType) -> tuple[int, int]:
    if type_.unsigned:
        return 0, 2**type_.bits - 1
    return -(2 ** (type_.bits - 1)), 2 ** (type_.bits - 1) - 1


@given(BITS, st.booleans(), BITS, st.booleans())
def test_an_integer_widens_exactly_to_those_that_hold_its_least_and_its_largest(
    bits: int,
    unsigned: bool,  # noqa: FBT001
    bits_after: int,
    unsigned_after: bool,  # noqa: FBT001
) -> None:
    before, after = integer(bits, unsigned=unsigned), integer(bits_after, unsigned=unsigned_after)
    (least, largest), (least_after, largest_after) = limits(before), limits(after)

    assert widens(before, after) == (least_after <= least and largest <= largest_after)


@given(BITS, st.booleans(), st.integers(1, 30), st.integers(0, 10))
def test_an_integer_widens_to_a_decimal_that_has_its_digits(
    bits: int,
    unsigned: bool,  # noqa: FBT001
    whole: int,
    scale: int,
) -> None:
    before = integer(bits, unsigned=unsigned)
    longest = max(len(str(abs(limit))) for limit in limits(before))

    if widens(before, DecimalType(whole + scale, scale)):
        assert whole >= longest


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (DecimalType(10, 2), DecimalType(12, 4)),
        (FloatType(32), FloatType(64)),
        (integer(24), FloatType(32)),
        (integer(32, unsigned=True), FloatType(64)),
        (TextType(10, "latin1"), TextType(10, "utf8mb4")),
        (BytesType(8, fixed=True), BytesType(8, fixed=False)),
        (EnumType(("a", "b")), EnumType(("b", "a", "c"))),
        (EnumType(("a", "bb")), TextType(2, "utf8mb4")),
        (DateType(), DateTimeType(0)),
        (DateTimeType(0), DateTimeType(6)),
        (TimestampType(3), TimestampType(3)),
        (YearType(), YearType()),
    ],
)
def test_a_change_that_keeps_every_value_widens(before: ColumnType, after: ColumnType) -> None:
    assert widens(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (DecimalType(10, 2), DecimalType(11, 4)),
        (DecimalType(10, 2), DecimalType(12, 1)),
        (FloatType(64), FloatType(32)),
        (integer(32), FloatType(32)),
        (integer(64), FloatType(64)),
        (TextType(10, "utf8mb4"), TextType(9, "utf8mb4")),
        (TextType(10, "utf8mb4"), TextType(10, "latin1")),
        (BytesType(4, fixed=True), BytesType(8, fixed=True)),
        (BytesType(4, fixed=False), BytesType(4, fixed=True)),
        (EnumType(("a", "b")), EnumType(("a",))),
        (EnumType(("a", "bb")), TextType(1, "utf8mb4")),
        (TextType(1, "utf8mb4"), EnumType(("a",))),
        (DateTimeType(6), DateTimeType(0)),
        (DateTimeType(0), TimestampType(0)),
        (TextType(10, "utf8mb4"), BytesType(40, fixed=False)),
        (YearType(), integer(16)),
        (integer(8), UnsupportedType("bit(8)")),
    ],
)
def test_a_change_that_may_alter_a_value_does_not_widen(before: ColumnType, after: ColumnType) -> None:
    assert not widens(before, after)


CHARSETS = st.sampled_from(sorted(BYTES_PER_CHARACTER))
TEXTS = st.builds(TextType, st.integers(1, 9), CHARSETS)
TYPES: st.SearchStrategy[ColumnType] = st.one_of(
    TEXTS, *(st.builds(type_) for type_ in get_args(ColumnType) if type_ is not TextType)
)


@st.composite
def changes(draw: st.DrawFn) -> tuple[ColumnType, ColumnType]:
    """Two types, mostly of the same kind, for others never turn into one another."""
    before = draw(TYPES)
    alike: st.SearchStrategy[ColumnType] = TEXTS if isinstance(before, TextType) else st.builds(type(before))
    return before, draw(st.one_of(alike, TYPES))


@given(changes())
def test_whatever_change_of_type_the_capture_carries_the_warehouse_carries_too(
    change: tuple[ColumnType, ColumnType],
) -> None:
    before, after = (
        TableSchema(TableId("a", "t"), (Column("c", type_, nullable=True, declaration="varchar"),), ())
        for type_ in change
    )

    carried = refusal(before, after) is None
    event(f"carried: {carried}")

    assert widens(*change) or not carried
