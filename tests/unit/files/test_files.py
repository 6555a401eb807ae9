"""What is in a batch file, and what it is called."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.arrow_types import arrow_schema
from penstock.core.avro.envelope_decode import DecodedChanges, DecodedRows
from penstock.core.errors import CorruptLogError, TableStoppedError
from penstock.core.files import file_rows, file_schema, object_key, parse_file, render_file
from penstock.core.tables import (
    BytesType,
    Column,
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

if TYPE_CHECKING:
    from collections.abc import Sequence

ID = Column("id", IntegerType(64, unsigned=True), nullable=False)
NAME = Column("name", TextType(20, "utf8mb4"), nullable=True)
KEYED = TableSchema(TableId("shop", "users"), (ID, NAME), ("id",))
KEYLESS = TableSchema(TableId("shop", "log"), (ID, NAME), ())

Change = tuple[str, str | None, str | None]


def image(schema: TableSchema, names: Sequence[str | None]) -> pa.RecordBatch:
    """One of the two rows of each change; its id is the change's number."""
    fields = [field.with_nullable(nullable=True) for field in arrow_schema(schema)]
    rows = [{} if name is None else {"id": number, "name": name} for number, name in enumerate(names)]
    return pa.RecordBatch.from_pylist(rows, pa.schema(fields))


def decoded(schema: TableSchema, changes: list[Change]) -> DecodedChanges | DecodedRows:
    """Decode as the Avro part does: a letter, and the name in the row before and after."""
    return one_row(schema, changes) if schema.key else both_rows(schema, changes)


def one_row(schema: TableSchema, changes: list[Change]) -> DecodedRows:
    count = len(changes)
    texts = pa.array([""] * count, pa.string())
    return DecodedRows(
        op=pa.array([change[0] for change in changes], pa.string()),
        rows=image(schema, [before if after is None else after for _, before, after in changes]),
        is_before=np.array([after is None for _, _, after in changes], np.bool_),
        source=texts,
        file=texts,
        pos=np.zeros(count, np.int64),
        row=np.zeros(count, np.int32),
        ts_ms=np.zeros(count, np.int64),
        lacks=texts,
    )


def both_rows(schema: TableSchema, changes: list[Change]) -> DecodedChanges:
    count = len(changes)
    before, after = [change[1] for change in changes], [change[2] for change in changes]
    texts = pa.array([""] * count, pa.string())
    return DecodedChanges(
        op=pa.array([change[0] for change in changes], pa.string()),
        before=image(schema, before),
        has_before=np.array([name is not None for name in before], np.bool_),
        after=image(schema, after),
        has_after=np.array([name is not None for name in after], np.bool_),
        source=texts,
        file=pa.array(["bin.000007"] * count, pa.string()),
        pos=np.arange(count, dtype=np.int64) * 100,
        row=np.zeros(count, np.int32),
        ts_ms=np.full(count, 1_700_000_000_000, np.int64),
        gtid=texts,
        db=texts,
        table=texts,
        before_lacks=texts,
        after_lacks=texts,
        server_id=np.ones(count, np.int64),
    )


CHANGES: list[Change] = [("c", None, "a"), ("u", "a", "b"), ("d", "b", None), ("r", None, "x")]


def rows(schema: TableSchema, changes: list[Change]) -> pa.Table:
    return file_rows(schema, decoded(schema, changes), np.arange(len(changes), dtype=np.int64) + 50)


def test_a_keyed_table_has_one_row_per_change_the_newest_or_for_a_delete_the_last() -> None:
    table = rows(KEYED, CHANGES)

    assert table.to_pydict() == {
        "id": [0, 1, 2, 3],
        "name": ["a", "b", "b", "x"],
        "__penstock_op": ["c", "u", "d", "r"],
        "__penstock_offset": [50, 51, 52, 53],
    }


def test_a_table_without_a_key_has_a_row_per_image_and_its_place_in_the_log() -> None:
    table = rows(KEYLESS, CHANGES)

    assert table.to_pydict() == {
        "id": [0, 1, 1, 2, 3],
        "name": ["a", "a", "b", "b", "x"],
        "__penstock_op": ["c", "u-", "u+", "d", "r"],
        "__penstock_offset": [50, 51, 51, 52, 53],
        "__penstock_file": ["bin.000007"] * 5,
        "__penstock_pos": [0, 100, 100, 200, 300],
        "__penstock_row": [0] * 5,
        "__penstock_ts_ms": [1_700_000_000_000] * 5,
    }


def test_rows_that_may_lack_columns_say_which() -> None:
    schema = replace(KEYED, partial_rows=True)
    lacks = pa.array(["", '["name"]', '["name"]', "", ""])
    changes = replace(one_row(schema, [*CHANGES, ("u", "a", "b")]), lacks=lacks)

    table = file_rows(schema, changes, np.arange(5, dtype=np.int64))

    assert table.column("__penstock_lacks").to_pylist() == ["", "01", "01", "", ""]
    assert parse_file(schema, render_file(schema, table)).equals(table)


