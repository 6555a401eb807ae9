"""Which columns identify a row of a join: what follows from keys, and from join keys being equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.core.joins.inputs import JoinInput

Place: TypeAlias = tuple[int, str]
"""A column of an input: the input's number, and the column's name."""


def equal_places(inputs: Sequence[JoinInput], place: Place) -> Collection[Place]:
    """The columns that have the value of `place` in every joined row, itself among them.

    Those of inputs that are left out where they do not match are null there, which the
    value of `place` tells, too. A place of such an input says nothing of the others.
    """
    found, fresh = {place}, {place}
    while fresh:
        index, name = fresh.pop()
        for number, key in enumerate(() if inputs[index].is_optional else inputs[index].join_keys):
            if key == name:
                more = {(other, each.join_keys[number]) for other, each in enumerate(inputs)} - found
                found |= more
                fresh |= more
    return found


def is_identified(inputs: Sequence[JoinInput], places: Collection[Place]) -> bool:
    """Whether no two joined rows can have the same values in `places`.

    The closure of functional dependencies: a key of an input tells all of its
    columns, and a join key of one input those of the others, as far as that input
    always matches. Whether rows of one join key match is the same for all of them.
    """
    known: set[Place] = set()
    for place in places:
        known |= set(equal_places(inputs, place))
    told: set[int] = set()
    while True:
        fresh = [
            index
            for index, each in enumerate(inputs)
            if index not in told and all((index, name) in known for name in each.table.key)
        ]
        if not fresh:
            return len(told) == len(inputs)
        for index in fresh:
            told.add(index)
            for name in inputs[index].join_keys:
                known |= set(equal_places(inputs, (index, name)))


def identifying_places(inputs: Sequence[JoinInput]) -> Sequence[Place]:
    """The keys of the inputs, without those of inputs that the others tell."""
    kept = list(range(len(inputs)))
    for index in reversed(range(len(inputs))):
        fewer = [each for each in kept if each != index]
        if is_identified(inputs, _keys(inputs, fewer)):
            kept = fewer
    return _keys(inputs, kept)


def _keys(inputs: Sequence[JoinInput], chosen: Sequence[int]) -> Sequence[Place]:
    return [(index, name) for index in chosen for name in inputs[index].table.key]
