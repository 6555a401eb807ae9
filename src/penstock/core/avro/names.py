"""Avro names for the names a database allows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.core.tables import TableId

_INVALID = re.compile(r"^[0-9]|[^0-9A-Za-z_]")
_LOOKS_ESCAPED = re.compile(r"_(?=x[0-9a-f]+(?:_|[^0-9A-Za-z_]))")


def avro_name(name: str) -> str:
    """Return `name` as an Avro name; different names stay different.

    A character that Avro's names do not allow (specification, "Names") becomes
    `_x<its code point in hex>_`: `a b` is written `a_x20_b`. An underscore that
    could be mistaken for the start of such a mark is written `_x5f_`, so that the
    original could be read back from the result alone.
    """
    return _INVALID.sub(_escape, _LOOKS_ESCAPED.sub("_x5f_", name))


def avro_namespace(table: TableId) -> str:
    """Return the namespace that all records of one table share."""
    return f"penstock.{avro_name(table.schema)}.{avro_name(table.name)}"


def _escape(found: re.Match[str]) -> str:
    return f"_x{ord(found[0]):x}_"
