"""The value that a row takes for a column that was added after it was written.

MySQL's ALTER TABLE ADD COLUMN gives existing rows the column's DEFAULT, NULL
where there is none, and the type's implicit default where the column is NOT
NULL (manual, "Data Type Default Values": 0, the empty text, the first label of
an ENUM).
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal, InvalidOperation
from typing import assert_never

from penstock.core.implicit_defaults import implicit_default
from penstock.core.tables import (
    BitType,
    BytesType,
    Column,
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
from penstock.core.warehouse.dialect import Dialect, quote_text, render_type

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"-?\d{2,3}:\d{2}:\d{2}(\.\d{1,6})?")
_DATETIME = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d{1,6})?")


def render_fill_value(dialect: Dialect, column: Column) -> str:
    """Return the SQL constant of `column` for rows older than it, "NULL" included.

    A TIMESTAMP's default is read as UTC. Raises ValueError, which says why, where
    nobody but the source can know the value.
    """
    if column.filled is not None:
        return _constant(dialect, column.type, column.filled)
    if column.default_is_expression:
        message = f"its default {column.default or 'expression'} is computed by the source"
        raise ValueError(message)
    if column.default is None and column.nullable:
        return "NULL"
    if column.default is None:
        return _constant(dialect, column.type, implicit_default(column.type))
    return _constant(dialect, column.type, column.default)


def _constant(dialect: Dialect, type_: ColumnType, default: str) -> str:  # noqa: C901, PLR0911, PLR0912 - one return per member of the union
    match type_:
        case IntegerType() | BitType() | DecimalType() | FloatType() | YearType():
            return _cast(dialect, type_, _number(default))
        case TextType() | EnumType() | SetType() | PrintedType("postgres"):
            return _text(dialect, default)
        case PrintedType("uuid" | "inet4" | "inet6"):
            return _cast(dialect, type_, default)
        case PrintedType("json") if not dialect.json_bytes_max:
            # PostgreSQL's: MySQL has no constant default of JSON.
            return _cast(dialect, type_, default)
        case PrintedType("date" | "datetime" | "timestamp", digits):
            return quote_text(_printed(_DATE if type_.kind == "date" else _DATETIME, digits, default), dialect)
        case TimeType():
            text = _matching(_TIME, default)
            return _cast(dialect, type_, str(_microseconds(text)) if dialect.time_is_microseconds else text)
        case PrintedType() | GeometryType() | VectorType():
            message = f"its default {default!r} may be printed in another way than its values"
            raise ValueError(message)
        case BytesType():
            return _blob(dialect, type_, default)
        case DateType():
            dt.date.fromisoformat(_matching(_DATE, default))
            return _cast(dialect, type_, default)
        case DateTimeType():
            dt.datetime.fromisoformat(_matching(_DATETIME, default))
            return _cast(dialect, type_, default)
        case TimestampType():
            dt.datetime.fromisoformat(_matching(_DATETIME, default))
            return _cast(dialect, type_, f"{default}{dialect.utc}")
        case UnsupportedType(declaration):
            message = f"this version cannot carry {declaration} exactly"
            raise ValueError(message)
        case _:
            assert_never(type_)


def _text(dialect: Dialect, default: str) -> str:
    if "\x00" in default and not dialect.text_has_nul:
        message = f"its default {default!r} has the character NUL, which texts of {dialect.name} have not"
        raise ValueError(message)
    return quote_text(default, dialect)


def _cast(dialect: Dialect, type_: ColumnType, text: str) -> str:
    return f"CAST({quote_text(text, dialect)} AS {render_type(dialect, type_)})"


def _number(default: str) -> str:
    try:
        Decimal(default)
    except InvalidOperation as error:
        message = f"its default {default!r} is not a number"
        raise ValueError(message) from error
    return default


def _blob(dialect: Dialect, type_: BytesType, default: str) -> str:
    if not default.isascii() or default.startswith("0x"):
        message = f"its default {default!r} may stand for other bytes than it shows"
        raise ValueError(message)
    padding = type_.bytes_max - len(default) if type_.fixed else 0
    whole = default.encode() + bytes(padding)
    return dialect.blob.format(hex=whole.hex())


def _microseconds(time: str) -> int:
    hours, minutes, seconds = time.removeprefix("-").split(":")
    whole, _, fraction = seconds.partition(".")
    count = ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1_000_000 + int(fraction.ljust(6, "0") or 0)
    return -count if time.startswith("-") else count


def _printed(pattern: re.Pattern[str], digits: int, default: str) -> str:
    """Return a default that is printed as a column with so many fraction digits prints its values."""
    if len(_matching(pattern, default).partition(".")[2]) != digits:
        message = f"its default {default!r} is not printed with {digits} fraction digits, as its values are"
        raise ValueError(message)
    return default


def _matching(pattern: re.Pattern[str], default: str) -> str:
    if not pattern.fullmatch(default):
        message = f"its default {default!r} is not a date or time"
        raise ValueError(message)
    return default
