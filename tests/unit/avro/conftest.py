"""Random tables and random changes of them, for `st.from_type(TableSchema)` and `st.from_type(RowBatch)`."""

from __future__ import annotations

from dataclasses import replace
from decimal import Context, Decimal
from functools import cache
from typing import TYPE_CHECKING, get_args

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from penstock.core.arrow_types import arrow_schema, arrow_type
from penstock.core.changes import Op, RowBatch
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
    PrintedKind,
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

    from penstock.core.avro.arrays import ArrowArray

_WIDE = Context(prec=100)
_MICROS_PER_DAY = 86_400_000_000
_TIME_MAX = 3_020_399_000_000
# 1000-01-01 and 9999-12-31, in days since 1970-01-01: the range of DATE and DATETIME.
_FIRST_DAY, _LAST_DAY = -354_285, 2_932_896
_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
_SHORT = st.text(max_size=5)
_TEXTS = st.text(max_size=20) | st.text(min_size=1, max_size=3).map(lambda text: text * 100)
_DEFAULTS = st.sampled_from(
    ["0", "-1", "128", "-128", "1.50", "1e400", "2024-02-29", "0000-00-00", "2024-01-01 10:00:00"]
)


_DECIMALS = st.integers(1, 65).flatmap(
    lambda precision: st.builds(DecimalType, st.just(precision), st.integers(0, min(30, precision)))
)
_COLUMN_TYPES: st.SearchStrategy[ColumnType] = st.one_of(
    st.builds(IntegerType, st.sampled_from([8, 16, 24, 32, 64]), st.booleans()),
    _DECIMALS,
    st.builds(FloatType, st.sampled_from([32, 64])),
    st.builds(TextType, st.integers(0, 2**32 - 1), st.sampled_from(["utf8mb4", "latin1"])),
    # A default of a fixed column is padded to its length, which is at most 255.
    st.builds(BytesType, st.integers(0, 255), st.just(value=True)),
    st.builds(BytesType, st.integers(0, 2**32 - 1), st.just(value=False)),
    st.just(DateType()),
    st.builds(DateTimeType, st.integers(0, 6), st.booleans()),
    st.builds(TimestampType, st.integers(0, 6)),
    st.just(YearType()),
    st.builds(BitType, st.integers(1, 64)),
    st.builds(TimeType, st.integers(0, 6)),
    st.builds(SetType, st.just(("a", "b"))),
    st.builds(PrintedType, st.sampled_from(get_args(PrintedKind)), st.integers(0, 6)),
    st.just(GeometryType()),
    st.builds(VectorType, st.integers(1, 100)),
    st.builds(EnumType, st.lists(_SHORT, min_size=1, max_size=4, unique=True).map(tuple)),
)
_COLUMNS = st.builds(
    Column,
    name=_NAMES,
    type=_COLUMN_TYPES,
    nullable=st.booleans(),
    declaration=_SHORT,
    default=st.none() | _DEFAULTS | _SHORT,
    default_is_expression=st.booleans(),
    comment=_SHORT,
)
_TABLE_COLUMNS = st.lists(_COLUMNS, min_size=1, max_size=6, unique_by=lambda column: column.name)
_GTIDS = st.just("") | st.text(max_size=40)
_TABLE_IDS = st.builds(TableId, _NAMES, _NAMES)


@st.composite
def table_schemas(draw: st.DrawFn) -> TableSchema:
    columns = draw(_TABLE_COLUMNS)
    key = [column.name for column in draw(st.permutations(columns))][: draw(st.integers(0, 2))]
    fitting = tuple(replace(column, nullable=column.nullable and column.name not in key) for column in columns)
    return TableSchema(draw(_TABLE_IDS), fitting, tuple(key), draw(_SHORT), draw(st.booleans()))


