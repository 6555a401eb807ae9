"""A table's schema as text, as it is kept in a warehouse's state."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, get_args

from penstock.core.tables import Column, ColumnType, TableId, TableSchema

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLASS = "class"
_TYPES = {type_.__name__: type_ for type_ in get_args(ColumnType)}


def render_schema(schema: TableSchema) -> str:
    """Return the schema as JSON: the dataclasses' fields, and each type's class name as `class`."""
    columns = [asdict(column) | {"type": _type_fields(column.type)} for column in schema.columns]
    fields = asdict(schema) | {"table": str(schema.table), "columns": columns}
    return json.dumps(fields, ensure_ascii=False, sort_keys=True)


def parse_schema(text: str) -> TableSchema:
    """Return the schema that `render_schema` wrote; ValueError or KeyError for another text."""
    fields = json.loads(text)
    return TableSchema(
        table=TableId.parse(fields["table"]),
        columns=tuple(Column(**column | {"type": _type(column["type"])}) for column in fields["columns"]),
        key=tuple(fields["key"]),
        comment=fields["comment"],
        partial_rows=fields["partial_rows"],
    )


def _type_fields(type_: ColumnType) -> dict[str, object]:
    return {_CLASS: type(type_).__name__, **asdict(type_)}


def _type(fields: Mapping[str, object]) -> ColumnType:
    given = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items() if name != _CLASS
    }
    type_: ColumnType = _TYPES[str(fields[_CLASS])](**given)
    return type_
