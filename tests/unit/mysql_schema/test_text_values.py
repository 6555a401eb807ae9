from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.arrow_types import arrow_type
from penstock.core.mysql.types.text_values import parse_values, select_expression
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
    TextType,
    TimestampType,
    TimeType,
    UnsupportedType,
    VectorType,
    YearType,
)

VALUES: list[tuple[ColumnType, bytes, object]] = [
    (IntegerType(64, unsigned=True), b"18446744073709551615", 2**64 - 1),
    (IntegerType(32, unsigned=True), b"0000000042", 42),
    (DecimalType(65, 30), b"-0." + b"0" * 29 + b"1", Decimal("-1E-30")),
    (TextType(9, "utf8mb4"), "日本😀".encode(), "日本😀"),
    (BytesType(9, fixed=False), b"\xff\x00", b"\xff\x00"),
    (DateType(), b"9999-12-31", dt.date(9999, 12, 31)),
    (DateTimeType(6), b"1000-01-01 00:00:00.000001", dt.datetime(1000, 1, 1, 0, 0, 0, 1)),  # noqa: DTZ001 - it has no zone
    (TimestampType(3), b"2020-01-01 00:00:00.120", dt.datetime(2020, 1, 1, 0, 0, 0, 120000, tzinfo=dt.UTC)),
    (YearType(), b"0000", 0),
    (EnumType(("a", "ü")), b"2", "ü"),
    (EnumType(("a", "ü")), b"0", ""),
    (SetType(("a", "b", "c")), b"5", "a,c"),
    (SetType(("a", "b", "c")), b"0", ""),
    (BitType(64), b"18446744073709551615", 2**64 - 1),
    (TimeType(0), b"-838:59:59", -dt.timedelta(hours=838, minutes=59, seconds=59)),
    (TimeType(3), b"00:00:00.007", dt.timedelta(milliseconds=7)),
    (TextType(9, "sjis"), b"\x93\xfa\x96\x7b", "日本"),
    (PrintedType("date"), b"0000-00-00", "0000-00-00"),
    (
        GeometryType(),
        bytes.fromhex("e6100000 01 01000000") + bytes(16),
        bytes.fromhex("01 01000020 e6100000") + bytes(16),
    ),
    (GeometryType(), bytes.fromhex("00000000 01 01000000") + bytes(16), bytes.fromhex("01 01000000") + bytes(16)),
    (VectorType(2), bytes.fromhex("0000803f 000000c0"), [1.0, -2.0]),
    (DateType(zero_is_null=True), b"2020-00-10", None),
    (DateType(zero_is_null=True), b"2020-02-10", dt.date(2020, 2, 10)),
    (DateTimeType(1, zero_is_null=True), b"0000-00-00 00:00:00.0", None),
    (TimestampType(0, zero_is_null=True), b"2020-01-01 00:00:00", dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
]
REFUSED: list[tuple[ColumnType, bytes]] = [
    (DateType(), b"0000-00-00"),
    (DateType(), b"0000-01-01"),
    (DateType(), b"2020-00-10"),
    (DateTimeType(0), b"0000-00-00 00:00:00"),
    (TimestampType(0), b"0000-00-00 00:00:00"),
    (EnumType(("a",)), b"2"),
    (TextType(9, "utf8mb4"), b"\xff"),
    (SetType(("a",)), b"2"),
    (TextType(9, "ascii"), b"\xe4"),
    (VectorType(1), b"abc"),
    (UnsupportedType("xml"), b"00:00:00"),
]


@pytest.mark.parametrize(("type_", "printed", "value"), VALUES)
def test_a_printed_value_arrives_as_it_is(type_: ColumnType, printed: bytes, value: object) -> None:
    parsed = parse_values(type_, pa.array([printed, None], pa.binary()))

    assert parsed.to_pylist() == [value, None]
    assert parsed.type == arrow_type(type_)


@pytest.mark.parametrize(("type_", "printed"), REFUSED)
def test_a_value_that_the_type_does_not_hold_is_refused(type_: ColumnType, printed: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_values(type_, pa.array([printed], pa.binary()))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_comes_back_from_its_shortest_text(number: float) -> None:
    parsed = parse_values(FloatType(64), pa.array([repr(number).encode()], pa.binary()))[0].as_py()

    assert parsed == number
    assert math.copysign(1, parsed) == math.copysign(1, number)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_every_float_comes_back_from_the_text_of_its_double(number: float) -> None:
    parsed = parse_values(FloatType(32), pa.array([repr(number).encode()], pa.binary()))

    assert parsed.equals(pa.array([number], pa.float32()))


def test_what_would_be_printed_in_part_is_asked_for_in_another_way() -> None:
    latin, utf8 = TextType(9, "latin1"), TextType(9, "utf8mb4")
    types: dict[str, ColumnType] = {"f": FloatType(32), "e": EnumType(("a",)), "l": latin, "t": utf8}

    selected = [select_expression(Column(name, type_, nullable=True), name) for name, type_ in types.items()]

    assert selected == ["CAST(f AS DOUBLE)", "CAST(e AS UNSIGNED)", "l", "t"]
