"""Puts JSON Schemas into nodes, draft by draft, and follows their references.

Source: JSON Schema core and validation, drafts 4, 6, 7, 2019-09 and 2020-12:
which keywords each knows, and what becomes of those beside "$ref".
"""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from referencing.exceptions import Unresolvable

from penstock.schematizer.formats.json_nodes import (
    ANYTHING,
    ATOMS,
    FRACTION,
    INTEGER,
    NOTHING,
    NUMBERS,
    Bound,
    Draft,
    Json,
    Node,
)
from penstock.schematizer.formats.json_values import is_same

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from referencing import Specification
    from referencing._core import Resolver
    from referencing.jsonschema import Schema

    SchemaResolver: TypeAlias = Resolver[Schema]

_LOWER = ("minLength", "minItems", "minProperties")
_UPPER = ("maxLength", "maxItems", "maxProperties")
_LISTS = {"allOf": "all_of", "anyOf": "any_of", "oneOf": "one_of"}
# The draft in which each keyword came; those that draft 4 had are not listed.
_SINCE = {
    "const": Draft.DRAFT_6,
    "contains": Draft.DRAFT_6,
    "propertyNames": Draft.DRAFT_6,
    "if": Draft.DRAFT_7,
    "minContains": Draft.DRAFT_2019_09,
    "dependentRequired": Draft.DRAFT_2019_09,
    "unevaluatedProperties": Draft.DRAFT_2019_09,
    "unevaluatedItems": Draft.DRAFT_2019_09,
    "$recursiveRef": Draft.DRAFT_2019_09,
    "$dynamicRef": Draft.DRAFT_2020_12,
    "prefixItems": Draft.DRAFT_2020_12,
}
# A pattern with these is ECMA's own: Python cannot tell whether it is one.
_NOT_PYTHON = re.compile(r"\\[pPuckx]|\(\?<|\[\[|--|&&|~~|\|\|")


class Builder:
    """Builds the nodes of one schema and of what it uses.

    `drafts` tells those of objects, by identity. `check` raises ValueError for
    what is no schema of a draft; it is called where no schema is to be expected.
    """

    def __init__(
        self,
        specifications: Mapping[Draft, Specification[Schema]],
        drafts: Mapping[int, Draft],
        check: Callable[[Json, Draft], None],
    ) -> None:
        """Begin with nothing built."""
        self._specifications = specifications
        self._drafts = drafts
        self._check = check
        self._built: dict[int, Node] = {}
        self._checked: set[int] = set()

    def trust(self, declared: Json, draft: Draft) -> None:
        """Take a schema for checked, with all that are in it."""
        self._checked.add(id(declared))
        for each in self._specifications[draft].subresources_of(declared):
            self.trust(each, draft)

    def build(self, declared: Json, draft: Draft, resolver: SchemaResolver) -> Node:
        """Build a whole schema. Raises ValueError for references that lead nowhere or, at once, to themselves."""
        root = _Place(self, draft, resolver, "$").node(declared)
        _check_progress(self._built.values())
        return root

    def open(self, declared: Json, place: str, draft: Draft) -> tuple[Node, bool]:
        """Return the node for `declared`, and whether it was begun just now. Booleans have theirs."""
        if isinstance(declared, bool):
            return ANYTHING if declared else NOTHING, False
        if not isinstance(declared, dict):
            message = f"at {place}: {json.dumps(declared)[:80]} is no schema"
            raise ValueError(message)  # noqa: TRY004 - one error for every fault of a schema
        known = self._built.get(id(declared))
        if known is not None:
            return known, False
        if id(declared) not in self._checked:
            self._check(declared, draft)
            self.trust(declared, draft)
        node = self._built[id(declared)] = Node(place, draft, declared)
        return node, True

    def draft_of(self, declared: Json, otherwise: Draft) -> Draft:
        """Return the draft of an object."""
        return self._drafts.get(id(declared), otherwise)

    def enter(self, declared: Json, draft: Draft, resolver: SchemaResolver) -> SchemaResolver:
        """Return what references inside of `declared` are resolved by."""
        return resolver.in_subresource(self._specifications[draft].create_resource(declared))


