"""Keys as literals: what a cursor compares with, and what people list."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.core.errors import UsageError
from penstock.core.keys import read_key
from penstock.core.mysql.types.key_literals import key_values, literal, literal_of
from penstock.core.tables import (
    BytesType,
    Column,
    ColumnType,
    DateType,
    EnumType,
    FloatType,
    IntegerType,
    TableId,
    TableSchema,
    TextType,
    TimeType,
)

UNSIGNED = IntegerType(64, unsigned=True)


def column(type_: ColumnType, name: str = "id") -> Column:
    return Column(name, type_, nullable=False)


@pytest.mark.parametrize(
    ("type_", "printed", "expected"),
    [
        (UNSIGNED, b"18446744073709551615", "18446744073709551615"),
        (TextType(9, "latin1"), b"\xf6'", "_latin1 X'f627'"),
        (BytesType(4, fixed=True), b"\0'\\\xff", "X'00275cff'"),
        (FloatType(64), b"0.1", "0.1e0"),
        (FloatType(64), b"-1e300", "-1e300"),
        (EnumType(("z", "a")), b"2", "2"),
        (DateType(), b"2024-02-29", "'2024-02-29'"),
    ],
)
def test_a_printed_value_is_a_literal_that_compares_as_the_column(
    type_: ColumnType, printed: bytes, expected: str
) -> None:
    assert literal(column(type_), printed) == expected


@pytest.mark.parametrize(("type_", "printed"), [(UNSIGNED, b"1 OR 1"), (DateType(), b"'"), (FloatType(32), b"x")])
def test_what_is_no_value_never_becomes_sql(type_: ColumnType, printed: bytes) -> None:
    with pytest.raises(ValueError, match="is no value of a key"):
        literal(column(type_), printed)


def test_a_key_is_read_by_its_columns_in_order_or_alone() -> None:
    pair = TableSchema(TableId("s", "t"), (column(UNSIGNED, "a"), column(UNSIGNED, "b")), ("b", "a"))
    single = TableSchema(TableId("s", "t"), (column(UNSIGNED),), ("id",))

    assert read_key(pair, '{"a": 1, "b": "2"}') == ("2", 1)
    assert read_key(pair, "[2, 1]") == (2, 1)
    assert read_key(single, "7") == (7,)


@pytest.mark.parametrize("line", ["", "{", '{"n": 1}', "[1, 2]", "null", "[[1]]", "true"])
def test_what_is_no_key_is_refused_with_how_to_write_one(line: str) -> None:
    single = TableSchema(TableId("s", "t"), (column(UNSIGNED),), ("id",))

    with pytest.raises(UsageError, match=r"is no primary key of s\.t"):
        read_key(single, line)


def test_a_listed_value_is_what_the_log_has_of_it() -> None:
    fixed = column(BytesType(4, fixed=True))

    assert literal_of(fixed, "0x00ff") == "X'00ff0000'"
    assert key_values(fixed, ["0x00ff"]).to_pylist() == [b"\0\xff\0\0"]
    assert literal_of(column(TextType(9, "latin1")), "ö") == "CONVERT(_utf8mb4 X'c3b6' USING latin1)"
    sorted_ = replace(column(TextType(9, "latin1")), collation="latin1_german2_ci")
    assert literal_of(sorted_, "ö") == "CONVERT(_utf8mb4 X'c3b6' USING latin1) COLLATE latin1_german2_ci"
    assert key_values(column(UNSIGNED), [2**64 - 1, "0"]).to_pylist() == [2**64 - 1, 0]
    with pytest.raises(ValueError, match="does not begin with 0x"):
        literal_of(fixed, "00ff")


@pytest.mark.parametrize("listed", [0.1, "0.1", 0.10000000149011612, "1e-1"])
def test_a_listed_float_is_compared_with_what_the_column_holds(listed: object) -> None:
    single, double = column(FloatType(32)), column(FloatType(64))

    assert literal_of(single, listed) == "0.10000000149011612e0"
    assert key_values(single, [listed]).to_pylist() == [0.10000000149011612]
    assert literal_of(double, 0.1) == "0.1e0"


@pytest.mark.parametrize("listed", ["1e39", "x", "nan", ""])
def test_a_listed_float_that_the_column_cannot_hold_is_refused(listed: str) -> None:
    with pytest.raises(ValueError, match=r"is no value of a key|Failed to parse"):
        literal_of(column(FloatType(32)), listed)


@pytest.mark.parametrize("text", ["10:00:00.1234567", "10:00", "10:60:00", "+1:00:00", "1:00:00.", "noon"])
def test_a_listed_time_that_is_none_is_refused_and_not_read_as_another(text: str) -> None:
    with pytest.raises(ValueError, match="is no time such as"):
        key_values(column(TimeType(6)), [text])


@pytest.mark.parametrize(
    ("text", "microseconds"), [("-838:59:59.000001", -3_020_399_000_001), ("1:02:03.5", 3_723_500_000)]
)
def test_a_listed_time_is_what_the_log_has_of_it(text: str, microseconds: int) -> None:
    assert key_values(column(TimeType(6)), [text]).cast(pa.int64()).to_pylist() == [microseconds]
