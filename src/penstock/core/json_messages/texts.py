"""Values as JSON: exact for every reader, whatever its numbers are.

A number stands as such only where every reader of JSON has it exactly (RFC 8259,
section 6): an integer up to 2**53 - 1 either way, and a finite float. All others are texts.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

import numpy as np
import pyarrow as pa

from penstock.core.avro.encode_rows import unscaled
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
    from collections.abc import Callable, Iterable, Sequence

    from penstock.core.avro.arrays import ArrowArray, Integers

NULL: Final = "null"
EXACT_MAX: Final = 2**53 - 1
quote: Final = json.JSONEncoder(ensure_ascii=False).encode
"""Text as a JSON string."""

_MICROSECONDS: Final = 1_000_000
_SECONDS_PER_HOUR: Final = 3600
_SECONDS_PER_MINUTE: Final = 60


def json_texts(array: ArrowArray, type_: ColumnType) -> Sequence[str]:  # noqa: C901, PLR0911 - one case per type
    """Return the JSON of each value of `array`, which has the Arrow type that carries `type_`.

    Raises ValueError for a type that is not carried.
    """
    match type_:
        case IntegerType() | BitType() | YearType():
            return _each(_listed(array), _integer)
        case DecimalType(_, scale):
            return _each(unscaled(array), lambda value: f'"{decimal_text(value, scale)}"')
        case FloatType(bits):
            return _each(_listed(array), _float32 if bits == 32 else _float64)  # noqa: PLR2004 - the width itself
        case TextType() | EnumType() | SetType() | PrintedType():
            return _each(_listed(array), quote)
        case BytesType() | GeometryType():
            return _each(_listed(array), lambda value: f'"{b64encode(value).decode()}"')
        case VectorType():
            return _each(_listed(array), lambda floats: f"[{','.join(map(_float32, floats))}]")
        case DateType():
            days = array.view(pa.int32())
            return _moments(days, _integers(days).astype("datetime64[D]"), "D", "")
        case DateTimeType() | TimestampType():
            moments = array.view(pa.int64())
            zone = "Z" if isinstance(type_, TimestampType) else ""
            return _moments(moments, _integers(moments).astype("datetime64[us]"), "us", zone)
        case TimeType():
            return _each(_listed(array.view(pa.int64())), lambda value: f'"{time_text(value)}"')
        case UnsupportedType(declaration):
            message = f"no JSON carries {declaration}"
            raise ValueError(message)
        case _:
            assert_never(type_)


def decimal_text(value: int, scale: int) -> str:
    """Return a decimal with `scale` digits behind the point, given without the point: never with an exponent."""
    digits = str(abs(value)).zfill(scale + 1)
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else sign + digits


def time_text(microseconds: int) -> str:
    """Return a span of time as SQL writes it, with six digits: -838:59:59.000000."""
    seconds, fraction = divmod(abs(microseconds), _MICROSECONDS)
    hours, rest = divmod(seconds, _SECONDS_PER_HOUR)
    minutes, left = divmod(rest, _SECONDS_PER_MINUTE)
    return f"{'-' if microseconds < 0 else ''}{hours:02}:{minutes:02}:{left:02}.{fraction:06}"


def _each(values: Iterable[Any], render: Callable[[Any], str]) -> list[str]:
    return [NULL if value is None else render(value) for value in values]


def _integer(value: int) -> str:
    return str(value) if -EXACT_MAX <= value <= EXACT_MAX else f'"{value}"'


def _float64(value: float) -> str:
    return repr(value) if math.isfinite(value) else _not_finite(value)


def _float32(value: float) -> str:
    """The shortest text that is this float again where it is read as a double and then made a float."""
    if not math.isfinite(value):
        return _not_finite(value)
    text = str(np.float32(value))
    return text if np.float32(float(text)) == np.float32(value) else repr(value)


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return '"NaN"'
    return '"Infinity"' if value > 0 else '"-Infinity"'


def _moments(array: ArrowArray, moments: np.ndarray[Any, Any], unit: str, zone: str) -> list[str]:
    """Return dates and times in ISO 8601, always with as many digits: the same moment is always the same text."""
    texts: list[str] = np.datetime_as_string(moments, unit=cast("Any", unit)).tolist()
    rendered = [f'"{text}{zone}"' for text in texts]
    if not array.null_count:
        return rendered
    return [text if valid else NULL for text, valid in zip(rendered, array.is_valid().to_pylist(), strict=True)]


def _integers(array: ArrowArray) -> Integers:
    """Return integers, 0 for NULL."""
    filled = cast("pa.Array[Any]", array).fill_null(0)
    return np.asarray(filled.to_numpy(zero_copy_only=False)).astype(np.int64)


def _listed(array: ArrowArray) -> list[Any]:
    return cast("pa.Array[Any]", array).to_pylist()