class _Place:
    """A place in a schema: what is below it is built from here."""

    def __init__(self, builder: Builder, draft: Draft, resolver: SchemaResolver, path: str) -> None:
        self._builder = builder
        self._draft = draft
        self._resolver = resolver
        self._path = path

    def node(self, declared: Json, step: str = "") -> Node:
        """Return the node of a schema at or below this place."""
        path = f"{self._path}{step}"
        node, is_new = self._builder.open(declared, path, self._draft)
        if is_new:
            resolver = self._resolver
            if step:
                resolver = self._builder.enter(declared, self._draft, resolver)
            _Place(self._builder, self._draft, resolver, path).fill(node)
        return node

    def fill(self, node: Node) -> None:
        """Read all keywords of a node."""
        declared = node.declared
        if "$ref" in declared:
            node.all_of.append(self._target(declared["$ref"]))
            node.is_reference = self._draft < Draft.DRAFT_2019_09 or len(declared) == 1
            if node.is_reference:
                return
        self._fill_values(node)
        self._fill_numbers(node)
        self._fill_object(node)
        self._fill_array(node)
        self._fill_combinations(node)
        self._fill_dynamic(node)

    def _has(self, declared: Json, keyword: str) -> bool:
        return keyword in declared and self._draft >= _SINCE.get(keyword, Draft.DRAFT_4)

    def _nodes(self, declared: Json, keyword: str) -> dict[str, Node]:
        members = declared.get(keyword, {})
        return {name: self.node(each, f".{keyword}.{name}") for name, each in members.items()}

    def _one(self, declared: Json, keyword: str) -> Node | None:
        return self.node(declared[keyword], f".{keyword}") if keyword in declared else None

    def _target(self, reference: Json) -> Node:
        try:
            # Not every draft's own schema sees to it.
            if not isinstance(reference, str):
                raise TypeError(reference)  # noqa: TRY301 - one way out for all that leads nowhere
            found = self._resolver.lookup(reference)
        except (Unresolvable, ValueError, LookupError, TypeError) as error:
            message = f'at {self._path}: there is nothing that "$ref": {json.dumps(reference)[:80]} leads to'
            raise ValueError(message) from error
        draft = self._builder.draft_of(found.contents, self._draft)
        return _Place(self._builder, draft, found.resolver, f"{reference}").node(found.contents)

    def _fill_values(self, node: Node) -> None:
        declared = node.declared
        types = declared.get("type")
        if types is not None:
            names = [types] if isinstance(types, str) else types
            node.types = frozenset[str]().union(*(self._atoms(name) for name in names))
        if "enum" in declared:
            node.values = declared["enum"]
        if self._has(declared, "const"):
            const = declared["const"]
            node.values = [const] if node.values is None or any(is_same(const, each) for each in node.values) else []
        node.pattern = declared.get("pattern")
        node.format = declared.get("format")
        if node.pattern is not None:
            _check_pattern(node.pattern, self._path)

    def _atoms(self, name: str) -> frozenset[str]:
        if name == "number":
            return NUMBERS
        if name == "integer":
            return frozenset({INTEGER}) if self._draft == Draft.DRAFT_4 else NUMBERS - {FRACTION}
        return ATOMS & {name}

    def _fill_numbers(self, node: Node) -> None:
        declared = node.declared
        node.lower = {keyword: int(declared[keyword]) for keyword in _LOWER if keyword in declared}
        node.upper = {keyword: int(declared[keyword]) for keyword in _UPPER if keyword in declared}
        node.minimum = self._bound(declared, "minimum", 1)
        node.maximum = self._bound(declared, "maximum", -1)
        node.step = Fraction(str(declared["multipleOf"])) if "multipleOf" in declared else None

    def _bound(self, declared: Json, word: str, sign: int) -> Bound | None:
        exclusive = declared.get(f"exclusive{word.capitalize()}")
        bounds = []
        if word in declared:
            # In draft 4, the exclusive one says whether the other is.
            bounds.append((sign * Fraction(declared[word]), exclusive is True))
        if exclusive is not None and not isinstance(exclusive, bool):
            bounds.append((sign * Fraction(exclusive), True))
        return max(bounds, default=None)

    def _fill_object(self, node: Node) -> None:
        declared = node.declared
        node.required = frozenset(declared.get("required", ()))
        node.properties = self._nodes(declared, "properties")
        node.patterns = self._nodes(declared, "patternProperties")
        for pattern in node.patterns:
            _check_pattern(pattern, self._path)
        node.additional = self._one(declared, "additionalProperties")
        if self._has(declared, "propertyNames"):
            node.names = self._one(declared, "propertyNames")
        if self._draft >= Draft.DRAFT_2019_09:
            node.needs = {name: frozenset(each) for name, each in declared.get("dependentRequired", {}).items()}
            node.dependent = self._nodes(declared, "dependentSchemas")
            return
        for name, each in declared.get("dependencies", {}).items():
            if isinstance(each, list):
                node.needs[name] = frozenset(each)
            else:
                node.dependent[name] = self.node(each, f".dependencies.{name}")

    def _fill_array(self, node: Node) -> None:
        declared = node.declared
        node.unique = declared.get("uniqueItems", False)
        items = declared.get("items")
        if self._has(declared, "prefixItems"):
            node.prefix = self._listed(declared, "prefixItems")
        if isinstance(items, list):
            node.prefix = self._listed(declared, "items")
            node.rest = self._one(declared, "additionalItems")
        elif items is not None:
            node.rest = self.node(items, ".items")
        if self._has(declared, "contains"):
            node.contains = self._one(declared, "contains")
            if self._draft >= _SINCE["minContains"]:
                node.contains_min = int(declared.get("minContains", 1))
                node.contains_max = int(declared["maxContains"]) if "maxContains" in declared else None

    def _fill_combinations(self, node: Node) -> None:
        declared = node.declared
        node.all_of += self._listed(declared, "allOf")
        node.any_of = self._listed(declared, "anyOf")
        node.one_of = self._listed(declared, "oneOf")
        node.not_ = self._one(declared, "not")
        if self._has(declared, "if"):
            node.if_, node.then = self._one(declared, "if"), self._one(declared, "then")
            node.else_ = self._one(declared, "else")

    def _fill_dynamic(self, node: Node) -> None:
        declared = node.declared
        for keyword in ("unevaluatedProperties", "unevaluatedItems"):
            if self._has(declared, keyword):
                node.unevaluated[keyword] = self.node(declared[keyword], f".{keyword}")
        node.dynamic = any(self._has(declared, keyword) for keyword in ("$recursiveRef", "$dynamicRef"))

    def _listed(self, declared: Json, keyword: str) -> list[Node]:
        return [self.node(each, f".{keyword}[{index}]") for index, each in enumerate(declared.get(keyword, ()))]


def _check_pattern(pattern: str, place: str) -> None:
    if _NOT_PYTHON.search(pattern):
        return
    try:
        re.compile(pattern)
    except (re.error, OverflowError) as error:
        message = f"at {place}: {json.dumps(pattern)[:80]} is not a regular expression: {error}"
        raise ValueError(message) from error


def _check_progress(nodes: Iterable[Node]) -> None:
    """Refuse what must be followed for ever to judge one value (core, "Guarding Against Infinite Recursion")."""
    done: set[int] = set()
    under_way: set[int] = set()

    def follow(node: Node) -> None:
        if id(node) in under_way:
            message = f"at {node.place}: it refers to itself before it goes into a value"
            raise ValueError(message)
        if id(node) in done:
            return
        under_way.add(id(node))
        for each in node.beside:
            follow(each)
        under_way.discard(id(node))
        done.add(id(node))

    for each in nodes:
        follow(each)
