from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.mysql.statements.evolution import refusal
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
    IntegerType,
    TableId,
    TableSchema,
    TextType,
    TimestampType,
    UnsupportedType,
)

ID = Column("id", IntegerType(32, unsigned=False), nullable=False, declaration="int(11)")


def column(type_: ColumnType, declaration: str = "x", **more: object) -> Column:
    fields: dict[str, object] = {"name": "c", "type": type_, "nullable": True, "declaration": declaration, **more}
    return Column(**fields)  # type: ignore[arg-type]


def table(*columns: Column, key: tuple[str, ...] = ("id",)) -> TableSchema:
    return TableSchema(TableId("a", "t"), (ID, *columns), key)


def text(length: int, charset: str = "utf8mb4", declaration: str = "") -> Column:
    return column(TextType(length, charset), declaration or f"varchar({length})")


INT = IntegerType(32, unsigned=False)
CARRIED = [
    (column(INT), column(IntegerType(64, unsigned=False))),
    (column(IntegerType(32, unsigned=True)), column(IntegerType(64, unsigned=False))),
    (column(DecimalType(10, 2)), column(DecimalType(12, 2))),
    (column(DecimalType(10, 2)), column(DecimalType(12, 4))),
    (column(FloatType(32), "float"), column(FloatType(64), "double")),
    (column(FloatType(64), "double(10,2)"), column(FloatType(64), "double")),
    (text(10), text(20)),
    (text(10, "utf8mb3"), text(10, "utf8mb4")),
    (text(10, "latin1"), text(10, "utf8mb4")),
    (text(10), text(65535, declaration="text")),
    (text(65535, declaration="text"), text(16777215, declaration="mediumtext")),
    (text(65535, "ascii", "text"), text(65535, "utf8mb4", "text")),
    (text(10, declaration="char(10)"), text(10)),
    (column(BytesType(4, fixed=True)), column(BytesType(8, fixed=False))),
    (column(DateTimeType(0)), column(DateTimeType(6))),
    (column(TimestampType(0)), column(TimestampType(3))),
    (column(EnumType(("a",))), column(EnumType(("a", "b")))),
    (column(INT, default="1", comment="a"), column(INT, default="2", comment="b")),
]
REFUSED = [
    (column(INT), column(IntegerType(16, unsigned=False))),
    (column(INT), column(IntegerType(64, unsigned=True))),
    (column(INT), column(DecimalType(20, 0))),
    (column(DecimalType(10, 2)), column(DecimalType(10, 4))),
    (column(DecimalType(10, 2)), column(DecimalType(12, 1))),
    (column(DecimalType(10, 2), "decimal(10,2)"), column(DecimalType(12, 2), "decimal(12,2) unsigned")),
    (column(FloatType(64)), column(FloatType(32))),
    (column(FloatType(64), "double"), column(FloatType(64), "double(10,2)")),
    (column(FloatType(32), "float(7,3)"), column(FloatType(64), "double")),
    (column(FloatType(32), "float"), column(FloatType(32), "float unsigned")),
    (text(20), text(10)),
    (text(10, "utf8mb4"), text(10, "latin1")),
    (text(10, "utf8mb4"), text(10, "utf8mb3")),
    (text(100), text(255, declaration="tinytext")),
    (text(65535, "latin1", "text"), text(65535, "utf8mb4", "text")),
    (text(10), text(10, declaration="char(10)")),
    (text(10), column(BytesType(10, fixed=False))),
    (column(BytesType(4, fixed=True)), column(BytesType(8, fixed=True))),
    (column(DateTimeType(6)), column(DateTimeType(3))),
    (column(DateType()), column(DateTimeType(0))),
    (column(TimestampType(0)), column(DateTimeType(0))),
    (column(EnumType(("a", "b"))), column(EnumType(("b", "a")))),
    (column(EnumType(("a", "b"))), column(EnumType(("a",)))),
    (column(INT), column(UnsupportedType("time"), "time")),
    (column(INT, "int(11)"), column(INT, "int(11) GENERATED ALWAYS AS (1) STORED")),
    (
        column(INT, "int(11) GENERATED ALWAYS AS (1) STORED"),
        column(INT, "int(11) GENERATED ALWAYS AS (2) STORED"),
    ),
]
ADDED = [column(INT), column(INT, nullable=False, default="0"), column(INT, default="5")]
NOT_ADDED = [
    column(INT, nullable=False),
    column(INT, default_is_expression=True),
    column(UnsupportedType("time")),
]


@pytest.mark.parametrize(("before", "after"), CARRIED)
def test_a_change_that_keeps_every_value_is_carried(before: Column, after: Column) -> None:
    assert refusal(table(before), table(after)) is None


@pytest.mark.parametrize(("before", "after"), REFUSED)
def test_a_change_that_may_touch_values_is_refused_with_its_column(before: Column, after: Column) -> None:
    refused = refusal(table(before), table(after))

    assert refused is not None
    assert refused.column == "c"
    assert before.declaration in refused.reason
    assert refused.hint


def test_a_type_that_would_hold_all_values_is_not_said_to_hold_fewer() -> None:
    found = refusal(table(column(BitType(1), "bit(1)")), table(column(IntegerType(8, unsigned=False), "tinyint(4)")))

    assert found is not None
    assert found.reason == "it changed from bit(1) to tinyint(4), a type whose values are written in another way"


@pytest.mark.parametrize("mode", [1 << 21, 1 << 22])
def test_a_column_becomes_not_null_where_the_source_refuses_that_while_there_are_nulls(mode: int) -> None:
    before, after = table(column(INT, nullable=True)), table(column(INT, nullable=False))

    assert refusal(before, after, mode) is None
    for lenient in (0, 1 << 20):
        refused = refusal(before, after, lenient)
        assert refused is not None
        assert "turns NULL into 0" in refused.reason
        assert "STRICT_TRANS_TABLES" in refused.hint


