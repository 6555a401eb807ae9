"""In what two schemas differ, field by field, as a person reads it."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.schematizer.registry.elements import SchemaElement

_TRAITS = ("type", "nullable", "default", "doc", "is_key")
_LINES_AROUND = 3


class Fate(StrEnum):
    """What became of a field."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field before and after, None where it was or is not; `traits` are the names of what changed about it."""

    fate: Fate
    path: str
    before: SchemaElement | None
    after: SchemaElement | None
    traits: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LineDifference:
    """A line of a text that only one of two has (`fate`), or both."""

    fate: Fate
    text: str


def compare_fields(before: Sequence[SchemaElement], after: Sequence[SchemaElement]) -> list[FieldDifference]:
    """Return every field of either schema, in the order of `after`; what is gone stands where it stood before.

    Fields are the same that have the same path; a path that there is several times counts them.
    """
    older, newer = _numbered(before), _numbered(after)
    told = [_difference(place[0], older.get(place), element) for place, element in newer.items()]
    order = list(newer)
    previous: tuple[str, int] | None = None
    for place, element in older.items():
        if place not in newer:
            at = order.index(previous) + 1 if previous is not None else 0
            order.insert(at, place)
            told.insert(at, _difference(place[0], element, None))
        previous = place
    return told


def compare_lines(before: str, after: str) -> list[LineDifference]:
    """Return the lines in which two texts differ, each with a few lines around it; none for equal texts."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=_LINES_AROUND)
    fates = {"+": Fate.ADDED, "-": Fate.REMOVED}
    told = [line for line in lines if not line.startswith(("+++", "---", "@@"))]
    return [LineDifference(fates.get(line[0], Fate.SAME), line[1:]) for line in told]


def count_fates(differences: Iterable[FieldDifference]) -> Counter[str]:
    """Return how many fields were added, removed and changed."""
    return Counter(each.fate.value for each in differences)


def _numbered(elements: Sequence[SchemaElement]) -> dict[tuple[str, int], SchemaElement]:
    seen: Counter[str] = Counter()
    numbered = {}
    for element in elements:
        numbered[element.path, seen[element.path]] = element
        seen[element.path] += 1
    return numbered


def _difference(path: str, before: SchemaElement | None, after: SchemaElement | None) -> FieldDifference:
    if before is None or after is None:
        return FieldDifference(Fate.ADDED if before is None else Fate.REMOVED, path, before, after)
    traits = frozenset(trait for trait in _TRAITS if getattr(before, trait) != getattr(after, trait))
    return FieldDifference(Fate.CHANGED if traits else Fate.SAME, path, before, after, traits)
