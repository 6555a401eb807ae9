"""Which values of a table a warehouse will refuse, because it holds shorter ones only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.charset_sizes import utf8_bytes_max
from penstock.core.tables import BytesType, GeometryType, PrintedType, TextType

if TYPE_CHECKING:
    from penstock.core.tables import ColumnType, TableSchema
    from penstock.core.warehouse.dialect import Dialect

_NO_LENGTH = 1 << 62


def describe_limits(dialect: Dialect, schema: TableSchema) -> list[str]:
    """Say of each column whose values may be too long for the warehouse how long they may be."""
    said = []
    for column in schema.columns:
        longest, limit, unit = value_lengths(dialect, column.type)
        if 0 < limit < longest:
            said.append(f"{column.name}: {dialect.name} refuses values of more than {limit} {unit}")
    return said


def value_lengths(dialect: Dialect, type_: ColumnType) -> tuple[int, int, str]:
    """Return how long a value may be in the source (at most), how long in the warehouse, and in what."""
    unit = "bytes of UTF-8" if dialect.text_length_is_bytes else "characters"
    match type_:
        case TextType(characters_max, charset):
            factor = utf8_bytes_max(charset) if dialect.text_length_is_bytes else 1
            return characters_max * factor, dialect.text_length_max, unit
        case PrintedType("json") if dialect.json_bytes_max:
            return _NO_LENGTH, dialect.json_bytes_max, "bytes of UTF-8"
        case PrintedType("json" | "postgres"):
            return _NO_LENGTH, dialect.text_length_max, unit
        case BytesType(bytes_max):
            return bytes_max, dialect.binary_length_max, "bytes"
        case GeometryType():
            return _NO_LENGTH, dialect.binary_length_max, "bytes"
        case _:
            return 0, 0, unit
