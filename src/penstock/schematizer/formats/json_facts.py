"""What is known of a value that several JSON Schemas take, all of them."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from penstock.schematizer.formats.json_nodes import ATOMS, FRACTION, NOTHING, NUMBERS, Bound, Json, Node
from penstock.schematizer.formats.json_values import found_in, takes_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# How far into objects and arrays it is looked for what no value can meet.
_DEPTH_MAX = 6
_SIZED = {"string": "Length", "array": "Items", "object": "Properties"}
_FINITE = {"null": (None,), "boolean": (False, True)}

Facts: TypeAlias = frozenset[Node]


def facts_of(nodes: Iterable[Node]) -> Facts:
    """Return these schemas and all that hold wherever they do."""
    found: set[Node] = set()
    waiting = list(nodes)
    while waiting:
        node = meant_by(waiting.pop())
        if node not in found:
            found.add(node)
            waiting += node.all_of
    return frozenset(found)


def meant_by(node: Node) -> Node:
    """Return what a schema that only refers to another one refers to."""
    while node.is_reference:
        (node,) = node.all_of
    return node


def types_of(facts: Facts) -> frozenset[str]:
    """Return the kinds of values that may be taken."""
    types = ATOMS
    for node in facts:
        types &= node.types
    return types


def values_of(facts: Facts) -> Sequence[Json] | None:
    """Return all values that may be taken, None if there is no end of them."""
    listed = [node.values for node in facts if node.values is not None]
    types = types_of(facts)
    if listed:
        values = min(listed, key=len)
    elif types <= _FINITE.keys():
        values = [value for atom in sorted(types) for value in _FINITE[atom]]
    else:
        return None
    return [value for value in values if not any(takes_value(node, value) is False for node in facts)]


def lower_limit(facts: Facts, keyword: str) -> int:
    """Return the least length or count."""
    least = max((node.lower.get(keyword, 0) for node in facts), default=0)
    return max(least, len(required_of(facts))) if keyword == "minProperties" else least


def upper_limit(facts: Facts, keyword: str) -> int | None:
    """Return the greatest length or count, None if there is none."""
    return min((node.upper[keyword] for node in facts if keyword in node.upper), default=None)


def minimum_of(facts: Facts) -> Bound | None:
    """Return the lower bound of numbers."""
    return max((node.minimum for node in facts if node.minimum is not None), default=None)


def maximum_of(facts: Facts) -> Bound | None:
    """Return the upper bound of numbers, negated."""
    return max((node.maximum for node in facts if node.maximum is not None), default=None)


def steps_of(facts: Facts) -> list[Fraction]:
    """Return what numbers are multiples of."""
    steps = [node.step for node in facts if node.step is not None]
    return steps if FRACTION in types_of(facts) else [*steps, Fraction(1)]


def required_of(facts: Facts) -> frozenset[str]:
    """Return the properties that are always there."""
    return frozenset[str]().union(*(node.required for node in facts))


def names_in(facts: Facts) -> list[str]:
    """Return the properties that are spoken of."""
    return list(dict.fromkeys(name for node in facts for name in (*node.properties, *sorted(node.required))))


def property_of(facts: Facts, name: str) -> Facts:
    """Return what is sure to hold for the property `name`."""
    found: list[Node] = []
    for node in facts:
        matches = {pattern: found_in(pattern, name) for pattern in node.patterns}
        found += [node.patterns[pattern] for pattern, matched in matches.items() if matched]
        if name in node.properties:
            found.append(node.properties[name])
        elif node.additional is not None and not any(matched is not False for matched in matches.values()):
            found.append(node.additional)
        if node.names is not None and takes_value(node.names, name) is False:
            found.append(NOTHING)
    return facts_of(found)


def demands_on_property(node: Node, name: str) -> list[Node]:
    """Return what may hold for the property `name`: where a pattern cannot be tried, both what it says and what not."""
    matches = {pattern: found_in(pattern, name) for pattern in node.patterns}
    found = [node.patterns[pattern] for pattern, matched in matches.items() if matched is not False]
    if name in node.properties:
        found.append(node.properties[name])
    elif node.additional is not None and True not in matches.values():
        found.append(node.additional)
    return found


def item_of(facts: Facts, index: int | None) -> Facts:
    """Return what holds for the item at `index`, of those behind all that have places of their own for None."""
    found = [_item(node, index) for node in facts]
    return facts_of(node for node in found if node is not None)


def is_empty(facts: Facts, depth: int = 0) -> bool:
    """Tell whether it is sure that there is no such value."""
    if any(node.never for node in facts):
        return True
    values = values_of(facts)
    if values is not None:
        return not values
    types = types_of(facts)
    if types <= NUMBERS:
        low, high = minimum_of(facts), maximum_of(facts)
        return low is not None and high is not None and _crosses(low, high)
    return len(types) == 1 and depth < _DEPTH_MAX and _is_empty_inside(facts, depth)


def _is_empty_inside(facts: Facts, depth: int) -> bool:
    (atom,) = types_of(facts)
    most = upper_limit(facts, f"max{_SIZED[atom]}")
    least = lower_limit(facts, f"min{_SIZED[atom]}")
    if most is not None and most < least:
        return True
    if atom == "object":
        return any(is_empty(property_of(facts, name), depth + 1) for name in required_of(facts))
    return atom == "array" and least > 0 and is_empty(item_of(facts, 0), depth + 1)


def _crosses(low: Bound, high: Bound) -> bool:
    return low[0] > -high[0] or (low[0] == -high[0] and (low[1] or high[1]))


def _item(node: Node, index: int | None) -> Node | None:
    return node.prefix[index] if index is not None and index < len(node.prefix) else node.rest
