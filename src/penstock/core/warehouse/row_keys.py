"""What tells the rows of a table with a key apart, in the SQL of a warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.tables import TextType
from penstock.core.warehouse.dialect import Dialect, quote_name

if TYPE_CHECKING:
    from penstock.core.tables import ColumnType, TableSchema


def key_terms(dialect: Dialect, schema: TableSchema, row: str = "") -> list[str]:
    """Return the values by which rows called `row`, or rows without a name, are known by the key of `schema`.

    Two rows are one where all of them are equal.
    """
    types = {column.name.casefold(): column.type for column in schema.columns}
    terms = []
    for name in schema.key:
        terms += value_terms(dialect, types[name.casefold()], f"{row}.{quote_name(dialect, name)}".removeprefix("."))
    return terms


def value_terms(dialect: Dialect, type_: ColumnType, value: str) -> list[str]:
    """Return what is equal where `value` is: where blanks at the end of a text do not count, also its length."""
    return [value, f"LENGTH({value})"] if dialect.pads_texts and isinstance(type_, TextType) else [value]


def same_key(dialect: Dialect, schema: TableSchema, one: str, other: str) -> str:
    """Return the condition that rows called `one` and `other` have the same key."""
    pairs = zip(key_terms(dialect, schema, one), key_terms(dialect, schema, other), strict=True)
    return " AND ".join(f"{mine} = {theirs}" for mine, theirs in pairs)