@st.composite
def row_batches(draw: st.DrawFn) -> RowBatch:
    schema = draw(st.from_type(TableSchema))
    op = draw(st.sampled_from(Op))
    rows = draw(st.integers(1, 6))
    beside_key = [column.name for column in schema.columns if column.name not in schema.key]
    lacks = st.sets(st.sampled_from(beside_key)) if schema.partial_rows and beside_key else st.just(set[str]())
    before_lacks, after_lacks = (tuple(sorted(draw(lacks))) for _ in range(2))
    return RowBatch(
        schema=schema,
        op=op,
        before=draw(_row_images(schema, rows, before_lacks)) if op in {Op.UPDATE, Op.DELETE} else None,
        after=draw(_row_images(schema, rows, after_lacks)) if op is not Op.DELETE else None,
        file=draw(st.text(max_size=10)),
        offsets=np.array(draw(_lists(st.integers(4, 2**38 - 1), rows)), dtype=np.int64),
        rows=np.array(draw(_lists(st.integers(0, 2**24 - 1), rows)), dtype=np.int32),
        timestamps_ms=np.array(draw(_lists(st.integers(-(2**62), 2**62), rows)), dtype=np.int64),
        gtids=pa.array(draw(_lists(_GTIDS, rows)), pa.string()),
        server_id=draw(st.integers(0, 2**32 - 1)),
        before_lacks=before_lacks,
        after_lacks=after_lacks,
    )


@st.composite
def _row_images(draw: st.DrawFn, schema: TableSchema, rows: int, lacks: Sequence[str]) -> pa.RecordBatch:
    arrays = [
        _array([None] * rows, column.type) if column.name in lacks else draw(_arrays(column, rows))
        for column in schema.columns
    ]
    return pa.record_batch(arrays, schema=arrow_schema(schema))


@st.composite
def _arrays(draw: st.DrawFn, column: Column, rows: int) -> ArrowArray:
    # One row more than is used, so that arrays have an offset in their buffers.
    values = draw(_lists(st.none() | _values(column.type) if column.nullable else _values(column.type), rows + 1))
    return _array(values, column.type).slice(1)


def _array(values: Sequence[object], type_: ColumnType) -> ArrowArray:
    if isinstance(type_, DateType):
        return pa.array(values, pa.int32()).view(pa.date32())
    if isinstance(type_, TimeType | DateTimeType | TimestampType):
        return pa.array(values, pa.int64()).view(arrow_type(type_))
    return pa.array(values, arrow_type(type_))


@cache
def _values(type_: ColumnType) -> st.SearchStrategy[object]:  # noqa: C901, PLR0911, PLR0912 - one return per type
    match type_:
        case IntegerType(bits, unsigned):
            return st.integers(0, 2**bits - 1) if unsigned else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        case DecimalType(precision, scale):
            return _unscaled(precision).map(lambda value: Decimal(value).scaleb(-scale, _WIDE))
        case FloatType(bits):
            return st.floats(allow_nan=False, allow_infinity=False, width=bits)
        case BitType(bits):
            return st.integers(0, 2**bits - 1)
        case PrintedType("uuid"):
            return st.uuids().map(str)
        case TimeType():
            return st.integers(-_TIME_MAX, _TIME_MAX)
        case VectorType():
            return st.lists(st.floats(allow_nan=False, width=32), max_size=5)
        case BytesType() | GeometryType():
            return st.binary(max_size=20) | st.binary(min_size=1, max_size=3).map(lambda content: content * 100)
        case DateType():
            return st.integers(_FIRST_DAY, _LAST_DAY)
        case DateTimeType():
            return st.integers(_FIRST_DAY * _MICROS_PER_DAY, (_LAST_DAY + 1) * _MICROS_PER_DAY - 1)
        case TimestampType():
            return st.integers(0, (2**32 - 1) * 1_000_000 + 999_999)
        case YearType():
            return st.integers(0, 2155)
        case EnumType(labels):
            return st.sampled_from(labels)
        case _:
            return _TEXTS


@cache
def _unscaled(precision: int) -> st.SearchStrategy[int]:
    limit = 10**precision - 1
    edges = [sign * 2**exponent for exponent in range(7, limit.bit_length() - 1, 8) for sign in (-1, 1)]
    return st.integers(-limit, limit) | st.sampled_from([*edges, 0, -limit, limit])


@cache
def _lists(values: st.SearchStrategy[object], size: int) -> st.SearchStrategy[list[object]]:
    return st.lists(values, min_size=size, max_size=size)


st.register_type_strategy(TableSchema, table_schemas())
st.register_type_strategy(RowBatch, row_batches())
