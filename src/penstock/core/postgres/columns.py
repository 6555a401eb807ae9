"""A whole column from the texts that PostgreSQL prints, by Arrow's kernels.

`penstock.core.postgres.values` is the reference: what a kernel does not know, or refuses, is read by it,
one value after another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.postgres import types
from penstock.core.tables import (
    DateTimeType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    PrintedType,
    TextType,
    TimestampType,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.postgres.types import FoundType
    from penstock.core.tables import ColumnType

ArrowArray: TypeAlias = "pa.Array[pa.Scalar[pa.DataType]]"
ColumnReader: TypeAlias = "Callable[[ArrowArray, pa.DataType], ArrowArray]"
"""From binary values, NULL where there is none, to an array of a type; raises pa.ArrowException for what it refuses."""


def column_reader(found: FoundType, carried: ColumnType) -> ColumnReader | None:
    """Return how to read a column of the type `found`, which is `carried` so, at once; None where nothing can."""
    match carried:
        case IntegerType():
            return _truths if found.oid == types.BOOL else _cast
        case FloatType():
            return _floats
        case TimestampType():
            return _instants
        case PrintedType("json") if types.is_array(found.info):
            return None
        case DecimalType() | DateType() | DateTimeType() | TextType() | PrintedType():
            return _cast
        case _:
            return None


def _cast(raw: ArrowArray, wanted: pa.DataType) -> ArrowArray:
    return raw.cast(pa.string()).cast(wanted)


def _floats(raw: ArrowArray, wanted: pa.DataType) -> ArrowArray:
    """As the plain reader, which goes by double precision."""
    return raw.cast(pa.string()).cast(pa.float64()).cast(wanted, safe=False)


def _instants(raw: ArrowArray, wanted: pa.DataType) -> ArrowArray:
    """We ask for values in UTC, and they end so."""
    if not pc.all(pc.ends_with(raw.cast(pa.string()), "+00")).as_py():
        message = "a moment in another time zone"
        raise pa.ArrowInvalid(message)
    return _cast(raw, wanted)


def _truths(raw: ArrowArray, wanted: pa.DataType) -> ArrowArray:
    place = pc.index_in(raw, pa.array([b"f", b"t"], pa.binary()))
    if place.null_count != raw.null_count:
        message = "a value that is no boolean"
        raise pa.ArrowInvalid(message)
    return place.cast(wanted)
