"""Whether two JSON Schemas demand the same, word for word, wherever their references lead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.schematizer.formats.json_values import is_same

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.schematizer.formats.json_nodes import Node

_PLAIN = (
    "never",
    "types",
    "lower",
    "upper",
    "minimum",
    "maximum",
    "step",
    "pattern",
    "format",
    "unique",
    "required",
    "contains_min",
    "contains_max",
    "needs",
)
_SINGLE = ("additional", "names", "rest", "contains", "not_", "if_", "then", "else_")
_LISTED = ("prefix", "all_of", "any_of", "one_of")
_NAMED = ("properties", "patterns", "dependent", "unevaluated")


def is_same_schema(one: Node, other: Node) -> bool:
    """Tell whether both are the same for all that can be told. Pairs that lead back to themselves are.

    What follows references by who uses it (`$dynamicRef`) is never known to be.
    """
    compared: set[tuple[int, int]] = set()
    waiting = [(one, other)]
    while waiting:
        pair = waiting.pop()
        if (id(pair[0]), id(pair[1])) in compared:
            continue
        compared.add((id(pair[0]), id(pair[1])))
        inner = None if _differs(*pair) else _inner(*pair)
        if inner is None:
            return False
        waiting += inner
    return True


def _differs(one: Node, other: Node) -> bool:
    if one.dynamic or other.dynamic or any(getattr(one, name) != getattr(other, name) for name in _PLAIN):
        return True
    if one.values is None or other.values is None:
        return one.values is not other.values
    return not is_same(list(one.values), list(other.values))


def _inner(one: Node, other: Node) -> list[tuple[Node, Node]] | None:
    """Pair the schemas in two schemas; None if one has what the other lacks."""
    pairs: list[tuple[Node, Node]] = []
    for here, there in _parts(one, other):
        if here.keys() != there.keys():
            return None
        pairs += [(here[name], there[name]) for name in here]
    return pairs


def _parts(one: Node, other: Node) -> Iterator[tuple[dict[str, Node], dict[str, Node]]]:
    for name in _NAMED:
        yield getattr(one, name), getattr(other, name)
    for name in _LISTED:
        lists = getattr(one, name), getattr(other, name)
        yield tuple({str(index): node for index, node in enumerate(each)} for each in lists)  # type: ignore[misc]
    singles = ({name: node for name in _SINGLE if (node := getattr(each, name)) is not None} for each in (one, other))
    yield tuple(singles)  # type: ignore[misc]
