"""The order of a table's rows by primary key: where a chunk begins, and which rows are behind one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.adapters.mysql.catalog import quote
from penstock.core.mysql.types.key_literals import literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.tables import TableSchema


def _signature(schema: TableSchema) -> list[list[str]]:
    """What the order of a table's rows depends on."""
    columns = (schema.column(name) for name in schema.key)
    return [[column.name, column.declaration, column.collation] for column in columns]


def key_of(schema: TableSchema, row: Sequence[bytes | None]) -> list[bytes]:
    """Return the key of a whole row."""
    printed = {column.name: value for column, value in zip(schema.columns, row, strict=True)}
    return [printed[name] or b"" for name in schema.key]


def write_cursor(schema: TableSchema, key: Sequence[bytes]) -> str:
    """Write down behind which key the next chunk begins."""
    return json.dumps({"key": _signature(schema), "behind": [each.hex() for each in key]})


def read_cursor(schema: TableSchema, cursor: str) -> list[bytes]:
    """Return the key of the last row that was read; nothing at the start, or if rows are in another order now."""
    if not cursor:
        return []
    fields = json.loads(cursor)
    return [bytes.fromhex(each) for each in fields["behind"]] if fields["key"] == _signature(schema) else []


def within(schema: TableSchema, where: str, begin: str, until: str) -> str:
    """Write which rows meet a condition between two cursors, each "" for none, and in which order they are read."""
    wheres = [f"(\n{where}\n)"] if where else []
    wheres += [is_behind(schema, read_cursor(schema, begin))] if begin else []
    wheres += [is_up_to(schema, read_cursor(schema, until))] if until else []
    condition = f" WHERE {' AND '.join(wheres)}" if wheres else ""
    return f"{condition} ORDER BY {', '.join(map(quote, schema.key))}"


def is_behind(schema: TableSchema, printed: Sequence[bytes]) -> str:
    """Write the condition that a row's key is behind one, so that an index is used: (a > 1 OR (a = 1 AND b > 2))."""
    return f"({' OR '.join(_beside(schema, printed, '>'))})"


def is_up_to(schema: TableSchema, printed: Sequence[bytes]) -> str:
    """Write the condition that a row's key is not behind one, so that an index is used on both sides of a chunk."""
    columns = [schema.column(name) for name in schema.key]
    same = " AND ".join(f"{quote(c.name)} = {literal(c, value)}" for c, value in zip(columns, printed, strict=True))
    return f"({' OR '.join([*_beside(schema, printed, '<'), f'({same})'])})"


def _beside(schema: TableSchema, printed: Sequence[bytes], sign: str) -> list[str]:
    """Write for each column of the key that it is behind or before, where those ahead of it are the same."""
    columns = [schema.column(name) for name in schema.key]
    literals = [literal(column, value) for column, value in zip(columns, printed, strict=True)]
    names = [quote(column.name) for column in columns]
    parts = []
    for last in range(len(names)):
        equal = [f"{name} = {value}" for name, value in zip(names[:last], literals[:last], strict=True)]
        parts.append("(" + " AND ".join([*equal, f"{names[last]} {sign} {literals[last]}"]) + ")")
    return parts
