"""Patterns of a link's `columns` that no table of its source can match: what they are to hide would come as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.pattern_overlap import find_common_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_WILDCARDS = frozenset("*?")
_NAMES_MIN = 3
"""Schema, table and column."""


def find_loose_columns(columns: Mapping[str, object], tables: Sequence[Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Yield the key and the pattern for each one of `columns`, as the file has them, that names no possible table.

    A table is possible if all the lists of patterns in `tables` match it, upper and lower case aside. A column alone
    is one of any table, and what begins with `!` hides nothing.
    """
    for key, pattern in _patterns(columns):
        named = list(_tables(pattern))
        if named and not any(find_common_table(*tables, [table]) for table in named):
            yield key, pattern


def _patterns(columns: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key in ("drop", "hash", "mask"):
        for given in _list(columns.get(key)):
            for pattern in _list(given.get("columns") if isinstance(given, dict) else given):
                if isinstance(pattern, str):
                    yield key, pattern


def _tables(pattern: str) -> Iterator[str]:
    """The tables that a pattern may be of: names of tables and columns may have dots, and a `*` stands for some."""
    names = pattern.split(".")
    if pattern.startswith("!") or len(names) < _NAMES_MIN or not all(names):
        return
    if any(_WILDCARDS & set(name) for name in names[1:]):
        yield f"{names[0]}.*"
        return
    for end in range(2, len(names)):
        yield ".".join(names[:end])


def _list(given: object) -> Sequence[object]:
    return given if isinstance(given, list) else [given]
