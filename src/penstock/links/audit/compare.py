"""Compares a table on two sides: first signatures of partitions, then narrower ones of those that differ, then rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.core.audit.findings import Comparison
from penstock.core.audit.partition_size import PARTITION_ROWS
from penstock.core.audit.queries import Within, count_query, extremes_query, hash_cuts, merge_parts, number_cuts
from penstock.core.audit.suspects import Suspects, differing
from penstock.links.audit.ask import one_ahead
from penstock.links.audit.scan import ROWS_AT_ONCE, rows_of, scan
from penstock.links.audit.signatures import PARTITIONS_AT_ONCE, beside, read_both, unequal_of, with_minima

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.core.audit.queries import Cuts, Signature
    from penstock.core.audit.suspects import HashedRows
    from penstock.links.audit.pair import Pair
    from penstock.links.audit.signatures import Both

PARTITIONS_MAX: Final = 4096
"""Signatures that travel at once, per side."""
SUSPECTS_MIN: Final = 10_000
"""So many rows that differ are looked at, however few are to be named."""
_LEAF_ROWS: Final = 10_000
"""A partition of so few rows is not cut again: their hashes travel, which costs a database no more than their sums."""
_NARROWER: Final = 64
_SUSPECTS_AT_ONCE: Final = 100_000


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
    """Compare the two sides as they are in the databases' snapshots. Raises what their `fetch` does.

    One scan of each side tells which partitions differ, and in which of their parts,
    whose rows are read; where most differ, rows are read at once. Partitions with more
    rows than may be looked at get MinHash values, which tell how alike they are; so
    do all that differ, by the classic form.
    """
    cuts = _cuts(pair, bounds)
    scanned = scan(pair, cuts, bounds.suspects_max)
    fine = scanned.parts
    merged = beside(
        *(merge_parts({number: both[side] for number, both in fine.items()}, cuts.parts) for side in (0, 1))
    )
    room = bounds.suspects_max - scanned.looked_at
    suspects, not_narrowed = _narrow(pair, cuts, fine, unequal_of(merged), room)
    found = merged | scanned.partitions
    unequal = unequal_of(found)
    estimated = unequal if pair.source_side.form == "classic" else {each: unequal[each] for each in not_narrowed}
    return Comparison(
        len(found) - len(unequal),
        unequal | with_minima(pair, cuts.width, estimated, bounds.k),
        Suspects.joined([*scanned.suspects, *suspects]),
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


def _narrow(pair: Pair, cuts: Cuts, fine: Both, unequal: Both, room: int) -> tuple[list[Suspects], set[int | None]]:
    """Return the rows that differ in `unequal` partitions, and the partitions that were not looked into.

    Once as many differ as there is `room` for, no more are looked into.
    """
    parts: dict[int | None, Both] = {number: {} for number in unequal}
    for number, both in fine.items():
        partition = None if number is None else number // cuts.parts
        if partition in parts and not both[0].equals(both[1]):
            parts[partition][number] = both
    suspects: list[Suspects] = []
    todo = sorted(parts, key=lambda number: (number is not None, number or 0))
    while todo and sum(map(len, suspects)) < room:
        count = _count_at_once([parts[number].values() for number in todo])
        some, todo = todo[:count], todo[count:]
        level, at = {number: both for partition in some for number, both in parts[partition].items()}, cuts.part_width
        while level:
            leaves = {number: None for number, both in level.items() if _is_leaf(number, both, at)}
            fetches = (partial(_fetch_rows, pair, few, at, cuts.width) for few in _few_rows(list(leaves), level))
            suspects += (differing(*both) for both in one_ahead(fetches))
            rest = [number for number in level if number not in leaves]
            narrower = -(-at // _NARROWER)
            level = unequal_of(read_both(pair, narrower, rest, at)) if rest else {}
            at = narrower
    return suspects, set(todo)


def _count_at_once(parts: Sequence[Iterable[tuple[Signature, Signature]]]) -> int:
    """Return how many partitions to look into together: few enough that all of their rows may be suspects."""
    rows = 0
    for place, of_partition in enumerate(parts[:PARTITIONS_AT_ONCE]):
        rows += sum(max(side.count for side in both) for both in of_partition)
        if rows > _SUSPECTS_AT_ONCE:
            return max(1, place)
    return PARTITIONS_AT_ONCE


def _is_leaf(number: int | None, both: tuple[Signature, Signature], width: int) -> bool:
    """Whether to compare row by row."""
    return number is None or width == 1 or max(side.count for side in both) <= _LEAF_ROWS


def _few_rows(leaves: Sequence[int | None], level: Both) -> Iterator[Sequence[int | None]]:
    """Yield `leaves` in groups whose rows are few enough to travel at once."""
    some: list[int | None] = []
    rows = 0
    for number in leaves:
        count = max(side.count for side in level[number])
        if some and (rows + count > ROWS_AT_ONCE or len(some) == PARTITIONS_AT_ONCE):
            yield some
            some, rows = [], 0
        some.append(number)
        rows += count
    if some:
        yield some


def _fetch_rows(pair: Pair, leaves: Sequence[int | None], at: int, width: int) -> tuple[HashedRows, HashedRows]:
    """Return the rows of `leaves`, which are `at` wide."""
    return pair.fetch_hashes(partial(rows_of, Within(tuple(leaves), at), width))
