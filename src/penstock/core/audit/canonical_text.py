"""Writes a value in SQL as the one text that every database makes of it.

| kind | text |
|---|---|
| whole numbers, BIT, YEAR | digits: `-12` |
| DECIMAL | as many digits behind the point as it has: `12.50` |
| FLOAT, DOUBLE | the fewest digits that give the double back, and a power of ten: `-125e1` is -0.125 * 10; or `0` |
| texts, ENUM, SET, JSON, UUID, INET | themselves, blanks at the end included |
| bytes, geometries as Extended WKB | hexadecimal digits |
| DATE, DATETIME, TIMESTAMP | `2024-01-31 12:00:00.000000`, instants in UTC; `infinity` |
| TIME | microseconds |

Two columns are compared where their types in the source and of the target's
table are the same: what a DECIMAL's scale is, both sides must agree on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, assert_never

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
    from penstock.core.audit.dialects import AuditDialect, Kind

_DATES = frozenset({"date", "datetime", "timestamp"})
_FLOAT = re.compile(r"(-?)(\d+)e(-?\d+)")


def kind_of(type_: ColumnType) -> Kind | None:  # noqa: C901, PLR0911 - one return per member of the union
    """Return how values of a type are written; None for those that are not compared."""
    match type_:
        case IntegerType() | BitType() | YearType():
            return "integer"
        case DecimalType():
            return "decimal"
        case FloatType():
            return "float"
        case TextType() | EnumType() | SetType() | PrintedType():
            return "text"
        case BytesType() | GeometryType():
            return "bytes"
        case DateType():
            return "date"
        case DateTimeType():
            return "datetime"
        case TimestampType():
            return "timestamp"
        case TimeType():
            return "time"
        case VectorType() | UnsupportedType():
            return None
        case _:
            assert_never(type_)


def read_float(text: str) -> float | None:
    """Return what the canonical text of a float says; None for a value that is no number."""
    if text == "0":
        return 0.0
    found = _FLOAT.fullmatch(text)
    return float(f"{found[1]}0.{found[2]}e{found[3]}") if found else None


def has_any_text(kind: Kind) -> bool:
    """Whether a text of this kind may hold any character, those between columns too."""
    return kind == "text"


def canonical_text(dialect: AuditDialect, kind: Kind, column: str, *, zero_is_null: bool = False) -> str:
    """Return the expression that writes `column` (quoted); NULL for NULL.

    `zero_is_null`: dates that no calendar has are NULL elsewhere, as configured.
    """
    if kind == "float":
        return _float_text(dialect, column)
    text = dialect.texts[kind].format(column)
    if zero_is_null and dialect.zero_dates and kind in _DATES:
        is_real = (
            f"YEAR({column}) > 0 AND MONTH({column}) > 0"
            f" AND DAYOFMONTH({column}) BETWEEN 1 AND DAYOFMONTH(LAST_DAY({column}))"
        )
        return f"CASE WHEN {is_real} THEN {text} END"
    return text


def _float_text(dialect: AuditDialect, column: str) -> str:
    """Sign, digits without zeros around them, `e`, and how far the point is to the right of the first digit."""
    printed = dialect.float_text.format(column)
    mantissa = f"REPLACE({dialect.mantissa.format(printed)}, '-', '')"
    digits = f"REPLACE({mantissa}, '.', '')"
    significant = dialect.without_zeros_before.format(digits)
    # A number without a point has it behind its last digit.
    with_point = dialect.joined((mantissa, "'.'"))
    whole = f"POSITION('.' IN {with_point}) - 1"
    exponent = f"({dialect.exponent.format(printed)}) + {whole} - LENGTH({digits}) + LENGTH({significant})"
    sign = f"CASE WHEN {column} < 0 THEN '-' ELSE '' END"
    parts = (sign, dialect.without_zeros_behind.format(significant), "'e'", dialect.as_text.format(exponent))
    return f"CASE WHEN {column} = 0 THEN '0' ELSE {dialect.joined(parts)} END"
