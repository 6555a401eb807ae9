"""Both decoders: equal to each other and to what was written, and loud about everything else."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.mysql_log.random_tables import DECODERS, assert_holds, decode_groups, decode_with, tables

from penstock.core.changes import Op
from penstock.core.errors import TableStoppedError
from penstock.core.mysql.rows.decode import decode_rows
from penstock.core.mysql.rows.rows_columns import PADDING, walk_events
from penstock.core.mysql.rows.rows_image import read_images
from penstock.core.mysql.rows.rows_plain import walk_rows
from penstock.core.mysql.types.row_layout import row_layout
from penstock.core.tables import (
    BytesType,
    Column,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    IntegerType,
    TableId,
    TableSchema,
    TextType,
    TimestampType,
)

if TYPE_CHECKING:
    from tests.unit.mysql_log.conftest import OneColumn, RowWriter
    from tests.unit.mysql_log.row_encoding import Value


@given(tables(), st.sampled_from([Op.CREATE, Op.UPDATE, Op.DELETE]))
def test_both_decoders_give_what_was_written(
    row_writer: type[RowWriter], table: tuple[TableSchema, list[list[list[Value]]]], op: Op
) -> None:
    schema, groups = table
    writer = row_writer(schema)
    images = [[*rows, *reversed(rows)] if op is Op.UPDATE else rows for rows in groups]
    events = [writer.event(rows, op, 1000 + index) for index, rows in enumerate(images)]

    plain, columns = (decode_with(decoder, schema, events) for decoder in ("plain", "columns"))

    for batch in (plain, columns):
        first, last = (batch.before, batch.after) if op is Op.UPDATE else (batch.after or batch.before, None)
        step = 2 if last is not None else 1
        assert_holds(first, [row for rows in images for row in rows[::step]], schema)
        if last is not None:
            assert_holds(last, [row for rows in images for row in rows[1::2]], schema)
    assert (plain.before, plain.after) == (columns.before, columns.after)
    for name in ("offsets", "rows", "timestamps_ms"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(columns, name))
    assert plain.gtids == columns.gtids


@DECODERS
def test_every_change_knows_its_place_and_its_transaction(one_column: OneColumn, decoder: str) -> None:
    writer = one_column(IntegerType(32, unsigned=False))
    events = [writer.event([[1], [2]], offset=500), writer.event([[3]], offset=700)]

    batch = decode_with(decoder, writer.schema, events)

    assert (batch.op, batch.file, batch.server_id, len(batch)) == (Op.CREATE, "mysql-bin.000001", 7, 3)
    assert batch.offsets.tolist() == [500, 500, 700]
    assert batch.rows.tolist() == [0, 1, 0]
    assert batch.timestamps_ms.tolist() == [5000, 5000, 7000]
    assert batch.gtids.to_pylist() == ["0-7-500", "0-7-500", "0-7-700"]
    assert [str(array.dtype) for array in (batch.offsets, batch.rows, batch.timestamps_ms)] == [
        "int64",
        "int32",
        "int64",
    ]


NEW_YEAR = 1 << 39 | (2024 * 13 + 1) << 22 | 1 << 17
BAD = [
    (DateType(), bytes(3), "0000-00-00 is no date"),
    (DateType(), (2024 << 9 | 2 << 5).to_bytes(3, "little"), "2024-02-00 is no date"),
    (DateType(), (2023 << 9 | 2 << 5 | 29).to_bytes(3, "little"), "2023-02-29 is no date"),
    (DateType(), (0 << 9 | 2 << 5 | 9).to_bytes(3, "little"), "0000-02-09 is no date"),
    (DateTimeType(0), (1 << 39).to_bytes(5, "big"), "0000-00-00 is no date"),
    (DateTimeType(0), (NEW_YEAR | 24 << 12).to_bytes(5, "big"), "24:00:00 is no time"),
    (DateTimeType(0), bytes(5), "is no datetime"),
    (DateTimeType(2), NEW_YEAR.to_bytes(5, "big") + b"\x64", "is no fraction"),
    (TimestampType(0), bytes(4), "zero timestamp"),
    (TimestampType(6), bytes(7), "zero timestamp"),
    (EnumType(("a", "b")), b"\3", "beyond its 2 labels"),
    (TextType(20, "utf8mb4"), b"\3a\xffb", "no utf8mb4 text"),
    (TextType(20, "utf8mb4"), b"\3\xed\xa0\x80", "no utf8mb4 text"),
    (TextType(20, "ascii"), b"\2\xc3\xa9", "no ascii text"),
    (DecimalType(4, 0), b"\xff\xff", "is no decimal"),
    (DecimalType(9, 0), b"\xbb\x9a\xca\x00", "is no decimal"),
    (DecimalType(20, 10), b"\x83\xff\xff\xff\xff\x01\0\0\0\0\x01"[:10], "is no decimal"),
]


@DECODERS
@pytest.mark.parametrize(("type_", "raw", "reason"), BAD)
def test_a_value_that_cannot_be_carried_stops_its_table_and_is_named(
    one_column: OneColumn, type_: ColumnType, raw: bytes, reason: str, decoder: str
) -> None:
    writer = one_column(type_)
    good = writer.event([[None], [None]], offset=500)
    bad = replace(good, offset=700, payload=good.payload + b"\xfe" + raw)

    with pytest.raises(TableStoppedError, match=reason) as caught:
        decode_with(decoder, writer.schema, [good, bad])

    error = caught.value
    assert (error.table, error.column, error.position) == ("shop.t", "v", "mysql-bin.000001:700 row 2")
    assert error.hint


@DECODERS
def test_a_bad_value_behind_null_is_not_looked_at(one_column: OneColumn, decoder: str) -> None:
    writer = one_column(DateType())

    batch = decode_with(decoder, writer.schema, [writer.event([[None], [date(2024, 2, 29)], [None]])] * 15)

    assert batch.after is not None
    assert batch.after.column(0).to_pylist() == [None, date(2024, 2, 29), None] * 15


@DECODERS
def test_temporal_values_in_the_format_from_before_mysql_5_6_are_read(one_column: OneColumn, decoder: str) -> None:
    for type_, code, raw, expected in (
        (DateTimeType(0), 12, (20240229123456).to_bytes(8, "little"), datetime(2024, 2, 29, 12, 34, 56)),  # noqa: DTZ001
        (TimestampType(0), 7, (1_700_000_000).to_bytes(4, "little"), datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
    ):
        writer = one_column(type_)
        event = writer.event([[None]])
        old = replace(event, table_map=replace(event.table_map, types=(code,), metadata=(0,)))
        old = replace(old, payload=old.payload + b"\xfe" + raw)

        batch = decode_with(decoder, writer.schema, [old])

        assert batch.after is not None
        assert batch.after.column(0).to_pylist() == [None, expected]


@DECODERS
def test_a_null_in_a_column_that_is_not_null_stops_the_table(one_column: OneColumn, decoder: str) -> None:
    writer = one_column(IntegerType(8, unsigned=False), nullable=False)

    with pytest.raises(TableStoppedError, match="NOT NULL") as caught:
        decode_with(decoder, writer.schema, [writer.event([[1]]), writer.event([[1], [None]], offset=7)])

    assert caught.value.position == "mysql-bin.000001:7 row 1"


@DECODERS
@given(st.data())
def test_rows_cut_short_or_changed_stop_the_table_or_are_other_rows(
    row_writer: type[RowWriter], decoder: str, data: st.DataObject
) -> None:
    types: list[ColumnType] = [IntegerType(32, unsigned=False), TextType(300, "utf8mb4"), DecimalType(20, 5)]
    types.append(BytesType(70_000, fixed=False))
    columns = tuple(Column(f"c{index}", type_, nullable=True) for index, type_ in enumerate(types))
    schema = TableSchema(TableId("shop", "t"), columns, ())
    event = row_writer(schema).event([[1, "é" * 9, Decimal("1.5"), b"\xff" * 200], [2, None, None, b""]])
    payload = bytearray(event.payload)
    for _ in range(data.draw(st.integers(0, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    damaged = replace(event, payload=bytes(payload[: data.draw(st.integers(0, len(payload)))]))

    try:
        decode_groups(decoder, schema, [*[event] * 14, damaged])
    except TableStoppedError as error:
        assert error.position.startswith("mysql-bin.000001:1000")  # noqa: PT017 - not raising is right as well


@DECODERS
def test_every_prefix_of_rows_with_fixed_width_stops_the_table(one_column: OneColumn, decoder: str) -> None:
    writer = one_column(IntegerType(64, unsigned=False))
    event = writer.event([[1]])
    for size in range(len(event.payload)):
        if size == 2:
            continue  # No row at all: nothing is missing.
        with pytest.raises(TableStoppedError, match="do not decode"):
            decode_groups(decoder, writer.schema, [*[event] * 14, replace(event, payload=event.payload[:size])])


@DECODERS
def test_an_update_that_is_cut_short_to_the_front_of_an_insert_stops_the_table(
    one_column: OneColumn, decoder: str
) -> None:
    writer = one_column(IntegerType(64, unsigned=False))
    insert, update = writer.event([[1]]), writer.event([[1], [2]], Op.UPDATE)
    decode_with(decoder, writer.schema, [insert])

    with pytest.raises(TableStoppedError, match="do not decode"):
        decode_with(decoder, writer.schema, [replace(update, payload=insert.front)])


def test_events_that_do_not_belong_together_are_refused(one_column: OneColumn) -> None:
    writer = one_column(IntegerType(8, unsigned=False))
    event = writer.event([[1]])
    for other in (
        replace(event, op=Op.DELETE),
        replace(event, file="mysql-bin.000002"),
        replace(event, server_id=8),
        replace(event, cascades_logged=True),
        replace(event, table_map=replace(event.table_map, names=())),
    ):
        with pytest.raises(ValueError, match="do not belong"):
            decode_rows(writer.schema, [event, other])


def test_the_lockstep_walk_finds_what_the_plain_walk_finds(row_writer: type[RowWriter]) -> None:
    types: list[ColumnType] = [BytesType(70_000, fixed=False), IntegerType(24, unsigned=False)]
    types.append(TextType(20_000, "utf8mb4"))
    columns = tuple(Column(f"c{index}", type_, nullable=True) for index, type_ in enumerate(types))
    writer = row_writer(TableSchema(TableId("shop", "t"), columns, ()))
    event = writer.event([[b"\xff" * 300, -1, "x" * 300], [None, 5, None], [b"\xff", None, "\xff"]])
    layout = row_layout(writer.schema, event.table_map, "")
    images, size = read_images(event.payload, layout, 1), len(event.payload)
    begin = images.begin

    begins = np.arange(20, dtype=np.int64) * size
    cells = walk_events(event.payload * 20 + PADDING, begins + begin, begins + size, images.layouts)
    rows = walk_rows(event.payload, begin, size, images.layouts)

    assert cells.counts.tolist() == [3] * 20
    for at in range(60):
        found = zip(cells.nulls[:, at], cells.starts[:, at], cells.lengths[:, at], strict=True)
        shift = at // 3 * size
        spans = [None if null else (start - shift, start - shift + length) for null, start, length in found]
        assert spans == rows[at % 3]


@pytest.mark.parametrize("values", [[b"a\0\0\0", bytes(4)], [b"", b""]])
def test_binary_values_get_their_zeros_back(one_column: OneColumn, values: list[bytes]) -> None:
    writer = one_column(BytesType(len(values[0]), fixed=True))
    event = writer.event([[value] for value in values])

    for decoder in ("plain", "columns"):
        batch = decode_with(decoder, writer.schema, [event])
        assert batch.after is not None
        assert batch.after.column(0).to_pylist() == values