def test_a_timestamp_that_becomes_not_null_is_refused_in_strict_mode_too() -> None:
    before, after = (table(column(TimestampType(0), nullable=nullable)) for nullable in (True, False))

    refused = refusal(before, after, 1 << 21)

    assert refused is not None
    assert "the time of the change" in refused.reason


def test_a_char_whose_padding_the_source_kept_is_refused() -> None:
    before, after = table(text(10, declaration="char(10)")), table(text(10))

    refused = refusal(before, after, 1 << 31)

    assert refusal(before, after, 1 << 21) is None
    assert refused is not None
    assert "PAD_CHAR_TO_FULL_LENGTH" in refused.reason


def test_another_character_set_of_the_same_declaration_is_named() -> None:
    refused = refusal(table(text(20, "utf8mb4")), table(text(20, "latin1")))

    assert refused is not None
    assert "from varchar(20) utf8mb4 to varchar(20) latin1" in refused.reason


@pytest.mark.parametrize("added", ADDED)
def test_a_column_whose_old_rows_are_known_can_be_added(added: Column) -> None:
    assert refusal(table(), table(added)) is None


@pytest.mark.parametrize("added", NOT_ADDED)
def test_a_column_whose_old_rows_only_the_source_knows_is_refused(added: Column) -> None:
    refused = refusal(table(), table(added))

    assert refused is not None
    assert refused.column == "c"


def test_a_column_can_be_dropped_or_moved() -> None:
    first, second = column(INT, name="a"), column(INT, name="b")

    assert refusal(table(first, second), table(second)) is None
    assert refusal(table(first, second), table(second, first)) is None


@pytest.mark.parametrize("key", [(), ("c",), ("id", "c"), ("c", "id")])
def test_another_primary_key_knows_the_same_rows(key: tuple[str, ...]) -> None:
    assert refusal(table(column(INT)), table(column(INT), key=key)) is None
    assert refusal(table(column(INT), key=key), table(column(INT))) is None


def test_another_primary_key_is_refused_where_rows_come_or_go_with_it_or_are_not_whole() -> None:
    row_end = column(TimestampType(6), "timestamp(6) GENERATED ALWAYS AS (ROW END) STORED", name="row_end")
    versioned = table(row_end, key=("id", "row_end"))
    partial = replace(table(column(INT), key=("c",)), partial_rows=True)

    for before, after in ((table(), versioned), (versioned, table()), (replace(table(), partial_rows=True), partial)):
        refused = refusal(before, after)
        assert refused is not None
        assert refused.column == ""
        assert "its primary key changed from (" in refused.reason


def test_a_history_that_ends_or_begins_is_refused_without_a_key_too() -> None:
    row_end = column(TimestampType(6), "timestamp(6) GENERATED ALWAYS AS (ROW END) STORED", name="row_end")
    versioned, plain = table(column(INT), row_end, key=()), table(column(INT), key=())

    for before, after in ((versioned, plain), (plain, versioned)):
        refused = refusal(before, after)
        assert refused is not None
        assert "keeps its history" in refused.reason


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (column(DecimalType(8, 2), "decimal(8,2)"), column(DecimalType(12, 4), "decimal(12,4)")),
        (column(FloatType(32), "float"), column(FloatType(64), "double")),
        (column(DateTimeType(0), "datetime"), column(DateTimeType(6), "datetime(6)")),
        (column(INT, "int(5) zerofill"), column(INT, "int(6) zerofill")),
        (text(10, "latin1"), text(10, "utf8mb4")),
    ],
)
def test_a_column_that_is_computed_from_one_that_reads_otherwise_is_refused(before: Column, after: Column) -> None:
    for expression in ("concat(`c`,'x')", "c"):
        computed = column(INT, f"int(11) GENERATED ALWAYS AS ({expression}) VIRTUAL", name="g")

        refused = refusal(table(before, computed), table(after, computed))

        assert refused is not None
        assert (refused.column, "it is computed from c" in refused.reason) == ("g", True)


def test_a_column_that_is_computed_from_others_or_from_what_reads_alike_is_carried() -> None:
    computed = column(INT, "int(11) GENERATED ALWAYS AS (`c` + 1) STORED", name="g")
    other = column(INT, "int(11) GENERATED ALWAYS AS (`cc` + 1) STORED", name="g")
    wider = column(IntegerType(64, unsigned=False), "bigint(20)")

    assert refusal(table(column(INT), computed), table(wider, computed)) is None
    assert refusal(table(column(FloatType(32)), other), table(column(FloatType(64), "double"), other)) is None


@given(
    st.builds(IntegerType, st.sampled_from([8, 16, 24, 32, 64]), st.booleans()),
    st.builds(IntegerType, st.sampled_from([8, 16, 24, 32, 64]), st.booleans()),
    st.builds(IntegerType, st.sampled_from([8, 16, 24, 32, 64]), st.booleans()),
)
def test_two_steps_that_are_carried_can_be_made_in_one(a: IntegerType, b: IntegerType, c: IntegerType) -> None:
    steps = [refusal(table(column(x)), table(column(y))) is None for x, y in ((a, b), (b, c))]

    assert not all(steps) or refusal(table(column(a)), table(column(c))) is None


@given(st.sampled_from([pair[index] for pair in CARRIED + REFUSED for index in (0, 1)]))
def test_no_change_is_always_carried(same: Column) -> None:
    assert refusal(table(same), table(same)) is None
