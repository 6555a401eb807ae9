"""CSV files give back exactly what was written, whatever it is, and say where they are broken."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import zlib
from dataclasses import asdict, replace
from decimal import Decimal
from typing import Any, Literal, get_args

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.batches import Batch
from penstock.core.csv_dialect import CsvDialect, render_csv
from penstock.core.csv_reading import parse_csv
from penstock.core.file_formats import FileFormat, parse_batch_file, render_as
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
    TableId,
    TableSchema,
    TextType,
    TimestampType,
    TimeType,
    UnsupportedType,
    VectorType,
    YearType,
)

TABLE = TableId("shop", "orders")
WIDTHS: tuple[Literal[8, 16, 24, 32, 64], ...] = (8, 16, 24, 32, 64)
DECIMALS = ((5, 0), (12, 2), (18, 6), (18, 7), (38, 0), (38, 30), (65, 0), (65, 30))
MICROSECOND = dt.timedelta(microseconds=1)
LONGEST = dt.timedelta(hours=838, minutes=59, seconds=59)
WORDS = ["", "\\N", "\\N1", "\\N2", "NULL", '"', '""', "\r", "\r\n", "\n", "\0", "\\", ",", "\ufeff", " ", "\\.", "a\0"]
SPECIAL = st.sampled_from(WORDS)
TEXTS = st.one_of(SPECIAL, st.text(), st.lists(SPECIAL, max_size=4).map("".join))
BYTES = st.binary(max_size=40)
FLOATS = st.floats(allow_nan=False)
FLOATS32 = st.floats(allow_nan=False, width=32)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(lambda digits: Decimal(f"{digits}E-{scale}"))


VALUES: list[tuple[ColumnType, st.SearchStrategy[Any]]] = [
    *(
        (IntegerType(bits, unsigned=unsigned), st.integers(-lowest, 2**bits - 1 - lowest))
        for bits in WIDTHS
        for unsigned, lowest in ((False, 2 ** (bits - 1)), (True, 0))
    ),
    (BitType(1), st.integers(0, 1)),
    (BitType(64), st.integers(0, 2**64 - 1)),
    *((DecimalType(*digits), decimals(*digits)) for digits in DECIMALS),
    (FloatType(32), FLOATS32),
    (FloatType(64), FLOATS),
    (TextType(100, "utf8mb4"), TEXTS),
    (EnumType(("a", "")), st.sampled_from(["a", ""])),
    (SetType(("a", "b")), st.sampled_from(["", "a,b"])),
    (PrintedType("json"), TEXTS),
    (BytesType(100, fixed=False), BYTES),
    (GeometryType(), BYTES),
    (DateType(), st.dates()),
    (DateTimeType(6), st.datetimes()),
    (TimestampType(6), st.datetimes(timezones=st.just(dt.UTC))),
    (TimeType(6), st.integers(-LONGEST // MICROSECOND, LONGEST // MICROSECOND).map(lambda us: us * MICROSECOND)),
    (YearType(), st.integers(0, 2155)),
    (VectorType(3), st.lists(FLOATS32, max_size=3)),
]  # fmt: skip


def of_types(types: list[ColumnType]) -> TableSchema:
    key = Column("id", IntegerType(32, unsigned=False), nullable=False)
    columns = [Column(f"c{number}", type_, nullable=True) for number, type_ in enumerate(types)]
    return TableSchema(TABLE, (key, *columns), ("id",))


EVERY_TYPE = of_types([type_ for type_, _ in VALUES])
ROWS = st.lists(st.tuples(*(st.none() | values for _, values in VALUES)), max_size=8)


def table_of(schema: TableSchema, rows: list[tuple[object, ...]]) -> pa.Table:
    layout = file_schema(schema)
    fields = [[number, *row, "c", number] for number, row in enumerate(rows)]
    return pa.Table.from_pylist([dict(zip(layout.names, row, strict=True)) for row in fields], layout)


def batch_of(format_: FileFormat, table: pa.Table, schema: TableSchema) -> tuple[Batch, bytes]:
    """Write a file; return what is told of it, as it is read from Kafka, and its bytes."""
    file = render_as(format_, schema, table)
    order = (1, 2, 3)
    place = ("shopdb", TABLE, "t", 0, 0, table.num_rows, table.num_rows, "path", len(file.content))
    told = Batch(*place, format_.name, 1, order, order, 0, compression=format_.compression)
    told = replace(told, dialect=file.dialect, crc32=zlib.crc32(file.content))
    return Batch.from_json(told.to_json()), file.content


FORMATS = [FileFormat("parquet"), FileFormat("csv", "zstd"), FileFormat("csv", "gzip")]
CSV = FORMATS[1:]


def test_there_are_values_of_every_type() -> None:
    assert {type(type_) for type_, _ in VALUES} == set(get_args(ColumnType)) - {UnsupportedType}


@settings(max_examples=40)
@given(ROWS)
def test_every_value_of_every_type_comes_back_from_csv_as_it_went_in(rows: list[tuple[object, ...]]) -> None:
    table = table_of(EVERY_TYPE, rows)

    content, dialect = render_csv(table)

    assert parse_csv(table.schema, content, dialect).equals(table)


@given(st.lists(st.none() | TEXTS, max_size=20))
def test_no_text_is_mistaken_for_null_even_by_who_disregards_quotes(texts: list[str | None]) -> None:
    schema = of_types([TextType(100, "utf8mb4")])

    content, dialect = render_csv(table_of(schema, [(text,) for text in texts]))

    assert dialect.null not in texts
    assert content.to_pybytes().count(f",{dialect.null},".encode()) >= texts.count(None)


@pytest.mark.parametrize("format_", FORMATS)
@settings(max_examples=10)
@given(ROWS)
def test_a_file_of_any_format_gives_back_its_rows(format_: FileFormat, rows: list[tuple[object, ...]]) -> None:
    table = table_of(EVERY_TYPE, rows)

    batch, content = batch_of(format_, table, EVERY_TYPE)

    assert parse_batch_file(EVERY_TYPE, batch, content).equals(table)


def test_what_a_file_looks_like() -> None:
    schema = of_types([TextType(9, "utf8mb4"), BytesType(9, fixed=False), DecimalType(30, 10), TimestampType(6)])
    instant = dt.datetime(2024, 2, 29, 23, 59, 59, 1, tzinfo=dt.UTC)
    whole = ('a,"b"\r\n\\', b"\x00\xff", Decimal("0E-10"), instant)
    rows: list[tuple[object, ...]] = [whole, (None, None, None, None), ("", None, None, None)]

    content, dialect = render_csv(table_of(schema, rows))

    assert content.to_pybytes().decode() == (
        '0,"a,""b""\r\n\\","00ff","0.0000000000","2024-02-29 23:59:59.000001+00:00","c",0\n'
        '1,\\N,\\N,\\N,\\N,"c",1\n'
        '2,"",\\N,\\N,\\N,"c",2\n'
    )
    assert dialect == CsvDialect()


def test_a_text_that_is_the_word_for_null_gives_null_another_word() -> None:
    schema = of_types([TextType(9, "utf8mb4")])
    table = table_of(schema, [("\\N",), ("\\N1",), (None,)])

    content, dialect = render_csv(table)

    assert dialect.null == "\\N2"
    assert parse_csv(table.schema, content, CsvDialect.from_mapping(asdict(dialect))).equals(table)


def test_a_text_with_nul_is_told_and_bytes_with_it_are_not() -> None:
    schema = of_types([TextType(9, "utf8mb4"), BytesType(9, fixed=False)])

    _, of_text = render_csv(table_of(schema, [("a\0b", b"")]))
    _, of_bytes = render_csv(table_of(schema, [("ab", b"\0")]))

    assert (of_text.has_nul, of_bytes.has_nul) == (True, False)
    assert CsvDialect.from_mapping(asdict(of_text)) == of_text


def test_a_dialect_that_is_not_ours_is_refused() -> None:
    with pytest.raises(ValueError, match="does not read"):
        CsvDialect.from_mapping({**asdict(CsvDialect()), "delimiter": "|"})
    with pytest.raises(ValueError, match="does not read"):
        CsvDialect.from_mapping({})


WRITE_A_FILE = """
import hashlib, sys
import pyarrow as pa
from penstock.core.file_formats import FileFormat, render_as
from penstock.core.files import file_schema
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
column = Column("id", IntegerType(32, unsigned=False), nullable=False)
schema = TableSchema(TableId("shop", "orders"), (column,), ("id",))
rows = pa.table([pa.array(range(5000), pa.int32()), ["c"] * 5000, range(5000)], schema=file_schema(schema))
for name, compression in (("parquet", "zstd"), ("csv", "zstd"), ("csv", "gzip")):
    print(hashlib.sha256(render_as(FileFormat(name, compression), schema, rows).content).hexdigest())
