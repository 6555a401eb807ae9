"""Rows of which only the key is known: a delete of what is not there has such a one."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.arrow_types import arrow_type

if TYPE_CHECKING:
    import numpy.typing as npt

    from penstock.core.tables import Column, TableSchema


def blank(column: Column, count: int) -> pa.Array[Any]:
    """Return what stands for n values of `column` that nobody knows: NULL, or its type's zero where it may not be."""
    type_ = arrow_type(column.type)
    if column.nullable:
        return pa.array([None] * count, type_)
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return pa.array([b""] * count, pa.binary()).cast(type_)
    if pa.types.is_decimal(type_):
        # A whole number is taken for one of 19 digits, which not every DECIMAL holds.
        return pa.array([Decimal(0)] * count, type_)
    zeros = pa.array([0] * count, pa.int32() if pa.types.is_date32(type_) else pa.int64())
    return zeros.cast(type_)


def find_key_alone(schema: TableSchema, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Return which rows have nothing but their key (bool[n]); one with such values that is whole looks the same."""
    found = np.full(rows.num_rows, bool(schema.key), dtype=np.bool_)
    for column, values in zip(schema.columns, rows.columns, strict=True):
        if column.name not in schema.key:
            same = values.is_null() if column.nullable else pc.equal(values, blank(column, 1)[0]).fill_null(False)  # noqa: FBT003
            found &= np.asarray(same.to_numpy(zero_copy_only=False), dtype=np.bool_)
    return found
