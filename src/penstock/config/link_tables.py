"""What a link's `schema` makes of names: those of the source's tables, and those that the target has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.core.patterns import has_wildcards, wildcards

if TYPE_CHECKING:
    from collections.abc import Sequence


def one_schema(*lists: Sequence[str]) -> str | None:
    """Return the one schema that all tables are of which every one of `lists` of table patterns means, or None.

    One of the lists must name it, without wildcards and no other.
    """
    for patterns in lists:
        named = {pattern.partition(".")[0] for pattern in patterns if not pattern.startswith("!")}
        if len(named) == 1 and not has_wildcards("".join(named)):
            return named.pop()
    return None


def target_patterns(patterns: Sequence[str], origin: str, schema: str) -> list[str]:
    """Return `patterns` of tables, or of columns, of the schema `origin` as those of `schema`; without those of others.

    A column's pattern that is a column alone means what it meant. Upper and lower case of a schema do not count: a
    rule that hides a column must not be lost over them.
    """
    found = []
    for pattern in patterns:
        sign = "!" if pattern.startswith("!") else ""
        where, dot, rest = pattern.removeprefix("!").partition(".")
        if not dot:
            found.append(pattern)
        elif re.fullmatch(wildcards(where.casefold(), "."), origin.casefold(), re.DOTALL):
            found.append(f"{sign}{schema}.{rest}")
    return found
