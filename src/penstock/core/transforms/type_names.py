"""Types of new columns, as people write them in a config."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.core.tables import (
    BytesType,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    TextType,
    TimestampType,
    TimeType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

LONG_TEXT: Final = TextType(2**32 - 1, "utf8mb4")
_TYPES: Final[Mapping[str, ColumnType]] = {
    "boolean": IntegerType(8, unsigned=False),
    "tinyint": IntegerType(8, unsigned=False),
    "smallint": IntegerType(16, unsigned=False),
    "int": IntegerType(32, unsigned=False),
    "bigint": IntegerType(64, unsigned=False),
    "float": FloatType(32),
    "double": FloatType(64),
    "text": LONG_TEXT,
    "bytes": BytesType(2**32 - 1, fixed=False),
    "date": DateType(),
    "datetime": DateTimeType(6),
    "timestamp": TimestampType(6),
    "time": TimeType(6),
}
_DECIMAL: Final = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)")
_DIGITS_MAX: Final = 38


def parse_type(text: str) -> ColumnType:
    """Return the type called `text`: text, int, decimal(10,2), ...; ValueError lists them all."""
    name = text.strip().casefold()
    if name in _TYPES:
        return _TYPES[name]
    found = _DECIMAL.fullmatch(name)
    if found and 0 < int(found[1]) <= _DIGITS_MAX and int(found[2]) <= int(found[1]):
        return DecimalType(int(found[1]), int(found[2]))
    message = f"should be one of {', '.join(_TYPES)}, or decimal(digits, digits after the point) up to 38 digits"
    raise ValueError(message)
