"""Why a topic was opened, in the words of tables: what became of which column."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOLD = re.compile(r"version \d+: (new reads old|old reads new): (?:([^:\s]+): )?(.+)", re.DOTALL)
_TYPES = re.compile(r"(.+) (?:is not readable as|does not mean the same as) (.+?)(?:: not every value .*)?")
_ENVELOPE = ("before.", "after.")
_SQL = {
    "int": "int",
    "long": "bigint",
    "float": "real",
    "double": "double",
    "string": "text",
    "bytes": "bytes",
    "bytes/decimal": "decimal",
    "int/date": "date",
    "long/timestamp-micros": "timestamp",
    "long/time-micros": "time",
}


def plain_reasons(told: Sequence[str]) -> list[str]:
    """Say each reason once, whatever versions and sides of a message it holds for; what is no such reason, as it is."""
    return list(dict.fromkeys(_plain(each) for each in told))


def _plain(told: str) -> str:
    found = _TOLD.fullmatch(told)
    if found is None:
        return told
    direction, path, reason = found[1], found[2] or "", found[3]
    column = next((path.removeprefix(each) for each in _ENVELOPE if path.startswith(each)), path)
    name = f"`{column}`" if column else "the schema"
    is_new = direction == "new reads old"
    types = _TYPES.fullmatch(reason)
    if types is not None:
        # What was written is named first: by the old schema where the new one reads.
        old, new = (types[1], types[2]) if is_new else (types[2], types[1])
        return f"{name} changed from {_type(old)} to {_type(new)}"
    if reason.startswith("the writer lacks the field"):
        return f"{name} is new, and has no default" if is_new else f"{name} is gone, and had no default"
    symbols = reason.removeprefix("the reader does not know the symbols ")
    if symbols != reason:
        return f"{name} {'no longer has' if is_new else 'got'} the values {symbols}"
    return f"{name}: {reason}"


def _type(name: str) -> str:
    """Name an Avro type as a table's type, and a union with null as one that may be NULL."""
    branches = name.removeprefix("union of ").split(" and ") if name.startswith("union of ") else [name]
    plain = [_sql(branch) for branch in branches if branch != "null"]
    return " or ".join(plain) + (" or NULL" if "null" in branches else "")


def _sql(name: str) -> str:
    base, bracket, rest = name.partition("(")
    return _SQL.get(base, base) + bracket + rest
