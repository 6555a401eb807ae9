"""JSON Schemas as nodes: the same form for every draft, with every reference followed.

Source: JSON Schema core and validation, drafts 4, 6, 7, 2019-09 and 2020-12.
Only what decides whether a value is taken is kept. A reference is one more
schema that must hold (`all_of`), so that nodes may lead back to themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from fractions import Fraction

# JSON's numbers are told apart as far as drafts do: draft 4 does not take 1.0 for an integer, later ones do.
INTEGER, WHOLE, FRACTION = "integer", "whole", "fraction"
NUMBERS = frozenset({INTEGER, WHOLE, FRACTION})
ATOMS = frozenset({"array", "boolean", "null", "object", "string"}) | NUMBERS

Json: TypeAlias = Any
Bound: TypeAlias = "tuple[Fraction, bool]"


class Draft(IntEnum):
    """A version of JSON Schema that is known here, by age."""

    DRAFT_4 = 4
    DRAFT_6 = 6
    DRAFT_7 = 7
    DRAFT_2019_09 = 2019
    DRAFT_2020_12 = 2020


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """What one schema demands of a value; what it says nothing of is left as it is here.

    `lower` and `upper` are the tightest limits, by keyword, of lengths and
    counts. A number's bounds are (limit, whether the limit itself is left out);
    `maximum` is negated, so that of either the greater is the tighter. What is
    `unevaluated` or `dynamic` depends on more than the node. `identities` are those of
    `values`, once they were asked for. One that `is_reference` says what its only
    `all_of` says. `declared` is the schema itself.
    """

    place: str
    draft: Draft
    declared: Json = True
    never: bool = False
    types: frozenset[str] = ATOMS
    values: Sequence[Json] | None = None
    identities: frozenset[Hashable] | None = None
    lower: dict[str, int] = field(default_factory=dict)
    upper: dict[str, int] = field(default_factory=dict)
    minimum: Bound | None = None
    maximum: Bound | None = None
    step: Fraction | None = None
    pattern: str | None = None
    format: str | None = None
    unique: bool = False
    required: frozenset[str] = frozenset()
    properties: dict[str, Node] = field(default_factory=dict)
    patterns: dict[str, Node] = field(default_factory=dict)
    additional: Node | None = None
    names: Node | None = None
    prefix: Sequence[Node] = ()
    rest: Node | None = None
    contains: Node | None = None
    contains_min: int = 1
    contains_max: int | None = None
    needs: dict[str, frozenset[str]] = field(default_factory=dict)
    dependent: dict[str, Node] = field(default_factory=dict)
    all_of: list[Node] = field(default_factory=list)
    any_of: list[Node] = field(default_factory=list)
    one_of: list[Node] = field(default_factory=list)
    not_: Node | None = None
    if_: Node | None = None
    then: Node | None = None
    else_: Node | None = None
    unevaluated: dict[str, Node] = field(default_factory=dict)
    dynamic: bool = False
    is_reference: bool = False

    @property
    def beside(self) -> list[Node]:
        """The schemas that the same value is held to, in one way or another."""
        single = (self.not_, self.if_, self.then, self.else_)
        inner = [node for node in single if node is not None]
        return [*self.all_of, *self.any_of, *self.one_of, *self.dependent.values(), *inner]


ANYTHING = Node("$", Draft.DRAFT_2020_12)
NOTHING = Node("$", Draft.DRAFT_2020_12, declared=False, never=True)
# One node for each kind of value, with which a comparison goes kind by kind.
KINDS: Mapping[str, Node] = {atom: Node("$", Draft.DRAFT_2020_12, types=frozenset({atom})) for atom in ATOMS}
