"""Values that come from anywhere, as Arrow has them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def any_column(values: list[Any]) -> pa.Array[Any]:
    """Return the values as an array, of their text where Arrow has no type for them."""
    try:
        column: pa.Array[Any] = pa.array(values)
    except pa.ArrowException:
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    return column
