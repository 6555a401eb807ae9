"""Asks both sides of a table for the signatures of partitions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.core.audit.queries import (
    Signature,
    Within,
    minima_query,
    read_minima,
    read_signatures,
    signature_query,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.core.audit.side import AuditSide
    from penstock.links.audit.pair import Pair

Both: TypeAlias = "dict[int | None, tuple[Signature, Signature]]"
"""The signatures of both sides by partition."""
PARTITIONS_AT_ONCE: Final = 500
_NOTHING: Final = Signature(0, (0, 0, 0, 0))


def read_both(pair: Pair, width: int, partitions: Sequence[int | None] | None, of_width: int = 0) -> Both:
    """Return both sides' signatures of partitions `width` wide, within `partitions` of `of_width` (None: of all)."""
    found: Both = {}
    for within in [None] if partitions is None else _groups(partitions, of_width):
        found |= beside(*(read_signatures(rows) for rows in pair.fetch(partial(_signatures_of, width, within))))
    return found


def with_minima(pair: Pair, width: int, unequal: Both, k: int) -> Both:
    """Return the signatures of unequal partitions, `width` wide, with MinHash values."""
    full: Both = {}
    for within in _groups(list(unequal), width):
        mine, theirs = (read_minima(rows) for rows in pair.fetch(partial(_minima_of, within, k)))
        for number in within.partitions:
            source, target = unequal[number]
            full[number] = (
                replace(source, minima=mine.get(number, ())),
                replace(target, minima=theirs.get(number, ())),
            )
    return full


def beside(mine: Mapping[int | None, Signature], theirs: Mapping[int | None, Signature]) -> Both:
    """Return what is known of each partition on both sides; a side without rows of it has none there."""
    return {number: (mine.get(number, _NOTHING), theirs.get(number, _NOTHING)) for number in {*mine, *theirs}}


def unequal_of(found: Both) -> Both:
    """Return the partitions that differ."""
    return {number: both for number, both in found.items() if not both[0].equals(both[1])}


def _groups(partitions: Sequence[int | None], width: int) -> Iterator[Within]:
    for start in range(0, len(partitions), PARTITIONS_AT_ONCE):
        yield Within(tuple(partitions[start : start + PARTITIONS_AT_ONCE]), width)


def _signatures_of(width: int, within: Within | None, side: AuditSide) -> str:
    return signature_query(side, width, within)


def _minima_of(within: Within, k: int, side: AuditSide) -> str:
    return minima_query(side, within.width, within, k)
