"""Patterns of a link's `columns` that no table of a source can match: what they are to hide would come as it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.core.patterns import has_wildcards, wildcards

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_EXCLUDED = "!"
_NAMES_MIN = 3
"""Schema, table and column."""


def find_loose_columns(columns: Mapping[str, object], tables: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the key and the pattern for each one of `columns`, as the file has them, that names no possible table.

    A table is possible if one of `tables` matches it, upper and lower case aside. What these leave out (`!`) is no
    mistake: nothing of it is carried. A column alone is one of any table, and what begins with `!` hides nothing.
    """
    wanted = [table.casefold().partition(".") for table in tables if not table.startswith(_EXCLUDED)]
    for key, pattern in _patterns(columns):
        names = pattern.casefold().split(".")
        if pattern.startswith(_EXCLUDED) or len(names) < _NAMES_MIN or not all(names):
            continue
        if not any(_may_be(names, schema, table) for schema, _, table in wanted):
            yield key, pattern


def _may_be(names: Sequence[str], schema: str, table: str) -> bool:
    """Whether the pattern of these names may be of a table that `schema` and `table` match: names may have dots."""
    named = [".".join(names[1:end]) for end in range(2, len(names))]
    return _may_meet(schema, names[0]) and any(_may_meet(table, each) for each in named)


def _may_meet(one: str, other: str) -> bool:
    """Whether something may match both patterns; of two with wildcards nobody looks."""
    return _matches(one, other) or _matches(other, one) or (has_wildcards(one) and has_wildcards(other))


def _matches(pattern: str, name: str) -> bool:
    return re.fullmatch(wildcards(pattern, "."), name, re.DOTALL) is not None


def _patterns(columns: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key in ("drop", "hash", "mask"):
        for given in _list(columns.get(key)):
            for pattern in _list(given.get("columns") if isinstance(given, dict) else given):
                if isinstance(pattern, str):
                    yield key, pattern


def _list(given: object) -> Sequence[object]:
    return given if isinstance(given, list) else [given]
