"""The Arrow type that carries each column type."""

from __future__ import annotations

from typing import assert_never

import pyarrow as pa

from penstock.core.tables import (
    BitType,
    BytesType,
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
    bit_integer,
)

_DECIMAL128_PRECISION_MAX = 38
_INTEGERS = {
    (8, False): pa.int8(),
    (8, True): pa.uint8(),
    (16, False): pa.int16(),
    (16, True): pa.uint16(),
    (24, False): pa.int32(),
    (24, True): pa.uint32(),
    (32, False): pa.int32(),
    (32, True): pa.uint32(),
    (64, False): pa.int64(),
    (64, True): pa.uint64(),
}


def arrow_type(type_: ColumnType) -> pa.DataType:  # noqa: C901, PLR0911, PLR0912 - one case per member of the union
    """Return the Arrow type for `type_`; ValueError for a type that cannot be carried."""
    match type_:
        case IntegerType(bits, unsigned):
            return _INTEGERS[bits, unsigned]
        case BitType(bits):
            return _INTEGERS[bit_integer(bits).bits, True]
        case DecimalType(precision, scale):
            wide = precision > _DECIMAL128_PRECISION_MAX
            return pa.decimal256(precision, scale) if wide else pa.decimal128(precision, scale)
        case FloatType(bits):
            return pa.float32() if bits == 32 else pa.float64()  # noqa: PLR2004 - the width itself
        case TextType() | EnumType() | SetType() | PrintedType():
            return pa.string()
        case BytesType() | GeometryType():
            return pa.binary()
        case VectorType():
            return pa.list_(pa.field("item", pa.float32(), nullable=False))
        case TimeType():
            return pa.duration("us")
        case DateType():
            return pa.date32()
        case DateTimeType():
            return pa.timestamp("us")
        case TimestampType():
            return pa.timestamp("us", tz="UTC")
        case YearType():
            return pa.int16()
        case UnsupportedType(declaration):
            message = f"no Arrow type carries {declaration}"
            raise ValueError(message)
        case _:
            assert_never(type_)


def arrow_schema(schema: TableSchema) -> pa.Schema:
    """Return the Arrow schema of a table's rows."""
    return pa.schema([pa.field(c.name, arrow_type(c.type), nullable=c.nullable) for c in schema.image_columns])
