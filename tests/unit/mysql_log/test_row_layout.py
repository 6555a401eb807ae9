"""A schema and a table map that differ: the table stops, and the error says where."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import TableStoppedError
from penstock.core.mysql.rows.decode import decode_rows
from penstock.core.tables import (
    BitType,
    BytesType,
    Column,
    ColumnType,
    DateTimeType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    PrintedType,
    SetType,
    TableId,
    TableSchema,
    TextType,
    TimestampType,
    TimeType,
    UnsupportedType,
    YearType,
)

if TYPE_CHECKING:
    from tests.unit.mysql_log.conftest import OneColumn


def test_a_table_map_of_another_shape_stops_the_table(one_column: OneColumn) -> None:
    integer = IntegerType(32, unsigned=False)
    writer = one_column(integer)
    event = writer.event([[1]])
    map_ = event.table_map
    others = {
        "the log has 2 columns where 1": replace(map_, types=(3, 3), metadata=(0, 0), names=()),
        "the log has the columns w where v": replace(map_, names=("w",)),
        "type code 8": replace(map_, types=(8,)),
        r"the rows are of shop\.other": replace(map_, table=TableId("shop", "other")),
        "type code 3 with metadata 0 where": replace(map_, unsigned=(True,)),
    }
    for reason, other in others.items():
        with pytest.raises(TableStoppedError, match=reason):
            decode_rows(writer.schema, [replace(event, table_map=other)])


def test_types_that_are_not_known_stop_the_table_and_name_the_index_that_may_be_why(one_column: OneColumn) -> None:
    writer = one_column(IntegerType(32, unsigned=False))
    event = writer.event([])
    indexed = replace(event.table_map, types=(3, 20), metadata=(), nullable=(True, True), names=())

    with pytest.raises(TableStoppedError, match=r"types that this release does not know, among \[3, 20\]") as caught:
        decode_rows(writer.schema, [replace(event, table_map=indexed)])

    assert "multi-valued index" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "code", "unsigned"),
    [("DB_ROW_HASH_", 8, True), ("DB_ROW_HASH_1", 3, True), ("DB_ROW_HASH_1", 8, False), ("w", 8, True)],
)
def test_only_what_is_a_hash_in_every_way_is_taken_for_one(
    one_column: OneColumn, name: str, code: int, *, unsigned: bool
) -> None:
    writer = one_column(IntegerType(32, unsigned=False))
    event = writer.event([[1]])
    other = replace(
        event.table_map,
        types=(3, code),
        metadata=(0, 0),
        nullable=(True, True),
        names=("v", name),
        unsigned=(False, unsigned),
    )

    with pytest.raises(TableStoppedError, match="the log has 2 columns where 1") as caught:
        decode_rows(writer.schema, [replace(event, table_map=other)])
    assert "binlog_row_metadata" not in caught.value.hint


@pytest.mark.parametrize(
    ("type_", "code", "metadata"),
    [
        (DecimalType(10, 2), 246, 10 * 256 + 3),
        (DateTimeType(3), 18, 6),
        (TimestampType(3), 7, 0),
        (BytesType(5, fixed=True), 254, 254 * 256 + 6),
        (BytesType(5, fixed=True), 15, 5),
        (EnumType(("a",)), 254, 254 * 256 + 1),
        (EnumType(tuple(map(str, range(300)))), 254, 247 * 256 + 1),
        (TextType(10, "utf8mb4"), 254, 248 * 256 + 1),
        (TextType(10, "latin1"), 15, 40),
        (TextType(10, "utf8mb4"), 254, 254 * 256 + 10),
        (SetType(("a",)), 254, 248 * 256 + 2),
        (BitType(9), 16, 2 * 256),
        (TimeType(3), 11, 0),
        (PrintedType("uuid"), 254, 254 * 256 + 4),
        (FloatType(32), 5, 8),
        (YearType(), 1, 0),
    ],
)
def test_a_type_that_is_not_the_schemas_stops_the_table(
    one_column: OneColumn, type_: ColumnType, code: int, metadata: int
) -> None:
    writer = one_column(type_)
    event = writer.event([[None]])
    other = replace(event, table_map=replace(event.table_map, types=(code,), metadata=(metadata,)))

    with pytest.raises(TableStoppedError, match=f"type code {code}") as caught:
        decode_rows(writer.schema, [other])

    assert caught.value.column == "v"


def test_a_type_that_cannot_be_carried_stops_the_table(one_column: OneColumn) -> None:
    event = one_column(IntegerType(8, unsigned=False)).event([[1]])
    schema = TableSchema(TableId("shop", "t"), (Column("v", UnsupportedType("geometry"), nullable=True),), ())

    with pytest.raises(TableStoppedError, match="cannot carry the type geometry"):
        decode_rows(schema, [event])
