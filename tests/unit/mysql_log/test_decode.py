"""Both decoders: equal to each other and to what was written, and loud about everything else."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.arrow_types import arrow_type
from penstock.core.changes import Op
from penstock.core.errors import TableStoppedError
from penstock.core.mysql import decode
from penstock.core.mysql.decode import decode_rows
from penstock.core.mysql.row_layout import row_layout
from penstock.core.mysql.rows_columns import PADDING, walk_events
from penstock.core.mysql.rows_image import rows_begin
from penstock.core.mysql.rows_plain import walk_rows
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
    TableId,
    TableSchema,
    TextType,
    TimestampType,
    TimeType,
    VectorType,
    YearType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.unit.mysql_log.conftest import OneColumn, RowWriter
    from tests.unit.mysql_log.row_encoding import Value

    from penstock.core.changes import RowBatch
    from penstock.core.mysql.log_items import RowsLogged

FREE = b"\x81\x8d\x8f\x90\x9d"
LATIN1 = "".join(bytes([byte]).decode("latin1" if byte in FREE else "cp1252") for byte in range(256))
WIDE = Context(prec=100)
DECODERS = pytest.mark.parametrize("decoder", ["plain", "columns"])


def decode_with(decoder: str, schema: TableSchema, events: Sequence[RowsLogged]) -> RowBatch:
    """Decode by one of the two decoders, whatever their sizes say."""
    before = decode._PLAIN_BYTES_MAX
    decode._PLAIN_BYTES_MAX = -1 if decoder == "columns" else 1 << 40  # type: ignore[misc]
    try:
        return decode_rows(schema, events)
    finally:
        decode._PLAIN_BYTES_MAX = before  # type: ignore[misc]


TIME_MAX = timedelta(hours=838, minutes=59, seconds=59)
NO_TIME = "0000-00-00 00:00:00.000000"

decimals = st.integers(1, 65).flatmap(lambda p: st.builds(DecimalType, st.just(p), st.integers(0, min(p, 38))))
enums = st.builds(
    EnumType, st.sampled_from([("a",), ("a", "b,c", "é"), tuple(f"label {number}" for number in range(300))])
)
charsets = st.sampled_from(["utf8mb4", "utf8mb3", "ascii", "latin1"])
texts = st.builds(TextType, st.sampled_from([3, 40, 300, 20_000]), charsets)
binaries = st.builds(BytesType, st.integers(1, 255), st.booleans()) | st.builds(
    BytesType, st.sampled_from([300, 70_000]), st.just(value=False)
)
column_types: st.SearchStrategy[ColumnType] = st.one_of(
    st.builds(IntegerType, st.sampled_from([8, 16, 24, 32, 64]), st.booleans()),
    decimals,
    st.builds(FloatType, st.sampled_from([32, 64])),
    texts,
    binaries,
    st.just(DateType()),
    st.builds(DateTimeType, st.integers(0, 6)),
    st.builds(TimestampType, st.integers(0, 6)),
    st.just(YearType()),
    enums,
    st.builds(SetType, st.sampled_from([("a",), ("a", "é", "c"), tuple(f"label {number}" for number in range(64))])),
    st.builds(BitType, st.integers(1, 64)),
    st.builds(TimeType, st.integers(0, 6)),
    st.builds(PrintedType, st.sampled_from(["uuid", "inet4", "inet6", "date"])),
    st.just(PrintedType("datetime", 6)),
    st.just(GeometryType()),
    st.just(VectorType(9)),
)


def values_of(type_: ColumnType) -> st.SearchStrategy[Any]:  # noqa: C901, PLR0911, PLR0912 - one return per type
    match type_:
        case IntegerType(bits, unsigned):
            low = 0 if unsigned else -(2 ** (bits - 1))
            return st.integers(low, low + 2**bits - 1)
        case DecimalType(precision, scale):
            largest = 10**precision - 1
            return st.integers(-largest, largest).map(lambda number: Decimal(number).scaleb(-scale, WIDE))
        case FloatType(bits):
            return st.floats(allow_nan=False, allow_infinity=False, width=bits)
        case TextType(characters, charset):
            alphabet = {"ascii": st.characters(max_codepoint=127), "latin1": st.sampled_from(LATIN1)}
            return st.text(alphabet.get(charset, st.characters(codec="utf-8")), max_size=min(characters, 30))
        case BytesType(width, fixed):
            raw = st.binary(max_size=min(width, 40))
            return raw.map(lambda value: value.ljust(width, b"\0")) if fixed else raw
        case DateType():
            return st.dates()
        case DateTimeType(digits):
            return st.datetimes().map(lambda time: cut(time, digits))
        case TimestampType(digits):
            begin, micros = datetime(1970, 1, 1, tzinfo=UTC), st.integers(1_000_000, 2**32 * 1_000_000 - 1)
            return micros.map(lambda count: cut(begin + timedelta(microseconds=count), digits))
        case YearType():
            return st.just(0) | st.integers(1901, 2155)
        case EnumType(labels):
            return st.sampled_from(("", *labels))
        case SetType(labels):
            return st.sets(st.sampled_from(labels)).map(lambda some: ",".join(x for x in labels if x in some))
        case BitType(bits):
            return st.integers(0, 2**bits - 1)
        case TimeType(digits):
            unit = timedelta(microseconds=10 ** (6 - digits))
            return st.timedeltas(-TIME_MAX, TIME_MAX).map(lambda span: span // unit * unit)
        case PrintedType("uuid"):
            return st.uuids().map(str) | st.just("12345678-0000-0000-0000-000000000000")
        case PrintedType("inet4"):
            return st.ip_addresses(v=4).map(str)
        case PrintedType("inet6"):
            # Python prints the IPv4 address in one of these otherwise than servers do.
            return st.ip_addresses(v=6, network="2001:db8::/32").map(str)
        case PrintedType("date"):
            return st.dates().map(str) | st.sampled_from(["0000-00-00", "2024-00-15", "0000-12-31"])
        case PrintedType("datetime"):
            return st.datetimes().map(lambda time: time.isoformat(" ", "microseconds")) | st.just(NO_TIME)
        case GeometryType():
            return st.sampled_from([b"\x01\x01\0\0\0" + bytes(16), b"\x01\x01\0\0\x20\xe6\x10\0\0" + bytes(16)])
        case VectorType():
            return st.lists(st.floats(allow_nan=False, width=32), max_size=9)
    raise AssertionError(type_)


def cut(time: datetime, digits: int) -> datetime:
    unit = 10 ** (6 - digits)
    return time.replace(microsecond=time.microsecond // unit * unit)


@st.composite
def tables(draw: st.DrawFn) -> tuple[TableSchema, list[list[list[Value]]]]:
    """A schema, and the rows of some events."""
    types = draw(st.lists(column_types, min_size=1, max_size=10))
    schema = TableSchema(
        TableId("shop", "t"), tuple(Column(f"c{index}", type_, nullable=True) for index, type_ in enumerate(types)), ()
    )
    row = st.tuples(*(st.none() | values_of(type_) for type_ in types)).map(list)
    # Rows are chosen from a few, so that many events cost hypothesis little.
    pool = draw(st.lists(row, min_size=1, max_size=5))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=30))
    picks = iter(draw(st.lists(st.integers(0, len(pool) - 1), min_size=sum(sizes), max_size=sum(sizes))))
    return schema, [[pool[next(picks)] for _ in range(size)] for size in sizes]


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


def assert_holds(image: pa.RecordBatch | None, rows: list[list[Value]], schema: TableSchema) -> None:
    assert image is not None
    image.validate(full=True)
    for index, column in enumerate(schema.columns):
        expected = pa.array([row[index] for row in rows], arrow_type(column.type))
        assert image.column(index).equals(expected), column


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


def test_rows_without_all_columns_stop_the_table(row_writer: type[RowWriter]) -> None:
    integer = IntegerType(32, unsigned=False)
    columns = (Column("a", integer, nullable=True), Column("b", integer, nullable=True))
    schema = TableSchema(TableId("shop", "t"), columns, ())
    for op in Op.CREATE, Op.UPDATE:
        event = row_writer(schema).event([[1, 2]] * 2, op)
        partial = replace(event, payload=event.payload[:1] + b"\x01" + event.payload[2:])

        with pytest.raises(TableStoppedError, match="without all of their columns") as caught:
            decode_rows(schema, [partial])

        assert "binlog_row_image=FULL" in caught.value.hint


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
        decode_with(decoder, schema, [*[event] * 14, damaged])
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
            decode_with(decoder, writer.schema, [*[event] * 14, replace(event, payload=event.payload[:size])])


def test_events_that_do_not_belong_together_are_refused(one_column: OneColumn) -> None:
    writer = one_column(IntegerType(8, unsigned=False))
    event = writer.event([[1]])
    for other in (
        replace(event, op=Op.DELETE),
        replace(event, file="mysql-bin.000002"),
        replace(event, server_id=8),
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
    begin, size = rows_begin(event.payload, layout, 1), len(event.payload)

    begins = np.arange(20, dtype=np.int64) * size
    cells = walk_events(event.payload * 20 + PADDING, begins + begin, begins + size, layout, 1)
    rows = walk_rows(event.payload, begin, size, layout, 1)

    assert cells.counts.tolist() == [3] * 20
    for at in range(60):
        found = zip(cells.nulls[:, at], cells.starts[:, at], cells.lengths[:, at], strict=True)
        shift = at // 3 * size
        spans = [None if null else (start - shift, start - shift + length) for null, start, length in found]
        assert spans == rows[at % 3]


def test_binary_values_get_their_zeros_back(one_column: OneColumn) -> None:
    writer = one_column(BytesType(4, fixed=True))
    event = writer.event([[b"a\0\0\0"], [bytes(4)]])

    for decoder in ("plain", "columns"):
        batch = decode_with(decoder, writer.schema, [event])
        assert batch.after is not None
        assert batch.after.column(0).to_pylist() == [b"a\0\0\0", bytes(4)]
