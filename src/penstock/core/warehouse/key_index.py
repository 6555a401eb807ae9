"""The index that finds the rows of a key again, where a warehouse has indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.tables import BytesType, TextType
from penstock.core.warehouse.dialect import Dialect, quote_name

if TYPE_CHECKING:
    from penstock.core.tables import ColumnType, TableSchema

_UTF8_BYTES_MAX = 4
_FIXED_BYTES_MAX = 64
"""More than any value of a fixed size, a decimal of 65 digits included."""


def plan_key_index(dialect: Dialect, path: str, schema: TableSchema) -> list[str]:
    """Return the statement that indexes the key of the table at `path`; none where the index might refuse a value.

    It is not unique: a key that the source changes may for a while be there twice.
    """
    types = {column.name.casefold(): column.type for column in schema.columns}
    size = sum(_bytes_max(types[name.casefold()]) for name in schema.key)
    if not schema.key or size > dialect.key_index_bytes_max:
        return []
    listed = ", ".join(quote_name(dialect, name) for name in schema.key)
    return [f"CREATE INDEX ON {path} ({listed})"]


def _bytes_max(type_: ColumnType) -> int:
    match type_:
        case TextType(characters_max=longest):
            return longest * _UTF8_BYTES_MAX
        case BytesType(bytes_max=longest):
            return longest
        case _:
            return _FIXED_BYTES_MAX