"""


def test_another_process_writes_the_same_bytes_at_another_time() -> None:
    def write(clock: str) -> list[str]:
        # gzip would take its time from here.
        program = f"import time\ntime.time = lambda: {clock}\n{WRITE_A_FILE}"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.split()

    first, second = write("1.0"), write("2_000_000_000.0")

    assert first == second
    assert len(set(first)) == 3


BROKEN = of_types([TextType(9, "utf8mb4"), IntegerType(32, unsigned=False), BytesType(9, fixed=False), VectorType(2)])
GOOD = table_of(BROKEN, [("a\nb", 7, b"\xab", [1.5]), ("c", 8, b"\xcd", [2.5]), (None, None, None, None)])


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        (b",8,", b",x8,", r"line 3 \(row 2\), column c1: 'x8' is no int32"),
        (b'"cd"', b'"c"', r"line 3 \(row 2\), column c2: 'c' is no binary"),
        (b'"cd"', b'"cg"', r"line 3 \(row 2\), column c2: 'cg' is no binary"),
        (b"[2.5]", b"[2.5", r"line 3 \(row 2\), column c3: '\[2.5' is no list"),
        (b'"c",8', b'"\xff",8', r"line 3 \(row 2\), column c0: '\\\\xff' is no string"),
        (b'"c",8', b'"c",8,9', r"line 3 \(row 2\) has 8 columns instead of 7"),
        (b'"c",8,', b'"c",', r"line 3 \(row 2\) has 6 columns instead of 7"),
        (b'"c",8', b'"c,8', r"line 3 \(row 2\)"),
    ],
)
def test_a_broken_row_is_named_by_line_column_and_value(good: bytes, bad: bytes, said: str) -> None:
    content, dialect = render_csv(GOOD)

    with pytest.raises(ValueError, match=said):
        parse_csv(GOOD.schema, pa.py_buffer(content.to_pybytes().replace(good, bad, 1)), dialect)


@pytest.mark.parametrize("format_", FORMATS)
def test_a_file_that_was_cut_short_or_damaged_is_never_read_as_one(format_: FileFormat) -> None:
    batch, content = batch_of(format_, GOOD, BROKEN)

    for length in range(0, len(content), max(1, len(content) // 50)):
        with pytest.raises(ValueError, match="bytes, and its batch message says"):
            parse_batch_file(BROKEN, batch, content[:length])
    for place in range(0, len(content), max(1, len(content) // 200)):
        damaged = bytes([*content[:place], content[place] ^ 0x10, *content[place + 1 :]])
        with pytest.raises(ValueError, match="CRC-32 differs"):
            parse_batch_file(BROKEN, batch, damaged)


def test_a_file_with_other_rows_than_were_told_is_refused() -> None:
    batch, content = batch_of(CSV[0], GOOD, BROKEN)

    with pytest.raises(ValueError, match="it has 3 rows, and its batch message says 4"):
        parse_batch_file(BROKEN, replace(batch, rows=4), content)
    with pytest.raises(ValueError, match="compressed with 'lz4'"):
        parse_batch_file(BROKEN, replace(batch, compression="lz4"), content)
    with pytest.raises(ValueError, match="it is orc, which this release does not read"):
        parse_batch_file(BROKEN, replace(batch, format="orc"), content)
