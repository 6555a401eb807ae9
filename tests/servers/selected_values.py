"""Values of a PostgreSQL table as the driver's own loaders, and the server's own functions, give them."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from penstock.core.tables import (
    Column,
    FloatType,
    IntegerType,
    PrintedType,
    TableSchema,
    TimestampType,
    TimeType,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg

Value: TypeAlias = Any
"""What a driver or a parser returns."""

_APART: Final = "\x01"
_NULL: Final = "\x02"
_PRINTED: Final = (
    "SET timezone = 'UTC'",
    "SET datestyle = 'ISO'",
    "SET intervalstyle = 'postgres'",
    "SET bytea_output = 'hex'",
    "SET extra_float_digits = 3",
)


def assert_selected(connection: psycopg.Connection, schema: TableSchema, rows: Sequence[dict[str, Any]]) -> None:
    """Hold `rows`, as we carry them, against what a SELECT returns, column by column."""
    for statement in _PRINTED:
        connection.execute(statement.encode())
    for column in schema.columns:
        query = f'SELECT {_asked(column)} FROM "{schema.table.schema}"."{schema.table.name}"'
        theirs = [value for (value,) in connection.execute(query.encode()).fetchall()]
        expected = sorted(repr(_expected(column, value)) for value in theirs)
        carried = sorted(repr(_carried(column, row[column.name])) for row in rows)
        assert (column.name, column.declaration, carried) == (column.name, column.declaration, expected)


def _asked(column: Column) -> str:
    name = '"' + column.name.replace('"', '""') + '"'
    if _is_array(column):
        return (
            f"CASE WHEN {name} IS NOT NULL THEN json_build_array(coalesce(array_dims({name}), ''), cardinality({name}),"
            f" array_to_string({name}, '{_APART}', '{_NULL}')) END"
        )
    match column.type:
        case TimeType():
            return f"{name} - time '00:00'"
        case PrintedType():
            return f"CASE WHEN {name} IS NOT NULL THEN format('%s', {name}) END"
        case _:
            return name


def _is_array(column: Column) -> bool:
    return isinstance(column.type, PrintedType) and column.declaration.endswith("[]")


def _expected(column: Column, value: Value) -> object:
    if value is None:
        return None
    if _is_array(column):
        dims, count, flat = value
        return dims, flat.split(_APART) if count else []
    match column.type:
        case IntegerType():
            return int(value)
        case FloatType(bits):
            return _float(value, bits)
        case TimestampType():
            return value.astimezone(dt.UTC)
        case _:
            return value


def _carried(column: Column, value: Value) -> object:
    if value is None:
        return None
    if _is_array(column):
        parsed = json.loads(value, parse_float=str, parse_int=str)
        return _dims(parsed), list(_flat(parsed))
    match column.type:
        case FloatType(bits):
            return _float(value, bits)
        case TimestampType():
            return value.astimezone(dt.UTC)
        case _:
            return value


def _float(value: float, bits: int) -> str:
    number = float(np.float32(value)) if bits == 32 else value
    return "NaN" if math.isnan(number) else repr(number)


def _dims(array: Value) -> str:
    found = ""
    while isinstance(array, list) and array:
        found += f"[1:{len(array)}]"
        array = array[0]
    return found


def _flat(array: Value) -> Iterator[Value]:
    for each in array:
        match each:
            case list():
                yield from _flat(each)
            case None:
                yield _NULL
            case bool():
                yield "t" if each else "f"
            case dict():
                # Documents are printed by PostgreSQL with one space behind colons and commas.
                yield json.dumps(_as_numbers(each), ensure_ascii=False)
            case _:
                yield each


def _as_numbers(document: Value) -> Value:
    match document:
        case dict():
            return {name: _as_numbers(value) for name, value in document.items()}
        case list():
            return [_as_numbers(value) for value in document]
        case str() if document.isdecimal():
            return int(document)
        case _:
            return document
