"""Keys of rows as bytes: equal where SQL takes them for equal, whatever the types of the columns are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.tables import (
    BitType,
    BytesType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    IntegerType,
    PrintedType,
    SetType,
    TextType,
    TimestampType,
    TimeType,
    YearType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.avro.arrays import ArrowArray
    from penstock.core.tables import ColumnType


def comparable_kind(type_: ColumnType) -> str | None:  # noqa: PLR0911 - one return per kind
    """Columns of one kind may be joined; None for what joins with nothing, as floating point numbers do."""
    match type_:
        case IntegerType() | BitType() | YearType():
            return "whole numbers"
        case DecimalType(_, scale):
            return "whole numbers" if scale == 0 else f"decimals with {scale} digits of fraction"
        case TextType() | EnumType() | SetType():
            return "text"
        case PrintedType(kind, digits) if kind not in {"json", "postgres"}:
            # As text, 12:00:00 is not 12:00:00.000.
            return f"{kind} with {digits} digits of fraction" if digits else kind
        case BytesType():
            return "bytes"
        case DateType():
            return "dates"
        case TimeType():
            return "times"
        case DateTimeType():
            return "dates with times"
        case TimestampType():
            return "instants"
        case _:
            return None


def key_bytes(columns: Sequence[ArrowArray]) -> pa.BinaryArray:
    """The key that `columns` make in each row, null where one of them is: each value behind its length."""
    pieces: list[Any] = []
    for column in columns:
        value = _value_bytes(column)
        length = pc.cast(pc.cast(pc.binary_length(value), pa.string()), pa.binary())
        pieces += [length, pa.scalar(b":", pa.binary()), value]
    # Behind the pieces stands what goes between them.
    return cast("pa.BinaryArray", pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.binary())))


def _value_bytes(column: ArrowArray) -> Any:  # noqa: ANN401 - pyarrow's stubs tell arrays of one type from another
    values: Any = column
    if pa.types.is_binary(values.type):
        return values
    if pa.types.is_date32(values.type):
        values = pc.cast(values, pa.int32())
    elif pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type):
        values = pc.cast(values, pa.int64())
    elif pa.types.is_floating(values.type):
        # -0.0 is 0.0, as in keys of messages.
        values = pc.add(values, pa.scalar(0.0, values.type))
    return pc.cast(pc.cast(values, pa.string()), pa.binary())
