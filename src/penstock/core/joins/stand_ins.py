"""What stands in an output's key for the key of a row that has no match: a key cannot be NULL.

It cannot be taken for a row's own key: of the rows that one row is joined with, either
some match, or there is the one without.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.arrow_types import arrow_type
from penstock.core.errors import UsageError
from penstock.core.tables import (
    BitType,
    BytesType,
    DateTimeType,
    DateType,
    DecimalType,
    IntegerType,
    TextType,
    TimestampType,
    TimeType,
    YearType,
)

if TYPE_CHECKING:
    from penstock.core.avro.arrays import ArrowArray
    from penstock.core.joins.inputs import JoinInput
    from penstock.core.tables import ColumnType


def stand_in_text(type_: ColumnType) -> str:
    """What stands in for no value, in words; empty for types that have nothing for it."""
    match type_:
        case IntegerType() | BitType() | YearType() | DecimalType():
            return "0"
        case TextType() | BytesType():
            return "''"
        case DateType():
            return "1970-01-01"
        case DateTimeType() | TimestampType():
            return "1970-01-01 00:00:00"
        case TimeType():
            return "00:00:00"
        case _:
            return ""


def require_stand_in(given: JoinInput, name: str) -> None:
    """Raise UsageError if nothing can stand in for a column of an input in a key."""
    if not stand_in_text(given.table.column(name).type):
        message = f"{given.name}.{name} is in the output's key, and its type has no value for a row without a match"
        raise UsageError(message, f"join {given.name} without type: left, or by its whole primary key")


def fill_stand_ins(type_: ColumnType, values: ArrowArray) -> ArrowArray:
    """The values of a column, with what stands in for null."""
    arrow = arrow_type(type_)
    zero: Any
    if isinstance(type_, TextType | BytesType):
        zero = pa.scalar("", pa.string()).cast(arrow)
    elif pa.types.is_decimal(arrow):
        zero = pa.scalar(Decimal(0), arrow)
    else:
        zero = pa.scalar(0, pa.int32() if pa.types.is_date32(arrow) else pa.int64()).cast(arrow)
    filled: ArrowArray = pc.fill_null(values, zero)
    return filled
