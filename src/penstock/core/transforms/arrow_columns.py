"""The column type for what an Arrow file holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.core.tables import (
    BytesType,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    TimestampType,
)
from penstock.core.transforms.type_names import LONG_TEXT

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPES: Final[Mapping[pa.DataType, ColumnType]] = {
    pa.bool_(): IntegerType(8, unsigned=False),
    pa.int8(): IntegerType(8, unsigned=False),
    pa.int16(): IntegerType(16, unsigned=False),
    pa.int32(): IntegerType(32, unsigned=False),
    pa.int64(): IntegerType(64, unsigned=False),
    pa.uint8(): IntegerType(8, unsigned=True),
    pa.uint16(): IntegerType(16, unsigned=True),
    pa.uint32(): IntegerType(32, unsigned=True),
    pa.uint64(): IntegerType(64, unsigned=True),
    pa.float32(): FloatType(32),
    pa.float64(): FloatType(64),
    pa.string(): LONG_TEXT,
    pa.large_string(): LONG_TEXT,
    pa.binary(): BytesType(2**32 - 1, fixed=False),
    pa.date32(): DateType(),
}


def column_type_of(type_: pa.DataType) -> ColumnType:
    """Return the type of a column that holds every value of an Arrow `type_`; ValueError if there is none."""
    if type_ in _TYPES:
        return _TYPES[type_]
    if isinstance(type_, pa.Decimal128Type | pa.Decimal256Type) and 0 <= type_.scale <= type_.precision:
        return DecimalType(type_.precision, type_.scale)
    if isinstance(type_, pa.TimestampType) and type_.unit in {"s", "ms", "us"}:
        return DateTimeType(6) if type_.tz is None else TimestampType(6)
    message = f"no column holds values of Arrow's type {type_}"
    raise ValueError(message)
