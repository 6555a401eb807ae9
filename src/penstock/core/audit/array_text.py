"""Arrays in PostgreSQL's SQL, as the JSON text in which they are carried: see core/postgres/array_text.

Source: PostgreSQL 18 documentation, section 9.16.1, "Processing and Creating JSON Data": `array_to_json` keeps
numbers, booleans and JSON, writes times as ISO 8601 has them and rows as objects, and quotes the text of all else.
"""

from __future__ import annotations

from typing import Final

_ARRAY: Final = "[]"
"""How the declaration of an array ends; it has no modifier."""

_AS_CARRIED: Final = frozenset(
    {
        *("int2", "int4", "int8", "numeric", "float4", "float8", "bool", "json", "jsonb"),
        *("text", "varchar", "bpchar", "bytea", "uuid", "time", "timetz", "interval", "money", "xml", "tsvector"),
        *("inet", "cidr", "macaddr", "macaddr8", "bit", "varbit"),
        *("point", "line", "lseg", "box", "path", "polygon", "circle"),
        *("int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange"),
    }
)
_OTHERWISE: Final = frozenset({"date", "timestamp", "timestamptz"})
"""Their own texts are carried, which a cast gives; a cast of others may cut blanks, or show an address otherwise."""


def is_array(declaration: str) -> bool:
    """Whether a column declared so has arrays of PostgreSQL."""
    return declaration.endswith(_ARRAY)


def array_in_sql(declaration: str) -> str | None:
    """Return the SQL, with `{0}` for the column; None for what is no array, and where it may have types of users."""
    if not is_array(declaration):
        return None
    element = declaration.removesuffix(_ARRAY)
    if element in _AS_CARRIED:
        return "array_to_json({0})"
    return "array_to_json(CAST({0} AS TEXT[]))" if element in _OTHERWISE else None
