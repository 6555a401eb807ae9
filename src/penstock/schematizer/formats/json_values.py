"""Whether a JSON Schema takes one value, which may be unknown; patterns, without running dangerous ones."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.schematizer.formats.json_nodes import FRACTION, INTEGER, NUMBERS, WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from penstock.schematizer.formats.json_nodes import Json, Node

# With more repetitions, or in longer texts, a search may take for ever.
_REPETITIONS_MAX = 2
_SEARCHED_CHARACTERS_MAX = 200
_REPETITION = re.compile(r"[*+{]")
_DANGEROUS = re.compile(r"\\[1-9]|\(\?P=|[)][*+{]")
# What ECMA 262, whose patterns these are, has and Python has not, or reads in another way.
_OTHERS = re.compile(r"\\[pPuckxZA]|\(\?|\[\[|--|&&|~~|\|\|")
_SIZES = {"string": "Length", "array": "Items", "object": "Properties"}


def atom_of(value: Json) -> str:
    """Return which kind of value it is."""
    if isinstance(value, float):
        return WHOLE if value.is_integer() else FRACTION
    names = {type(None): "null", bool: "boolean", int: INTEGER, str: "string", list: "array", dict: "object"}
    return names[type(value)]


def identity_of(value: Json) -> Hashable:
    """What equal values have in common, and others have not: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, dict):
        return dict, frozenset((name, identity_of(each)) for name, each in value.items())
    if isinstance(value, list):
        return list, tuple(map(identity_of, value))
    return isinstance(value, bool), value


def is_same(one: Json, other: Json) -> bool:
    """Tell whether two values are equal."""
    return identity_of(one) == identity_of(other)


def found_in(pattern: str, text: str) -> bool | None:
    """Tell whether a pattern is found in a text; None where it is not worth the time, or not ours to read."""
    compiled = _compiled(pattern)
    # Of other characters, and at the end of a line, "\\d" and "$" mean different things to different readers.
    if compiled is None or len(text) > _SEARCHED_CHARACTERS_MAX or not (text.isascii() and text.isprintable()):
        return None
    return compiled.search(text) is not None


def takes_value(node: Node, value: Json) -> bool | None:
    """Tell whether a schema takes `value`; None where that is not known."""
    if node.dynamic or node.unevaluated:
        return None
    return _all(_answers(node, value))


def _answers(node: Node, value: Json) -> Iterator[bool | None]:
    atom = atom_of(value)
    yield not node.never and atom in node.types
    if node.values is not None:
        if node.identities is None:
            node.identities = frozenset(map(identity_of, node.values))
        yield identity_of(value) in node.identities
    if atom in _SIZES:
        size = len(value)
        yield node.lower.get(f"min{_SIZES[atom]}", 0) <= size <= node.upper.get(f"max{_SIZES[atom]}", size)
    yield from _ANSWERS.get(atom, _no_answers)(node, value)
    yield from (takes_value(each, value) for each in node.all_of)
    if node.any_of:
        yield _count(node.any_of, value, 1, None)
    if node.one_of:
        yield _count(node.one_of, value, 1, 1)
    if node.not_ is not None:
        yield _opposite(takes_value(node.not_, value))
    if node.if_ is not None:
        yield _conditional(node, value)


def _no_answers(_: Node, __: Json) -> Iterator[bool | None]:
    yield from ()


def _number_answers(node: Node, number: float) -> Iterator[bool | None]:
    yield _is_within(node, Fraction(number))
    yield _is_multiple(node.step, number)


def _text_answers(node: Node, text: str) -> Iterator[bool | None]:
    yield None if node.format is not None else True
    yield True if node.pattern is None else found_in(node.pattern, text)


def _is_within(node: Node, number: Fraction) -> bool:
    for bound, sign in ((node.minimum, 1), (node.maximum, -1)):
        if bound is not None and (sign * number < bound[0] or (bound[1] and sign * number == bound[0])):
            return False
    return True


def _is_multiple(step: Fraction | None, value: float) -> bool | None:
    """Tell whether a number is a multiple of `step`; of fractions, programs that reckon in binary know no better."""
    if step is None:
        return True
    exact = step.denominator == 1 and isinstance(value, int)
    return (Fraction(value) / step).denominator == 1 if exact else None


def _array_answers(node: Node, items: list[Json]) -> Iterator[bool | None]:
    for index, item in enumerate(items):
        schema = node.prefix[index] if index < len(node.prefix) else node.rest
        yield True if schema is None else takes_value(schema, item)
    if node.unique:
        yield len(set(map(identity_of, items))) == len(items)
    if node.contains is not None:
        taken = [takes_value(node.contains, item) for item in items]
        yield _between(taken, node.contains_min, node.contains_max)


def _object_answers(node: Node, members: dict[str, Json]) -> Iterator[bool | None]:
    yield node.required <= members.keys()
    for name, value in members.items():
        if node.names is not None:
            yield takes_value(node.names, name)
        matches = {pattern: found_in(pattern, name) for pattern in node.patterns}
        if name in node.properties:
            yield takes_value(node.properties[name], value)
        for pattern, found in matches.items():
            taken = takes_value(node.patterns[pattern], value)
            yield taken if found or taken else _opposite(found)
        if node.additional is not None and name not in node.properties and not any(matches.values()):
            taken = takes_value(node.additional, value)
            yield None if None in matches.values() and not taken else taken
        yield node.needs.get(name, frozenset()) <= members.keys()
        if name in node.dependent:
            yield takes_value(node.dependent[name], members)


_ANSWERS: dict[str, Callable[[Node, Json], Iterator[bool | None]]] = {
    **dict.fromkeys(NUMBERS, _number_answers),
    "string": _text_answers,
    "array": _array_answers,
    "object": _object_answers,
}


def _conditional(node: Node, value: Json) -> bool | None:
    then = True if node.then is None else takes_value(node.then, value)
    otherwise = True if node.else_ is None else takes_value(node.else_, value)
    condition = takes_value(node.if_, value) if node.if_ is not None else True
    if condition is None:
        return then if then == otherwise else None
    return then if condition else otherwise


def _count(nodes: Iterable[Node], value: Json, least: int, most: int | None) -> bool | None:
    return _between([takes_value(each, value) for each in nodes], least, most)


def _between(taken: list[bool | None], least: int, most: int | None) -> bool | None:
    sure, possible = taken.count(True), len(taken) - taken.count(False)
    if possible < least or (most is not None and sure > most):
        return False
    return True if sure >= least and (most is None or possible <= most) else None


def _all(answers: Iterable[bool | None]) -> bool | None:
    known: bool | None = True
    for answer in answers:
        if answer is False:
            return False
        known = known and answer
    return known


def _opposite(answer: bool | None) -> bool | None:  # noqa: FBT001 - the one value that it turns round
    return None if answer is None else not answer


@lru_cache(1024)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    if len(_REPETITION.findall(pattern)) > _REPETITIONS_MAX or _DANGEROUS.search(pattern) or _OTHERS.search(pattern):
        return None
    try:
        return re.compile(pattern)
    except re.error:
        return None
