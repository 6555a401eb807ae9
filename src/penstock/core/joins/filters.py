"""Which rows of an input a join sees: those that its condition holds for."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from penstock.core.errors import TableStoppedError, UsageError
from penstock.core.transforms.filters import Filter

if TYPE_CHECKING:
    from penstock.core.joins.inputs import JoinInput
    from penstock.core.tables import Column


def tested_columns(given: JoinInput) -> tuple[Column, ...]:
    """The columns that an input's condition asks for. Raises UsageError for one that does not fit them."""
    if not given.where:
        return ()
    wanted = filter_of(given.where)
    try:
        wanted.derive(given.table)
    except TableStoppedError as error:
        message = f"where: {given.where} of {given.name} does not fit: {error.message}"
        raise UsageError(message, "correct the condition") from error
    reads = wanted.reads(given.table)
    return tuple(column for column in given.table.columns if column.name in reads)


@cache
def filter_of(where: str) -> Filter:
    """The filter of a condition."""
    return Filter(where)
