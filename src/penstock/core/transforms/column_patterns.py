"""Which columns a link drops, masks or hashes: `shop.customers.email`, `*.*.phone*`, `email`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.core.patterns import has_wildcards, wildcards
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.core.tables import TableSchema

_EXCLUDED: Final = "!"
_SHADOW: Final = re.compile(r"_+(?P<name>.+?)_(?:gho|ghc|new|old|(?:\d{14}_)?del)")
"""How gh-ost and pt-online-schema-change call the copy of a table that they swap in, and what they swap out."""
_COPY: Final = re.compile(r"_+(?P<name>.+?)_(?:gho|new)")


@dataclass(frozen=True, slots=True)
class ColumnPatterns:
    """Patterns `schema.table.column`, or `column` for that of any table; `*` for any characters and `?` for one.

    A column matches if one of the patterns matches it and none that begins with
    `!` does; their order does not matter. Upper and lower case do not count: of
    two columns that differ in nothing else, neither must slip through. A pattern
    for `shop.customers` is one for its shadows, such as `shop._customers_gho`, too.
    """

    patterns: tuple[str, ...]
    _wanted: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _unwanted: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the patterns; ValueError for one that is not well-formed."""
        for pattern in self.patterns:
            _check(pattern)
        wanted = [pattern for pattern in self.patterns if not pattern.startswith(_EXCLUDED)]
        unwanted = [pattern.removeprefix(_EXCLUDED) for pattern in self.patterns if pattern.startswith(_EXCLUDED)]
        object.__setattr__(self, "_wanted", _compile(wanted))
        object.__setattr__(self, "_unwanted", _compile(unwanted))

    def matches(self, table: TableId, column: str) -> bool:
        """Whether the column of the table is meant."""
        if self.leave_out(table, column):
            return False
        return any(self._wanted.fullmatch(f"{each.dotted}.{column}") for each in _with_original(table))

    def leave_out(self, table: TableId, column: str) -> bool:
        """Whether a pattern with `!` names the column of the table."""
        return any(self._unwanted.fullmatch(f"{each.dotted}.{column}") for each in _with_original(table))

    def exact(self, table: TableId) -> Iterator[tuple[str, str]]:
        """Yield the patterns that name one column of `table`, without wildcards, each with the column."""
        begin = f"{table.dotted}.".casefold()
        for pattern in self.patterns:
            if not has_wildcards(pattern) and pattern.casefold().startswith(begin):
                yield pattern, pattern[len(begin) :]

    def unmatched(self, tables: Sequence[TableSchema]) -> Iterator[str]:
        """Yield the patterns without wildcards that match no column of `tables`, but for those with `!`."""
        for pattern in self.patterns:
            if pattern.startswith(_EXCLUDED) or has_wildcards(pattern):
                continue
            alone = ColumnPatterns((pattern,))
            if not any(alone.matches(each.table, column.name) for each in tables for column in each.columns):
                yield pattern


def copied_table(table: TableId) -> TableId | None:
    """Return the table in whose place gh-ost or pt-online-schema-change will put `table`, going by its name."""
    copy = _COPY.fullmatch(table.name)
    return None if copy is None else TableId(table.schema, copy["name"])


def _with_original(table: TableId) -> list[TableId]:
    shadow = _SHADOW.fullmatch(table.name)
    return [table] if shadow is None else [table, TableId(table.schema, shadow["name"])]


def _check(pattern: str) -> None:
    parts = pattern.removeprefix(_EXCLUDED).split(".")
    if len(parts) == 2 or not all(parts):  # noqa: PLR2004 - neither schema.table.column nor column
        example = "for example shop.customers.email or *.*.email, or a column alone"
        text = f'"{pattern}" is not a column pattern: write schema.table.column, {example}'
        raise ValueError(text)


def _compile(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(_expression(pattern) for pattern in patterns) or r"(?!)", re.DOTALL | re.IGNORECASE)


def _expression(pattern: str) -> str:
    """The schema ends at the first dot. Tables and columns may have dots, so a `*` in theirs matches dots too."""
    schema, dot, rest = pattern.partition(".")
    if not dot:
        return rf"[^.]*\..*\.{wildcards(schema, '.')}"
    return rf"{wildcards(schema, '[^.]')}\.{wildcards(rest, '.')}"
