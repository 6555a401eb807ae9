"""A table's schema as text, as it is kept in a warehouse's state."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, get_args

from penstock.core.tables import Column, ColumnType, TableId, TableSchema

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLASS = "class"
_PACKED = "zlib:"
_PLAIN_BYTES_MAX = 16_000
_KEPT_BYTES_MAX = 65_535
_TYPES = {type_.__name__: type_ for type_ in get_args(ColumnType)}


def render_schema(schema: TableSchema) -> str:
    """Return the schema as JSON: the dataclasses' fields, and each type's class name as `class`.

    Where that is too long for a text of Redshift, comments are left out, on which no load depends.
    """
    text = packed(_rendered(schema))
    if len(text.encode()) <= _KEPT_BYTES_MAX:
        return text
    columns = tuple(replace(column, comment="") for column in schema.columns)
    return packed(_rendered(replace(schema, columns=columns, comment="")))


def _rendered(schema: TableSchema) -> str:
    columns = [asdict(column) | {"type": _type_fields(column.type)} for column in schema.columns]
    fields = asdict(schema) | {"table": str(schema.table), "columns": columns}
    return json.dumps(fields, ensure_ascii=False, sort_keys=True)


def parse_schema(text: str) -> TableSchema:
    """Return the schema that `render_schema` wrote; ValueError or KeyError for another text."""
    fields = json.loads(unpacked(text))
    return TableSchema(
        table=TableId.parse(fields["table"]),
        columns=tuple(Column(**column | {"type": _type(column["type"])}) for column in fields["columns"]),
        key=tuple(fields["key"]),
        comment=fields["comment"],
        partial_rows=fields["partial_rows"],
    )


def packed(text: str) -> str:
    """Return JSON text as it is kept in a target: compressed where it is long. A text of Redshift has 65,535 bytes.

    What is long tells of hundreds of columns, each in the same words, so that it becomes a twentieth.
    """
    whole = text.encode()
    return text if len(whole) <= _PLAIN_BYTES_MAX else _PACKED + b64encode(zlib.compress(whole, 9)).decode()


def unpacked(text: str) -> str:
    """Return what `packed` was given."""
    return zlib.decompress(b64decode(text[len(_PACKED) :])).decode() if text.startswith(_PACKED) else text


def _type_fields(type_: ColumnType) -> dict[str, object]:
    return {_CLASS: type(type_).__name__, **asdict(type_)}


def _type(fields: Mapping[str, object]) -> ColumnType:
    given = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items() if name != _CLASS
    }
    type_: ColumnType = _TYPES[str(fields[_CLASS])](**given)
    return type_