@pytest.mark.parametrize("schema", [KEYED, KEYLESS])
def test_no_changes_make_no_rows(schema: TableSchema) -> None:
    assert rows(schema, []).num_rows == 0
    assert rows(schema, []).schema == file_schema(schema)


@given(st.lists(st.sampled_from(CHANGES)))
def test_a_file_gives_back_its_rows_and_the_same_rows_give_the_same_bytes(changes: list[Change]) -> None:
    for schema in (KEYED, KEYLESS):
        content = render_file(schema, rows(schema, changes))

        assert parse_file(schema, content).equals(rows(schema, changes))
        assert content == render_file(schema, rows(schema, changes).slice(0))


def test_large_values_are_not_copied_for_what_nobody_reads() -> None:
    values = ["x" * (3 << 20)] * 8
    changes: list[Change] = [("c", None, value) for value in values]

    content = render_file(KEYED, file_rows(KEYED, decoded(KEYED, changes), np.arange(8)))

    written = pq.ParquetFile(pa.BufferReader(content)).metadata.row_group(0)
    columns = {column.path_in_schema: column for column in map(written.column, range(written.num_columns))}
    assert not any(column.is_stats_set for column in columns.values())
    assert not columns["name"].has_dictionary_page
    assert columns["__penstock_op"].has_dictionary_page


def test_every_type_comes_back_from_a_file_as_it_went_in() -> None:
    values: list[tuple[Column, object]] = [
        (Column("i8", IntegerType(8, unsigned=False), nullable=True), -128),
        (Column("u64", IntegerType(64, unsigned=True), nullable=True), 2**64 - 1),
        (Column("d38", DecimalType(38, 2), nullable=True), Decimal("123456789012345678901234567890123456.78")),
        (Column("d65", DecimalType(65, 30), nullable=True), Decimal("1234567890123456789012345678901234." + "5" * 30)),
        (Column("f32", FloatType(32), nullable=True), 1.5),
        (Column("text", TextType(9, "utf8mb4"), nullable=True), "né\x00e😀"),
        (Column("bytes", BytesType(4, fixed=True), nullable=True), b"\x00\xff\x00\x00"),
        (Column("date", DateType(), nullable=True), dt.date(9999, 12, 31)),
        (Column("local", DateTimeType(6), nullable=True), dt.datetime(1000, 1, 1, 0, 0, 0, 1)),  # noqa: DTZ001 - local
        (Column("instant", TimestampType(6), nullable=True), dt.datetime(2038, 1, 19, 3, 14, 7, 999999, dt.UTC)),
        (Column("year", YearType(), nullable=True), 2155),
        (Column("enum", EnumType(("a", "b")), nullable=True), "b"),
    ]
    schema = TableSchema(TableId("shop", "types"), tuple(column for column, _ in values), ("i8",))
    row = {column.name: value for column, value in values} | {"__penstock_op": "c", "__penstock_offset": 0}
    table = pa.Table.from_pylist([row], file_schema(schema))

    content = render_file(schema, table)

    assert parse_file(schema, content).to_pylist() == [row]
    assert pq.read_table(pa.BufferReader(content)).schema == file_schema(schema)


@pytest.mark.parametrize("schema", [KEYED, KEYLESS])
def test_a_missing_row_image_is_refused_with_its_offset(schema: TableSchema) -> None:
    with pytest.raises(CorruptLogError, match="at offset 51 lacks the row before it"):
        rows(schema, [("c", None, "a"), ("d", None, "b")])
    with pytest.raises(CorruptLogError, match="at offset 50 lacks the row after it"):
        rows(schema, [("u", "a", None)])


def test_an_update_in_a_table_without_a_key_needs_both_images() -> None:
    with pytest.raises(CorruptLogError, match="lacks the row before it"):
        rows(KEYLESS, [("u", None, "b")])


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (Column("__PENSTOCK_op", NAME.type, nullable=True), "kept for Penstock's own columns"),
        (Column("area", UnsupportedType("polygon"), nullable=True), "no Arrow type carries polygon"),
    ],
)
def test_a_column_that_no_file_can_have_stops_the_table(column: Column, said: str) -> None:
    with pytest.raises(TableStoppedError, match=said):
        file_schema(TableSchema(TableId("shop", "users"), (ID, column), ("id",)))


def test_rows_of_another_table_are_not_written_and_not_read() -> None:
    content = render_file(KEYED, rows(KEYED, CHANGES))

    with pytest.raises(ValueError, match="and a file has"):
        render_file(KEYLESS, rows(KEYED, CHANGES))
    with pytest.raises(ValueError, match="the file has columns"):
        parse_file(KEYLESS, content)


def test_a_file_is_called_after_where_its_changes_come_from() -> None:
    key = object_key("shop", "shopdb", "shopdb.shop.users", 0, (1234, 1300), 7)

    assert key == "shop/shopdb/shopdb.shop.users/0/00000000000000001234-00000000000000001300-7"


def test_no_name_leads_out_of_its_folder() -> None:
    assert object_key("a/b", "..", "ü %", 1, (0, 9), 2).startswith("a%2Fb/%2E%2E/%C3%BC%20%25/1/")
