"""Primary keys as people and audits write them: a line of JSON each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from penstock.core.tables import TableSchema


def read_key(schema: TableSchema, line: str) -> tuple[object, ...]:
    """Read a primary key from JSON: an object by column, a list in the key's order, or one value alone.

    Numbers and texts are as SQL writes them; bytes are hexadecimal, `"0x00ff"`. Raises UsageError.
    """
    try:
        given = json.loads(line)
    except ValueError as error:
        raise _bad_key(schema, line, str(error)) from error
    if isinstance(given, dict):
        if set(given) != set(schema.key):
            raise _bad_key(schema, line, f"its columns are not {', '.join(schema.key)}")
        given = [given[name] for name in schema.key]
    values = given if isinstance(given, list) else [given]
    if len(values) != len(schema.key):
        raise _bad_key(schema, line, f"it has {len(values)} values, and the key {len(schema.key)} columns")
    if any(value is None or isinstance(value, dict | list | bool) for value in values):
        raise _bad_key(schema, line, "each value must be a number or a text")
    return tuple(values)


def _bad_key(schema: TableSchema, line: str, why: str) -> UsageError:
    names = ", ".join(f'"{name}": ...' for name in schema.key)
    return UsageError(f"{line[:200]} is no primary key of {schema.table}: {why}", f"write each as {{{names}}}")
