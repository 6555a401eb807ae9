"""Random tables with random rows, decoded by either decoder."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from penstock.core.arrow_types import arrow_type
from penstock.core.mysql.rows import decode
from penstock.core.mysql.rows.decode import batch_key, decode_rows
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

    from tests.unit.mysql_log.row_encoding import Value

    from penstock.core.changes import RowBatch
    from penstock.core.mysql.types.logged_rows import RowsLogged

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


def decode_groups(decoder: str, schema: TableSchema, events: Sequence[RowsLogged]) -> None:
    """Decode events that go together as a capture does, and the others on their own."""
    for group in ([event for event in events if batch_key(event) == key] for key in set(map(batch_key, events))):
        decode_with(decoder, schema, group)


TIME_MAX = timedelta(hours=838, minutes=59, seconds=59)
NO_TIME = "0000-00-00 00:00:00.000000"

decimals = st.integers(1, 65).flatmap(lambda p: st.builds(DecimalType, st.just(p), st.integers(0, min(p, 38))))
enums = st.builds(
    EnumType, st.sampled_from([("a",), ("a", "b,c", "é"), tuple(f"label {number}" for number in range(300))])
)
charsets = st.sampled_from(["utf8mb4", "utf8mb3", "ascii", "latin1"])
texts = st.builds(TextType, st.sampled_from([3, 40, 300, 20_000]), charsets)
binaries = st.builds(BytesType, st.integers(0, 255), st.booleans()) | st.builds(
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


def assert_holds(image: pa.RecordBatch | None, rows: list[list[Value]], schema: TableSchema) -> None:
    assert image is not None
    image.validate(full=True)
    for index, column in enumerate(schema.columns):
        expected = pa.array([row[index] for row in rows], arrow_type(column.type))
        assert image.column(index).equals(expected), column
