"""Limits of JSON Schemas that are narrower than what was allowed: lengths, counts, bounds, patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.schematizer.formats.json_facts import (
    Facts,
    lower_limit,
    maximum_of,
    minimum_of,
    steps_of,
    types_of,
    upper_limit,
)
from penstock.schematizer.formats.json_nodes import FRACTION, NUMBERS, Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from fractions import Fraction

    from penstock.schematizer.formats.json_nodes import Bound

_SIZED = {"string": "Length", "array": "Items", "object": "Properties"}


def limit_problems(reader: Node, facts: Facts) -> Iterator[str]:
    """Name the limits of a reader that are narrower than those of what was written."""
    types = types_of(facts) & reader.types
    for atom, unit in _SIZED.items():
        if atom in types:
            yield from _size_problems(reader, facts, unit)
    if types & NUMBERS:
        yield from _bound_problem("minimum", reader.minimum, minimum_of(facts), 1)
        yield from _bound_problem("maximum", reader.maximum, maximum_of(facts), -1)
        step = reader.step
        if step is not None and not any((before / step).denominator == 1 for before in steps_of(facts)):
            yield f"multipleOf is {_written(step)}, and what was written need not be such a multiple"
    if "string" in types:
        for word in ("pattern", "format"):
            wanted = getattr(reader, word)
            if wanted is not None and all(getattr(node, word) != wanted for node in facts):
                yield f"{word} is {wanted!r:.80}, and was not: it cannot be shown that every text meets it"
    if "array" in types and reader.unique and not any(node.unique for node in facts):
        most = upper_limit(facts, "maxItems")
        if most is None or most > 1:
            yield "uniqueItems is true, and was not"


def names_of(atoms: Iterable[str]) -> list[str]:
    """Name kinds of values as schemas do."""
    kinds = set(atoms)
    if kinds & NUMBERS:
        kinds = (kinds - NUMBERS) | {"number" if FRACTION in kinds else "integer"}
    return sorted(kinds)


def _size_problems(reader: Node, facts: Facts, unit: str) -> Iterator[str]:
    least, most = reader.lower.get(f"min{unit}", 0), reader.upper.get(f"max{unit}")
    before_least, before_most = lower_limit(facts, f"min{unit}"), upper_limit(facts, f"max{unit}")
    if least > before_least:
        yield f"min{unit} is {least}, and was {before_least}"
    if most is not None and (before_most is None or before_most > most):
        yield f"max{unit} is {most}, and was {'not there' if before_most is None else before_most}"


def _bound_problem(word: str, limit: Bound | None, before: Bound | None, sign: int) -> Iterator[str]:
    if limit is not None and (before is None or before < limit):
        yield f"{word} is {_written(sign * limit[0])}, and was {'not there' if before is None else 'wider'}"


def _written(number: Fraction) -> str:
    """Write a limit as people do, with all its digits where it is larger than any float."""
    try:
        return f"{float(number):g}"
    except OverflowError:
        return str(number)
