"""Values as a SELECT prints them, as Arrow columns: exact, or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.arrow_types import arrow_type
from penstock.core.tables import (
    BytesType,
    DateTimeType,
    DateType,
    EnumType,
    FloatType,
    TextType,
    TimestampType,
    UnsupportedType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.tables import Column, ColumnType


def select_expression(column: Column, quoted: str) -> str:
    """What to select for a column called `quoted`, so that what is printed is the whole value.

    A FLOAT is printed with six digits unless it is cast. An ENUM is asked for by
    its number, as the log has it. Text comes in the bytes of the column, which are
    UTF-8 for all character sets that we carry but latin1.
    """
    match column.type:
        case TextType(charset="latin1"):
            return f"CONVERT({quoted} USING utf8mb4)"
        case FloatType():
            return f"CAST({quoted} AS DOUBLE)"
        case EnumType():
            return f"{quoted} + 0"
        case _:
            return quoted


def parse_values(  # noqa: PLR0911 - one return per way of printing
    type_: ColumnType, values: Sequence[bytes | None]
) -> pa.Array[Any]:
    """Return the printed `values` of one column as the Arrow type that carries it.

    Text is expected in UTF-8, instants in UTC, and the rest as
    `select_expression` has it printed. Raises ValueError (pyarrow's own) for a
    value that the type does not hold, such as the date 0000-00-00.
    """
    raw = pa.array(values, pa.binary())
    match type_:
        case BytesType():
            return raw
        case TextType():
            return raw.cast(pa.string())
        case EnumType(labels):
            return _labels(raw.cast(pa.string()).cast(pa.int32()), labels)
        case FloatType():
            return raw.cast(pa.string()).cast(pa.float64()).cast(arrow_type(type_))
        case DateType():
            return _calendar(raw).cast(pa.date32())
        case DateTimeType() | TimestampType():
            return _calendar(raw).cast(pa.timestamp("us")).cast(arrow_type(type_))
        case UnsupportedType(declaration):
            text = f"no Arrow type carries {declaration}"
            raise ValueError(text)
        case _:
            return raw.cast(pa.string()).cast(arrow_type(type_))


def _calendar(raw: pa.StringArray | pa.BinaryArray) -> pa.Array[Any]:
    """Dates as text. Arrow refuses a month or day 0 itself, but has a year 0."""
    texts = raw.cast(pa.string())
    is_zero = pc.starts_with(texts, "0000")
    if pc.any(is_zero).as_py():
        text = f"{texts.filter(is_zero)[0]} is no date"
        raise ValueError(text)
    return texts


def _labels(numbers: pa.Array[Any], labels: tuple[str, ...]) -> pa.Array[Any]:
    """Labels are counted from 1; 0 stands for the empty text of a value that was none of them."""
    is_label = pc.is_in(numbers, value_set=pa.array(range(1, len(labels) + 1), pa.int32()))
    strange = numbers.filter(pc.and_not(pc.is_valid(numbers), is_label))
    if len(strange):
        text = f"the ENUM holds a value that is none of its {len(labels)} labels (index {strange[0]})"
        raise ValueError(text)
    return pa.array(labels, pa.string()).take(pc.subtract(numbers, 1))
