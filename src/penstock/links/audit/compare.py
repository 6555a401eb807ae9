"""Compares a table on two sides: first signatures of partitions, then narrower ones of those that differ, then rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock.core.audit.findings import Comparison, Suspect
from penstock.core.audit.partition_size import PARTITION_ROWS
from penstock.core.audit.queries import (
    Signature,
    Within,
    count_query,
    extremes_query,
    hash_cuts,
    index_by_key,
    merge_parts,
    minima_query,
    number_cuts,
    read_minima,
    read_signatures,
    rows_query,
    signature_query,
)
from penstock.links.audit.ask import at_once
from penstock.links.audit.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from penstock.core.audit.queries import Cuts
    from penstock.core.audit.side import AuditSide
    from penstock.ports.audited import AuditedDatabase

Rows: TypeAlias = "Sequence[Sequence[Any]]"

PARTITIONS_MAX: Final = 4096
"""Signatures that travel at once, per side."""
SUSPECTS_MIN: Final = 10_000
"""So many rows that differ are looked at, however few are to be named."""
_LEAF_ROWS: Final = 10_000
"""A partition of so few rows is not cut again: their hashes travel, which costs a database no more than their sums."""
_ROWS_AT_ONCE: Final = 20_000
"""So many hashes of rows travel at once, per side."""
_NARROWER: Final = 64
_PARTITIONS_AT_ONCE: Final = 500
_SUSPECTS_AT_ONCE: Final = 100_000
_NOTHING: Final = Signature(0, (0, 0, 0, 0))


@dataclass(frozen=True, slots=True)
class Pair:
    """A table on both sides, the databases that it is in, and how fast they may be read."""

    source: AuditedDatabase
    target: AuditedDatabase
    source_side: AuditSide
    target_side: AuditSide
    pace: Pace = field(default_factory=Pace)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How a table is cut and how much is looked at: rows of a partition, MinHash values, rows looked at, rows named.

    Floats that differ by a smaller share of the greater one than `float_tolerance` are called equal.
    """

    partition_size: int = PARTITION_ROWS
    k: int = 16
    suspects_max: int = SUSPECTS_MIN
    rows_max: int = 1000
    float_tolerance: float = 0.0


def compare(pair: Pair, bounds: Bounds) -> Comparison:
    """Compare the two sides as they are in the databases' snapshots.

    Raises what their `fetch` does, and UnavailableError when the time is over.

    One scan of each side tells which partitions differ, and in which of their parts,
    whose rows are read. Partitions with more rows than may be looked at get MinHash
    values, which tell how alike they are; so do all that differ, by the classic form.
    """
    cuts = _cuts(pair, bounds)
    fine = _scan(pair, cuts)
    found = _both(*(merge_parts({number: both[side] for number, both in fine.items()}, cuts.parts) for side in (0, 1)))
    differing = {number: both for number, both in found.items() if not both[0].equals(both[1])}
    suspects, not_narrowed = _narrow(pair, cuts, fine, differing, bounds.suspects_max)
    estimated = differing if pair.source_side.form == "classic" else {each: differing[each] for each in not_narrowed}
    return Comparison(
        len(found) - len(differing),
        differing | _with_minima(pair, cuts.width, estimated, bounds.k),
        tuple(suspects),
        frozenset(not_narrowed),
        sum(source.count for source, _ in found.values()),
        sum(target.count for _, target in found.values()),
    )


def _cuts(pair: Pair, bounds: Bounds) -> Cuts:
    sides = ((pair.source, pair.source_side), (pair.target, pair.target_side))
    if pair.source_side.cut == "hash":
        rows = int(pair.source.fetch(count_query(pair.source_side))[0][0])
        return hash_cuts(rows, bounds.partition_size, PARTITIONS_MAX)
    extremes = [database.fetch(extremes_query(side))[0] for database, side in sides]
    return number_cuts([(low, high) for low, high in extremes], bounds.partition_size, PARTITIONS_MAX)


def _scan(pair: Pair, cuts: Cuts) -> dict[int | None, tuple[Signature, Signature]]:
    """Return both sides' signatures of all parts: in one scan of each side, or some partitions a second."""
    at_once = pair.pace.partitions_per_second
    if at_once is None or cuts.numbers is None:
        return _signatures(pair, cuts.part_width, None)
    found = _signatures(pair, cuts.part_width, [None], cuts.width)
    for start in range(0, len(cuts.numbers), at_once):
        with pair.pace.for_a_second():
            found |= _signatures(pair, cuts.part_width, cuts.numbers[start : start + at_once], cuts.width)
    return found


def _signatures(
    pair: Pair, width: int, partitions: Sequence[int | None] | None, of_width: int = 0
) -> dict[int | None, tuple[Signature, Signature]]:
    """Return both sides' signatures of partitions `width` wide, within `partitions` of `of_width` (None: of all)."""
    found: dict[int | None, tuple[Signature, Signature]] = {}
    for within in [None] if partitions is None else _groups(partitions, of_width):
        found |= _both(*(read_signatures(rows) for rows in _fetch(pair, partial(_signatures_of, width, within))))
    return found


def _signatures_of(width: int, within: Within | None, side: AuditSide) -> str:
    return signature_query(side, width, within)


