"""Which tables a source or a link means: `shop.*`, without `!shop.audit_*`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.snapshot_copies import is_copy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.core.tables import TableId

_EXCLUDED = "!"
_WILDCARDS = frozenset("*?")
_ANSWERS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class TablePatterns:
    """Patterns `schema.table`, with `*` for any characters and `?` for one, case-sensitive.

    A table matches if one of the patterns matches it and none that begins with
    `!` does; their order does not matter. The schema ends at the first dot; one with
    a dot in its name can be written with %2E in its place, as we print it.
    `system_schemas` never match (core/system_schemas.py), nor do tables that a snapshot makes. Pickles.
    """

    patterns: tuple[str, ...]
    system_schemas: frozenset[str] = frozenset()
    _wanted: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _unwanted: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _answers: dict[TableId, bool] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Compile the patterns; ValueError for one that is not well-formed, or if none includes anything."""
        for pattern in self.patterns:
            _check(pattern)
        wanted = [pattern for pattern in self.patterns if not pattern.startswith(_EXCLUDED)]
        if not wanted:
            text = 'nothing is wanted: name at least one pattern without "!"'
            raise ValueError(text)
        unwanted = [pattern.removeprefix(_EXCLUDED) for pattern in self.patterns if pattern.startswith(_EXCLUDED)]
        object.__setattr__(self, "_wanted", _compile(wanted))
        object.__setattr__(self, "_unwanted", _compile(unwanted))

    @classmethod
    def parse(cls, patterns: Sequence[str], system_schemas: frozenset[str] = frozenset()) -> TablePatterns:
        """Compile `patterns`; ValueError says which one is not well-formed, and why."""
        return cls(tuple(patterns), system_schemas)

    def matches(self, table: TableId) -> bool:
        """Whether `table` is wanted. It is asked for every transaction, so answers are kept."""
        answer = self._answers.get(table)
        if answer is None:
            if len(self._answers) >= _ANSWERS_MAX:
                self._answers.clear()
            answer = self._answers[table] = self._match(table)
        return answer

    def _match(self, table: TableId) -> bool:
        if table.schema in self.system_schemas or is_copy(table):
            return False
        names = {table.dotted, str(table)}
        return any(map(self._wanted.fullmatch, names)) and not any(map(self._unwanted.fullmatch, names))

    def __str__(self) -> str:
        """The patterns as users write them."""
        return ", ".join(self.patterns)


def _check(pattern: str) -> None:
    body = pattern.removeprefix(_EXCLUDED)
    schema, dot, name = body.partition(".")
    if not dot or not schema or not name:
        text = f'"{pattern}" is not a table pattern: write schema.table, for example shop.* or !shop.audit_log'
        raise ValueError(text)
    if any(character.isspace() or character in "`\"'!" for character in body):
        text = f'"{pattern}" is not a table pattern: leave out spaces, quotes and any further "!"'
        raise ValueError(text)


def _compile(patterns: Iterable[str]) -> re.Pattern[str]:
    """One expression for all of `patterns`; with none of them it matches nothing."""
    return re.compile("|".join(_expression(pattern) for pattern in patterns) or r"(?!)", re.DOTALL)


def _expression(pattern: str) -> str:
    """`*` in the schema's part stops at the dot, so that `shop*.x` does not reach into a table's name."""
    schema, _, name = pattern.partition(".")
    return f"{wildcards(schema, '[^.]')}[.]{wildcards(name, '.')}"


def has_wildcards(pattern: str) -> bool:
    """Whether `pattern` may mean several names."""
    return not _WILDCARDS.isdisjoint(pattern)


def wildcards(text: str, any_character: str) -> str:
    """Return the expression of a pattern in which `*` and `?` stand for some, and for one, of `any_character`."""
    return "".join({"*": f"{any_character}*", "?": any_character}.get(char, re.escape(char)) for char in text)
