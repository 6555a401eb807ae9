"""What a source fills a column with that has no value, by its type (MySQL's manual, "Data Type Default Values")."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from penstock.core.tables import (
    BitType,
    BytesType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    GeometryType,
    IntegerType,
    PrintedType,
    SetType,
    TextType,
    TimestampType,
    TimeType,
    UnsupportedType,
    VectorType,
    YearType,
)

if TYPE_CHECKING:
    from penstock.core.tables import ColumnType


def implicit_default(type_: ColumnType) -> str:
    """Return what the source fills a NOT NULL column without a default with; ValueError where nobody else knows it."""
    match type_:
        case IntegerType() | BitType() | DecimalType() | FloatType() | YearType():
            return "0"
        case TextType() | BytesType() | SetType():
            return ""
        case TimeType():
            return "00:00:00"
        case EnumType(labels):
            return labels[0]
        case DateType() | DateTimeType() | TimestampType() | UnsupportedType():
            message = "it is NOT NULL without a default, so the source filled it with the zero date, which is no date"
            raise ValueError(message)
        case PrintedType() | GeometryType() | VectorType():
            message = "it is NOT NULL without a default, so nobody but the source knows what it was filled with"
            raise ValueError(message)
        case _:
            assert_never(type_)
