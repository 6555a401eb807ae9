"""Every column type, at its edges, is in each kind of target what it was in the file."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import pyarrow as pa
import pytest
from tests.servers.kinds import on_every_target
from tests.servers.sink_case import TABLE, PostgresTarget, RedshiftTarget, schema_change

from penstock.core.errors import TableStoppedError
from penstock.core.file_formats import PARQUET, FileFormat, render_as
from penstock.core.files import file_schema
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
    UnsupportedType,
    VectorType,
    YearType,
)

if TYPE_CHECKING:
    from tests.servers.sink_case import Place

KEY = Column("id", IntegerType(32, unsigned=False), nullable=False)
TEXT = TextType(100, "utf8mb4")
# What CSV, COPY and SQL have signs of their own for.
TEXTS = [
    "",
    " ",
    "\\.",
    "\\N",
    "NULL",
    '"',
    '""',
    "'",
    ",",
    "a,b",
    "a\nb",
    "a\r\nb",
    "\r",
    "\n\\.\n",
    "\t",
    "\\",
    "\\x41",
]
TEXTS += ["{1,2}", "é", "\u0301", "\U0001f600", "\ufeff", "\u2028", "\x01", "\x7f", "%s", "?", "$1", "a" * 100]
UTC = dt.UTC
WIDTHS: tuple[Literal[8, 16, 24, 32, 64], ...] = (8, 16, 24, 32, 64)
LONGEST = dt.timedelta(hours=838, minutes=59, seconds=59)
CASES: list[tuple[ColumnType, list[object]]] = [
    *((IntegerType(bits, unsigned=False), [-(2 ** (bits - 1)), 0, 2 ** (bits - 1) - 1]) for bits in WIDTHS),
    *((IntegerType(bits, unsigned=True), [0, 2**bits - 1]) for bits in WIDTHS),
    (BitType(1), [0, 1]),
    (BitType(64), [0, 2**64 - 1]),
    (DecimalType(10, 2), [Decimal("-99999999.99"), Decimal("0.00"), Decimal("0.01")]),
    (DecimalType(38, 0), [Decimal(10**38 - 1), Decimal(1 - 10**38)]),
    (FloatType(32), [0.0, 1.5, -3.4028234663852886e38, 1.1754943508222875e-38]),
    (FloatType(64), [0.1, 1e-300, 1.7976931348623157e308, 5e-324]),
    (TEXT, [*TEXTS]),
    (EnumType(("new", "old, but gold", "")), ["new", "old, but gold", ""]),
    (SetType(("a", "b")), ["", "a,b"]),
    (BytesType(300, fixed=False), [b"", b"\x00", b"\\x41", b'",\n', bytes(range(256))]),
    (GeometryType(), [b"\x01\x01\x00\x00\x00" + b"\x00" * 16]),
    (DateType(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
    (DateTimeType(6), [dt.datetime(1, 1, 1), dt.datetime(2024, 2, 29, 23, 59, 59, 999999), dt.datetime(9999, 12, 31)]),  # noqa: DTZ001
    (TimestampType(6), [dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), dt.datetime(2038, 1, 19, 3, 14, 7, 999999, UTC)]),
    (TimeType(6), [LONGEST, -LONGEST, dt.timedelta(microseconds=-1)]),
    (YearType(), [1901, 2155, 0]),
    (PrintedType("json"), ['{"a": [1, 2.50, "x\\"y"], "b": null}', "null", '"\\u0000"', "12345678901234567890"]),
    (PrintedType("uuid"), ["123e4567-e89b-12d3-a456-426655440000"]),
    (PrintedType("inet4"), ["255.255.255.255"]),
    (PrintedType("inet6"), ["::ffff:192.0.2.128"]),
    (PrintedType("date"), ["0000-00-00"]),
    (PrintedType("datetime", 3), ["0000-00-00 00:00:00.000"]),
    (PrintedType("timestamp", 0), ["0000-00-00 00:00:00"]),
    (VectorType(3), [[1.5, -2.25, 0.0]]),
]  # fmt: skip


def test_there_is_a_case_for_every_type() -> None:
    assert {type(type_) for type_, _ in CASES} == set(get_args(ColumnType)) - {UnsupportedType}


def of_types(types: list[ColumnType]) -> TableSchema:
    columns = [Column(f"c{number}", type_, nullable=True) for number, type_ in enumerate(types)]
    return TableSchema(TABLE, (KEY, *columns), ("id",))


def load(place: Place, schema: TableSchema, rows: list[list[object]], format_: FileFormat = PARQUET) -> None:
    layout = file_schema(schema)
    fields = [[number, *row, "c", number] for number, row in enumerate(rows)]
    table = pa.Table.from_pylist([dict(zip(layout.names, row, strict=True)) for row in fields], layout)
    file = render_as(format_, schema, table)
    place.objects.put("file", file.content)
    told = replace(schema_change(1), end_offset=len(rows), rows=len(rows), path="file", size_bytes=len(file.content))
    told = replace(told, format=format_.name, compression=format_.compression, dialect=file.dialect)
    place.open().load(TABLE, [told], {1: schema})


def asked(place: Place, column: Column) -> str:
    """What is asked for a column, where a driver would turn it into an object of its own, or stumble over it."""
    if getattr(column.type, "kind", "") in {"json", "uuid"}:
        return f"CAST({column.name} AS VARCHAR)"
    if isinstance(place.target, RedshiftTarget) and isinstance(column.type, BytesType | GeometryType):
        return f"TO_HEX({column.name})"
    if isinstance(place.target, RedshiftTarget) and isinstance(column.type, VectorType):
        return f"JSON_SERIALIZE({column.name})"
    return column.name


def held(place: Place, value: object) -> object:
    """What a value is there: Redshift has no spans of time, and its vectors are documents."""
    if not isinstance(place.target, RedshiftTarget):
        return value
    match value:
        case bytes():
            return value.hex()
        case dt.timedelta():
            return value // dt.timedelta(microseconds=1)
        case _:
            return value


@on_every_target
@pytest.mark.parametrize("format_", [PARQUET, FileFormat("csv", "gzip")], ids=["parquet", "csv"])
def test_values_arrive_as_they_are(place: Place, format_: FileFormat) -> None:
    if place.defines_ahead:
        pytest.skip("Snowflake's stand-in has no vectors, numbers of 64 bits, and no NULL in TIMESTAMP_LTZ")
    schema = of_types([type_ for type_, _ in CASES])
    longest = max(len(values) for _, values in CASES)
    rows = [[values[n] if n < len(values) else None for _, values in CASES] for n in range(longest)]

    load(place, schema, rows, format_)

    listed = ", ".join(asked(place, column) for column in schema.columns[1:])
    found = place.ask(f"SELECT {listed} FROM {TABLE} ORDER BY id")
    for number, (type_, _) in enumerate(CASES):
        expected = [held(place, row[number]) for row in rows]
        values: list[object] = [row[number] for row in found]
        if isinstance(place.target, RedshiftTarget) and isinstance(type_, VectorType):
            values = [value if value is None else json.loads(str(value)) for value in values]
        if type_ == FloatType(32):
            # The driver gives the double nearest to the shortest digits that mean the same float.
            values = [value if value is None else float(np.float32(value)) for value in values]  # type: ignore[arg-type]
        assert values == expected, type_


@on_every_target
def test_a_decimal_of_65_digits_is_whole_or_refused(place: Place) -> None:
    schema = of_types([DecimalType(65, 30)])
    value = Decimal("9" * 35 + "." + "9" * 30)

    if isinstance(place.target, PostgresTarget):
        load(place, schema, [[value]])
        assert [str(found) for (found,) in place.ask(f"SELECT c0 FROM {TABLE}")] == [str(value)]
    else:
        with pytest.raises(TableStoppedError, match=r"(duckdb|redshift|snowflake) holds 38 decimal digits"):
            load(place, schema, [[value]])
