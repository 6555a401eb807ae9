"""From what a caller sends to the shape of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.avro.schemas import key_schema, table_schema, value_schema
from penstock.core.avro_types import Record
from penstock.core.errors import PenstockError
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registration import TableShape
from penstock.schematizer.schemas import ParsedSchema, parse_schema

if TYPE_CHECKING:
    from penstock.core.tables import TableSchema


def shape_of_texts(namespace: str, key_text: str | None, value_text: str, *, contains_pii: bool) -> TableShape:
    """Return the shape that a pair of Avro schemas describes.

    Raises RefusedError for texts that are not Avro, or not those of one table.
    """
    key = parse_schema(key_text) if key_text is not None else None
    value = parse_schema(value_text)
    try:
        table = table_schema(value_text)
    except PenstockError as error:
        raise RefusedError(Code.INVALID_TABLE, error.message, error.hint) from error
    if _field_count(key) != len(table.key):
        message = f"the key schema of {table.table} does not have the columns of its primary key {table.key}"
        raise RefusedError(Code.INVALID_TABLE, message, "send the key schema and the value schema of one table")
    return TableShape(namespace, table.table, key, table.key, value, contains_pii)


def shape_of_table(namespace: str, table: TableSchema, *, contains_pii: bool) -> TableShape:
    """Return the shape of `table`. Raises RefusedError for a table that Avro cannot carry."""
    try:
        key_text, value_text = key_schema(table), value_schema(table)
    except PenstockError as error:
        raise RefusedError(Code.INVALID_TABLE, error.message, error.hint) from error
    return shape_of_texts(namespace, key_text, value_text, contains_pii=contains_pii)


def _field_count(key: ParsedSchema | None) -> int:
    if key is None:
        return 0
    root = key.avro.resolve(key.avro.root)
    return len(root.fields) if isinstance(root, Record) else -1