def _with_minima(
    pair: Pair, width: int, unequal: Mapping[int | None, tuple[Signature, Signature]], k: int
) -> dict[int | None, tuple[Signature, Signature]]:
    """Return the signatures of unequal partitions, `width` wide, with MinHash values."""
    full: dict[int | None, tuple[Signature, Signature]] = {}
    for within in _groups(list(unequal), width):
        mine, theirs = (read_minima(rows) for rows in _fetch(pair, partial(_minima_of, within, k)))
        for number in within.partitions:
            source, target = unequal[number]
            full[number] = (
                replace(source, minima=mine.get(number, ())),
                replace(target, minima=theirs.get(number, ())),
            )
    return full


def _minima_of(within: Within, k: int, side: AuditSide) -> str:
    return minima_query(side, within.width, within, k)


def _fetch(pair: Pair, query: Callable[[AuditSide], str]) -> tuple[Rows, Rows]:
    """Ask both sides at once: each is a server or a file of its own, and in a snapshot of its own."""
    pair.pace.require_time()
    return at_once(
        partial(pair.source.fetch, query(pair.source_side)), partial(pair.target.fetch, query(pair.target_side))
    )


def _both(
    mine: Mapping[int | None, Signature], theirs: Mapping[int | None, Signature]
) -> dict[int | None, tuple[Signature, Signature]]:
    return {number: (mine.get(number, _NOTHING), theirs.get(number, _NOTHING)) for number in {*mine, *theirs}}


def _narrow(
    pair: Pair,
    cuts: Cuts,
    fine: Mapping[int | None, tuple[Signature, Signature]],
    unequal: Mapping[int | None, tuple[Signature, Signature]],
    suspects_max: int,
) -> tuple[list[Suspect], set[int | None]]:
    """Return the rows that differ in `unequal` partitions, and the partitions that were not looked into."""
    parts: dict[int | None, dict[int | None, tuple[Signature, Signature]]] = {number: {} for number in unequal}
    for number, both in fine.items():
        partition = None if number is None else number // cuts.parts
        if partition in parts and not both[0].equals(both[1]):
            parts[partition][number] = both
    suspects: list[Suspect] = []
    todo = sorted(parts, key=lambda number: (number is not None, number or 0))
    while todo and len(suspects) < suspects_max:
        count = _count_at_once([parts[number].values() for number in todo])
        some, todo = todo[:count], todo[count:]
        level, at = {number: both for partition in some for number, both in parts[partition].items()}, cuts.part_width
        while level:
            leaves = {number: None for number, both in level.items() if _is_leaf(number, both, at)}
            for few in _few_rows(list(leaves), level):
                suspects += _diff_rows(pair, few, at, cuts.width)
            rest = [number for number in level if number not in leaves]
            narrower = -(-at // _NARROWER)
            found = _signatures(pair, narrower, rest, at) if rest else {}
            level = {number: both for number, both in found.items() if not both[0].equals(both[1])}
            at = narrower
    return suspects, set(todo)


def _count_at_once(parts: Sequence[Iterable[tuple[Signature, Signature]]]) -> int:
    """Return how many partitions to look into together: few enough that all of their rows may be suspects."""
    rows = 0
    for place, of_partition in enumerate(parts[:_PARTITIONS_AT_ONCE]):
        rows += sum(max(side.count for side in both) for both in of_partition)
        if rows > _SUSPECTS_AT_ONCE:
            return max(1, place)
    return _PARTITIONS_AT_ONCE


def _is_leaf(number: int | None, both: tuple[Signature, Signature], width: int) -> bool:
    """Whether to compare row by row."""
    return number is None or width == 1 or max(side.count for side in both) <= _LEAF_ROWS


def _few_rows(
    leaves: Sequence[int | None], level: Mapping[int | None, tuple[Signature, Signature]]
) -> Iterator[Sequence[int | None]]:
    """Yield `leaves` in groups whose rows are few enough to travel at once."""
    some: list[int | None] = []
    rows = 0
    for number in leaves:
        count = max(side.count for side in level[number])
        if some and (rows + count > _ROWS_AT_ONCE or len(some) == _PARTITIONS_AT_ONCE):
            yield some
            some, rows = [], 0
        some.append(number)
        rows += count
    if some:
        yield some


def _diff_rows(pair: Pair, leaves: Sequence[int | None], at: int, width: int) -> Iterator[Suspect]:
    """Compare row by row in `leaves`, which are `at` wide."""
    places = len(pair.source_side.key)
    found = _fetch(pair, partial(_rows_of, Within(tuple(leaves), at), width))
    mine, theirs = (index_by_key(rows, places) for rows in _unlike(*found))
    for key in {**mine, **theirs}:
        rows, others = mine.get(key, []), theirs.get(key, [])
        source, target = (tuple(sorted(str(row[places]) for row in side)) for side in (rows, others))
        if source != target:
            partition = (rows or others)[0][places + 1]
            yield Suspect(key, None if partition is None else int(partition), source, target)


def _unlike(mine: Rows, theirs: Rows) -> tuple[Rows, Rows]:
    """Leave out the rows that are the same on both sides, where none is there twice."""
    here, there = {tuple(row) for row in mine}, {tuple(row) for row in theirs}
    if len(here) < len(mine) or len(there) < len(theirs):
        return mine, theirs
    return list(here - there), list(there - here)


def _rows_of(within: Within, width: int, side: AuditSide) -> str:
    return rows_query(side, within, width)


def _groups(partitions: Sequence[int | None], width: int) -> Iterator[Within]:
    for start in range(0, len(partitions), _PARTITIONS_AT_ONCE):
        yield Within(tuple(partitions[start : start + _PARTITIONS_AT_ONCE]), width)
