"""Which rows of an input a join sees: those that its condition holds for."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, assert_never

from penstock.core.errors import TableStoppedError, UsageError
from penstock.core.transforms.conditions import (
    Both,
    Comparison,
    Either,
    IsLike,
    IsNull,
    IsOneOf,
    Name,
    Negation,
    parse_condition,
)
from penstock.core.transforms.filters import Filter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.joins.inputs import JoinInput
    from penstock.core.tables import Column
    from penstock.core.transforms.conditions import Condition


def tested_columns(given: JoinInput) -> tuple[Column, ...]:
    """The columns that an input's condition asks for. Raises UsageError for one that does not fit them."""
    if not given.where:
        return ()
    try:
        # Rows that lack columns are made whole before they are tested.
        filter_of(given.where).derive(replace(given.table, partial_rows=False))
    except TableStoppedError as error:
        message = f"where: {given.where} of {given.name} does not fit: {error.message}"
        raise UsageError(message, "correct the condition") from error
    names = {name.casefold() for name in _names(parse_condition(given.where))}
    return tuple(column for column in given.table.columns if column.name.casefold() in names)


@cache
def filter_of(where: str) -> Filter:
    """The filter of a condition."""
    return Filter(where)


def _names(condition: Condition) -> Iterator[str]:
    """The names in a condition, as it writes them."""
    match condition:
        case Both(left, right) | Either(left, right):
            yield from _names(left)
            yield from _names(right)
        case Negation(part):
            yield from _names(part)
        case Comparison(left, _, right):
            yield from (operand.name for operand in (left, right) if isinstance(operand, Name))
        case IsNull(name) | IsOneOf(name) | IsLike(name):
            yield name.name
        case _:
            assert_never(condition)
