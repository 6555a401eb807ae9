"""Values read back from JSON, as the Arrow types that carry them: what `texts` writes."""

from __future__ import annotations

import re
from binascii import a2b_base64
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

import numpy as np
import pyarrow as pa

from penstock.core.arrow_types import arrow_type
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
    TextType,
    TimestampType,
    TimeType,
    UnsupportedType,
    VectorType,
    YearType,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.core.avro.arrays import ArrowArray

_TIME: Final = re.compile(r"(-?)(\d+):(\d\d):(\d\d)\.(\d{6})")
JSON_VALUE_ERRORS: Final = (ValueError, TypeError, OverflowError, RecursionError, pa.ArrowInvalid, pa.ArrowTypeError)
"""What `json_values` raises for values that the type cannot have written."""

_Values: TypeAlias = "Sequence[Any]"


def json_values(values: _Values, type_: ColumnType) -> ArrowArray:  # noqa: C901, PLR0911 - one case per type
    """Return values of JSON, None for NULL, in the Arrow type that carries `type_`; one of JSON_VALUE_ERRORS."""
    match type_:
        case IntegerType() | BitType() | YearType():
            plain = set(map(type, values)) <= {int, type(None)}
            return pa.array(values if plain else _each(values, _integer), arrow_type(type_))
        case DecimalType():
            return pa.array(values, pa.string()).cast(arrow_type(type_))
        case FloatType():
            plain = set(map(type, values)) <= {float, type(None)}
            return pa.array(values if plain else _each(values, _float), pa.float64()).cast(arrow_type(type_))
        case TextType() | EnumType() | SetType() | PrintedType():
            return pa.array(values, pa.string())
        case BytesType() | GeometryType():
            return pa.array(_each(values, lambda text: a2b_base64(text, strict_mode=True)), pa.binary())
        case VectorType():
            return pa.array(_each(values, lambda floats: list(map(_float, floats))), arrow_type(type_))
        case DateType():
            return _moments(values, "D", np.int32, arrow_type(type_))
        case DateTimeType():
            return _moments(values, "us", np.int64, arrow_type(type_))
        case TimestampType():
            return _moments(_each(values, _without_zone), "us", np.int64, arrow_type(type_))
        case TimeType():
            return pa.array(_each(values, _time), pa.int64()).view(arrow_type(type_))
        case UnsupportedType(declaration):
            message = f"no JSON carries {declaration}"
            raise ValueError(message)
        case _:
            assert_never(type_)


def _each(values: _Values, read: Callable[[Any], object]) -> list[Any]:
    return [None if value is None else read(value) for value in values]


def _integer(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        return int(value)
    raise _unlike(value, "an integer")


def _float(value: object) -> float:
    if isinstance(value, float | int) and not isinstance(value, bool):
        return float(value)
    if value in {"NaN", "Infinity", "-Infinity"}:
        return float(str(value))
    raise _unlike(value, "a number")


def _without_zone(value: object) -> str:
    if isinstance(value, str) and value.endswith("Z"):
        return value[:-1]
    raise _unlike(value, "a moment in UTC")


def _time(value: object) -> int:
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise _unlike(value, "a span of time")
    sign, *parts = found.groups()
    hours, minutes, seconds, fraction = map(int, parts)
    microseconds = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction
    return -microseconds if sign else microseconds


def _moments(values: _Values, unit: str, width: type[np.signedinteger[Any]], type_: pa.DataType) -> ArrowArray:
    missing = np.array([value is None for value in values], np.bool_)
    texts = ["1970-01-01" if value is None else value for value in values]
    if not all(isinstance(text, str) for text in texts):
        raise _unlike(next(text for text in texts if not isinstance(text, str)), "a date or time")
    numbers = np.array(texts, f"datetime64[{unit}]").astype(np.int64).astype(width)
    array: ArrowArray = pa.array(numbers, mask=missing).view(type_)
    return array


def _unlike(value: object, what: str) -> ValueError:
    message = f"{value!r} is not {what}"
    return ValueError(message)
