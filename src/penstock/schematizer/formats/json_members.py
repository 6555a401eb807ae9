"""What a JSON Schema demands of the properties and items of a value, beside what is known of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from penstock.schematizer.formats.json_facts import (
    Facts,
    demands_on_property,
    facts_of,
    is_empty,
    item_of,
    lower_limit,
    names_in,
    property_of,
    required_of,
    upper_limit,
)
from penstock.schematizer.formats.json_nodes import ANYTHING, KINDS, Node
from penstock.schematizer.formats.json_sameness import is_same_schema
from penstock.schematizer.formats.json_values import takes_value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

Pair: TypeAlias = "tuple[Node, Facts]"


@dataclass(frozen=True, slots=True)
class Below:
    """One demand on what is in a value, at `path`.

    It is met in one of several `ways`: by all pairs of a way. `problem` is what
    is said where it is not; "" where the pairs' own problems are said.
    """

    path: str
    ways: Sequence[Sequence[Pair]]
    problem: str = ""


def object_demands(reader: Node, facts: Facts) -> Iterator[Below]:
    """Yield what a schema demands of objects, apart from how many properties there are."""
    present = required_of(facts)
    for name in sorted(reader.required - present):
        yield Below(f".{name}", (), "the property is required, and was not")
    for name in dict.fromkeys((*reader.properties, *names_in(facts))):
        known = property_of(facts, name)
        for demand in demands_on_property(reader, name):
            yield Below(f".{name}", [[(demand, known)]])
    for pattern, demand in reader.patterns.items():
        yield Below(f"./{pattern}/", _other_ways(demand, facts, pattern, ()))
    if reader.additional is not None:
        yield Below(".*", _other_ways(reader.additional, facts, None, reader.patterns))
    if reader.names is not None:
        yield _names_demand(reader.names, facts)
    yield from _dependent_demands(reader, facts)


def array_demands(reader: Node, facts: Facts) -> Iterator[Below]:
    """Yield what a schema demands of arrays, apart from how many items there are and whether they differ."""
    most = upper_limit(facts, "maxItems")
    placed = max(len(node.prefix) for node in (reader, *facts))
    for index in range(placed if most is None else min(placed, most)):
        demand = reader.prefix[index] if index < len(reader.prefix) else reader.rest
        if demand is not None:
            yield Below(f"[{index}]", [[(demand, item_of(facts, index))]])
    if reader.rest is not None and (most is None or most > placed):
        yield Below("[]", [[(reader.rest, item_of(facts, None))]])
    if reader.contains is not None:
        yield from _contains_demands(reader, reader.contains, facts, placed)


def _contains_demands(reader: Node, wanted: Node, facts: Facts, placed: int) -> Iterator[Below]:
    if reader.contains_min > 0:
        ways: list[list[Pair]] = [
            [(wanted, facts_of([node.contains]))]
            for node in facts
            if node.contains is not None and node.contains_min >= reader.contains_min
        ]
        if lower_limit(facts, "minItems") >= reader.contains_min:
            ways.append([(wanted, item_of(facts, index)) for index in (*range(placed), None)])
        yield Below("", ways, "it cannot be shown that there are always the items that it must contain")
    if reader.contains_max is not None:
        most = upper_limit(facts, "maxItems")
        fits = most is not None and most <= reader.contains_max
        for node in facts:
            limit, contained = node.contains_max, node.contains
            if limit is not None and limit <= reader.contains_max and contained is not None:
                fits = fits or is_same_schema(wanted, contained)
        if not fits:
            yield Below("", (), f"maxContains is {reader.contains_max}, and was wider")


def _other_ways(demand: Node, facts: Facts, pattern: str | None, excluded: Collection[str]) -> list[list[Pair]]:
    """Say in which ways `demand` is met by properties that nobody names: those of a pattern, or of none.

    Any schema with patterns alone may show it, if all that it has for such
    properties do; schemas without patterns hold for all of them.
    """
    plain = [node.additional for node in facts if not node.patterns and node.additional is not None]
    ways: list[list[Pair]] = [[(demand, facts_of(plain))]]
    for node in facts:
        if pattern in node.patterns:
            ways.append([(demand, facts_of([*plain, node.patterns[str(pattern)]]))])
        elif node.patterns:
            rest = ANYTHING if node.additional is None else node.additional
            possible = [rest, *(each for name, each in node.patterns.items() if name not in excluded)]
            ways.append([(demand, facts_of([*plain, each])) for each in possible])
    return ways


def _names_demand(wanted: Node, facts: Facts) -> Below:
    known = facts_of([KINDS["string"], *(node.names for node in facts if node.names is not None)])
    ways: list[list[Pair]] = [[(wanted, known)]]
    is_closed = any(node.additional is not None and node.additional.never and not node.patterns for node in facts)
    possible = [name for name in names_in(facts) if not is_empty(property_of(facts, name))]
    if is_closed and all(takes_value(wanted, name) for name in possible):
        ways.append([])
    return Below("", ways, "propertyNames does not take every name that was possible")


def _dependent_demands(reader: Node, facts: Facts) -> Iterator[Below]:
    present = required_of(facts)
    for name, wanted in reader.needs.items():
        known = present.union(*(node.needs.get(name, frozenset()) for node in facts))
        if not wanted <= known and not is_empty(property_of(facts, name)):
            missing = ", ".join(sorted(wanted - known))
            yield Below(f".{name}", (), f"beside it, {missing} is required, and was not")
    for name, demand in reader.dependent.items():
        if not is_empty(property_of(facts, name)):
            known_there = [node.dependent[name] for node in facts if name in node.dependent]
            yield Below("", [[(demand, facts_of([*facts, *known_there]))]])
