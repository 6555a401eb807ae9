"""Whether every value that one JSON Schema takes is taken by another.

The writer's side is the set of schemas that are known to hold at a place; the
reader's schemas are held against it one by one. The answer may only err on the
safe side: where it cannot be shown that the reader takes a value, that is a
problem. Schemas that lead back to themselves are compared as recursive types
are: a pair that is being compared, or was found good, is taken for good when it
is met again (Amadio and Cardelli, "Subtyping Recursive Types", 1993). That holds
because whatever leads back goes into a value first, which `json_builder` sees to.
Validators do not fill in defaults, so a default does not stand in for a property.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

from penstock.schematizer.formats.json_facts import (
    Facts,
    facts_of,
    is_empty,
    meant_by,
    types_of,
    values_of,
)
from penstock.schematizer.formats.json_limits import limit_problems, names_of
from penstock.schematizer.formats.json_members import Below, array_demands, object_demands
from penstock.schematizer.formats.json_nodes import KINDS, Node
from penstock.schematizer.formats.json_sameness import is_same_schema
from penstock.schematizer.formats.json_values import takes_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.schematizer.formats.json_schemas import JsonSchema

_COMPARISONS_MAX = 20_000
_LOOKS_PER_COMPARISON = 20
"""So often a value is looked at in the time of one comparison."""
_PROBLEMS_MAX = 100
_SHOWN_CHARACTERS_MAX = 80
Problem: TypeAlias = "tuple[str, str]"
Problems: TypeAlias = "tuple[Problem, ...]"


class _EntangledError(Exception):
    """A comparison takes too many steps."""


def json_problems(reader: JsonSchema, writer: JsonSchema) -> tuple[str, ...]:
    """List why values of `writer` are not taken by `reader`, each with its path; empty if they are."""
    if _text(reader) == _text(writer):
        return ()
    try:
        problems = _Walk().compare(reader.root, facts_of([writer.root]))
    except _EntangledError:
        return ("the schemas are too entangled to be compared: nobody can say whether every value is taken",)
    listed = tuple(dict.fromkeys(f"${path}: {problem}" for path, problem in problems))
    more = len(listed) - _PROBLEMS_MAX
    return (*listed[:_PROBLEMS_MAX], f"and {more} more problems") if more > 0 else listed


def _text(schema: JsonSchema) -> str:
    return json.dumps([schema.declared, dict(schema.used)], sort_keys=True)


class _Walk:
    """One comparison of a reader with a writer."""

    def __init__(self) -> None:
        # Pairs in the order in which they were taken for good, and those that are known to be bad.
        self._good: dict[tuple[Node, Facts], None] = {}
        self._bad: dict[tuple[Node, Facts], Problems] = {}
        self._comparisons = 0

    def compare(self, reader: Node, facts: Facts) -> Problems:
        """List the problems of one schema with the values of which `facts` hold, with paths from here on."""
        reader = meant_by(reader)
        pair = (reader, facts)
        if reader in facts or pair in self._good:
            return ()
        if pair in self._bad:
            return self._bad[pair]
        self._spend(1)
        before = len(self._good)
        self._good[pair] = None
        problems = () if is_empty(facts) else self._judge(reader, facts)
        if problems:
            # What was found good since may have been so because of this pair.
            while len(self._good) > before:
                self._good.popitem()
            self._bad[pair] = problems
        return problems

    def _spend(self, comparisons: int) -> None:
        self._comparisons += comparisons
        if self._comparisons > _COMPARISONS_MAX:
            raise _EntangledError

    def _judge(self, reader: Node, facts: Facts) -> Problems:
        values = values_of(facts)
        if values is not None:
            self._spend(len(values) * sum(1 + len(node.beside) for node in (reader, *facts)) // _LOOKS_PER_COMPARISON)
            answers = [takes_value(reader, value) for value in values]
            if None not in answers:
                pairs = zip(values, answers, strict=True)
                return tuple(("", f"the value {_shown(value)} is not taken") for value, taken in pairs if not taken)
        direct = tuple(self._demands(reader, facts))
        if not direct:
            return ()
        for node in sorted(facts, key=lambda each: each.place):
            for branches in (node.any_of, node.one_of):
                if branches and not facts.intersection(branches):
                    # Of equal length, what is said of the branches is the more exact.
                    return min(self._each(reader, [facts | {branch} for branch in branches]), direct, key=len)
            if node.if_ and node.then and node.else_ and not {node.then, node.else_} & facts:
                return min(self._each(reader, [facts | {node.if_, node.then}, facts | {node.else_}]), direct, key=len)
        return direct

    def _each(self, reader: Node, cases: Iterable[Iterable[Node]]) -> Problems:
        return tuple(dict.fromkeys(problem for case in cases for problem in self.compare(reader, facts_of(case))))

    def _demands(self, reader: Node, facts: Facts) -> Iterator[Problem]:
        if reader.never:
            yield "", "nothing is taken"
            return
        if (reader.dynamic or reader.unevaluated) and not any(is_same_schema(reader, node) for node in facts):
            words = " and ".join(reader.unevaluated) or "a dynamic reference"
            yield "", f"what {words} takes cannot be compared"
        missing = types_of(facts) - reader.types
        if missing:
            yield "", f"{' and '.join(names_of(missing))} is not taken"
        if reader.values is not None:
            yield "", "only some values are taken"
        for problem in limit_problems(reader, facts):
            yield "", problem
        types = types_of(facts) & reader.types
        if "array" in types:
            yield from self._below(array_demands(reader, facts))
        if "object" in types:
            yield from self._below(object_demands(reader, facts))
        yield from self._combinations(reader, facts)

    def _below(self, demands: Iterable[Below]) -> Iterator[Problem]:
        """Go into values: of the ways in which a demand can be met, the one with the fewest problems counts."""
        for demand in demands:
            ways = [[problem for pair in way for problem in self.compare(*pair)] for way in demand.ways]
            best = min(reversed(ways), key=len, default=None)
            if best is None or (best and demand.problem):
                yield demand.path, demand.problem
            else:
                for path, problem in best:
                    yield f"{demand.path}{path}", problem

    def _combinations(self, reader: Node, facts: Facts) -> Iterator[Problem]:
        for each in reader.all_of:
            yield from self.compare(each, facts)
        if reader.any_of:
            yield from self._choice(reader.any_of, facts, "anyOf")
        if reader.one_of and not any(_is_same_choice(reader.one_of, node.one_of) for node in facts):
            yield from self._choice(reader.one_of, facts, "oneOf")
        if reader.not_ is not None and not is_empty(facts_of([*facts, reader.not_])):
            before = [node.not_ for node in facts if node.not_ is not None]
            if not any(is_same_schema(reader.not_, each) for each in before):
                yield "", 'it cannot be shown that nothing is what "not" forbids'
        if reader.if_ is not None:
            yield from self._condition(reader, reader.if_, facts)

    def _condition(self, reader: Node, condition: Node, facts: Facts) -> Iterator[Problem]:
        same = [node for node in facts if node.if_ is not None and is_same_schema(condition, node.if_)]
        then = facts_of([*facts, condition, *(node.then for node in same if node.then is not None)])
        otherwise = facts_of([*facts, *(node.else_ for node in same if node.else_ is not None)])
        if reader.then is not None:
            yield from self.compare(reader.then, then)
        if reader.else_ is not None:
            yield from self.compare(reader.else_, otherwise)

    def _choice(self, branches: Sequence[Node], facts: Facts, keyword: str) -> Iterator[Problem]:
        """Look for a branch that takes all, or else, for each kind of value, one that takes those."""
        problems = self._branch_problems(branches, facts, keyword)
        types = types_of(facts)
        if not problems or len(types) == 1:
            yield from problems
            return
        for atom in sorted(types):
            yield from self._branch_problems(branches, facts_of([*facts, KINDS[atom]]), keyword)

    def _branch_problems(self, branches: Sequence[Node], facts: Facts, keyword: str) -> Problems:
        if is_empty(facts):
            return ()
        types = types_of(facts)
        found: list[Problems] = []
        for branch in branches:
            if not is_empty(facts_of([*facts, branch])):
                problems = self.compare(branch, facts)
                others = (each for each in branches if each is not branch)
                if not problems and keyword == "oneOf" and not all(is_empty(facts_of([*facts, o])) for o in others):
                    problems = (("", "a value may be taken by more than one branch of oneOf"),)
                found.append(problems)
        nothing = ("", f"no branch of {keyword} takes {' and '.join(names_of(types))}")
        return min(found, key=len, default=(nothing,))


def _is_same_choice(branches: Sequence[Node], others: Sequence[Node]) -> bool:
    pairs = zip(branches, others, strict=False)
    return len(branches) == len(others) and all(is_same_schema(one, other) for one, other in pairs)


def _shown(value: object) -> str:
    return json.dumps(value)[:_SHOWN_CHARACTERS_MAX]
