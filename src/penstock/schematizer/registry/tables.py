"""From what a caller sends to the shape of a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.avro.schemas import key_schema, table_schema, value_schema
from penstock.core.avro_types import Record
from penstock.core.errors import PenstockError
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.registry.elements import avro_elements
from penstock.schematizer.registry.schemas import ParsedSchema, parse_schema
from penstock.schematizer.registry.topic_rule import TableShape, TopicFacts
from penstock.schematizer.storage.words import is_clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.tables import TableId, TableSchema

_NAME_CHARACTERS_MAX = 255


@dataclass(frozen=True, slots=True)
class Registering:
    """What is said of every registration: the namespace, whether personal data is in it, and facts of the topic."""

    namespace: str
    contains_pii: bool = False
    facts: TopicFacts = field(default_factory=TopicFacts)


def shape_of_texts(registering: Registering, key_text: str | None, value_text: str) -> TableShape:
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
    _require_storable([table.table.schema, table.table.name, *(column.name for column in table.columns)])
    return _shape(registering, table.table, (key, table.key), value)


def shape_of_table(registering: Registering, table: TableSchema) -> TableShape:
    """Return the shape of `table`. Raises RefusedError for a table that Avro cannot carry."""
    try:
        key_text, value_text = key_schema(table), value_schema(table)
    except PenstockError as error:
        raise RefusedError(Code.INVALID_TABLE, error.message, error.hint) from error
    return shape_of_texts(registering, key_text, value_text)


def shape_of_avro(registering: Registering, name: TableId, key_text: str | None, value_text: str) -> TableShape:
    """Return the shape of what is no table: any Avro, under a name of two parts.

    The key's fields are those of its record. Raises RefusedError for texts that
    are not Avro, and for a table's.
    """
    key = parse_schema(key_text) if key_text is not None else None
    value = parse_schema(value_text)
    _require_storable([name.schema, name.name])
    elements = avro_elements(value_text, is_key=False)
    if any(len(each.path) > _NAME_CHARACTERS_MAX for each in elements):
        message = f"a field's path is longer than {_NAME_CHARACTERS_MAX} characters"
        raise RefusedError(Code.INVALID_SCHEMA, message, "nest its records less deeply, or give them shorter names")
    try:
        table = table_schema(value_text).table
    except PenstockError:
        root = key.avro.resolve(key.avro.root) if key else None
        fields = tuple(field.name for field in root.fields) if isinstance(root, Record) else ()
        return _shape(registering, name, (key, fields), value)
    message = f"this is the schema of the table {table}"
    raise RefusedError(Code.INVALID_SCHEMA, message, "send it to POST /v1/tables")


def _shape(
    registering: Registering, name: TableId, key: tuple[ParsedSchema | None, tuple[str, ...]], value: ParsedSchema
) -> TableShape:
    return TableShape(registering.namespace, name, *key, value, registering.contains_pii, registering.facts)


def _require_storable(names: Sequence[str]) -> None:
    """Refuse names that no database of ours could keep."""
    for name in names:
        if not 0 < len(name) <= _NAME_CHARACTERS_MAX or not is_clean(name):
            message = f"{name[:80]!r} cannot be the name of a database, a table or a column"
            hint = f"use 1 to {_NAME_CHARACTERS_MAX} characters of Unicode"
            raise RefusedError(Code.INVALID_TABLE, message, hint)


def _field_count(key: ParsedSchema | None) -> int:
    if key is None:
        return 0
    root = key.avro.resolve(key.avro.root)
    return len(root.fields) if isinstance(root, Record) else -1
