"""Reads a table on both sides once: signatures of its parts, or its rows where most parts differ.

Where most parts differ, nearly all hashes of rows have to travel, and sums of them
would be a scan for nothing: they are computed here, of what has travelled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.core.audit.queries import Within, rows_query
from penstock.core.audit.suspects import differing
from penstock.links.audit.ask import groups, one_ahead
from penstock.links.audit.signatures import beside, read_both, unequal_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.audit.queries import Cuts
    from penstock.core.audit.side import AuditSide
    from penstock.core.audit.suspects import HashedRows, Suspects
    from penstock.links.audit.pair import Pair
    from penstock.links.audit.signatures import Both

ROWS_AT_ONCE: Final = 50_000
"""So many hashes of rows travel at once, per side."""
_FIRST_PARTITIONS: Final = 2
_GROWTH_MAX: Final = 8
"""So many times the partitions of one query are asked for in the next one, as time allows."""
_RATIO_MIN: Final = 1.4
"""Of queries that are nearer in size, times say nothing of what partitions take."""
_NEAR: Final = 0.75
"""What a query may take of the time that is allowed, where smaller ones would be of no use."""
_MOST: Final = 0.5
_FILLED: Final = 0.125
"""Where a smaller share of the keys has rows, slices of keys would be many, with few rows in each."""


@dataclass(slots=True)
class Scanned:
    """What is known of a table: signatures of parts, and of `partitions` those that were read, with `suspects`."""

    parts: Both = field(default_factory=dict)
    partitions: Both = field(default_factory=dict)
    suspects: list[Suspects] = field(default_factory=list)

    @property
    def looked_at(self) -> int:
        """How many rows differ, of those that were read."""
        return sum(map(len, self.suspects))


@dataclass(frozen=True, slots=True)
class Took:
    """How long the source took for so many partitions, asked for at once."""

    partitions: int
    seconds: float


def scan(pair: Pair, cuts: Cuts, suspects_max: int) -> Scanned:
    """Read all partitions, by their rows while most parts differ, until `suspects_max` rows do."""
    scanned = Scanned()
    if cuts.numbers is None:
        scanned.parts = read_both(pair, cuts.part_width, None)
    elif pair.pace.partitions_per_second:
        _scan_slowly(pair, cuts, cuts.numbers, scanned)
    elif pair.source_side.dialect.reads_whole or pair.target_side.dialect.reads_whole:
        scanned.parts = read_both(pair, cuts.part_width, None)
    else:
        _scan_in_pieces(pair, cuts, cuts.numbers, suspects_max, scanned)
    return scanned


def _scan_slowly(pair: Pair, cuts: Cuts, numbers: range, scanned: Scanned) -> None:
    scanned.parts |= read_both(pair, cuts.part_width, [None], cuts.width)
    for some in groups(numbers, pair.pace.partitions_per_second or 1):
        with pair.pace.for_a_second():
            scanned.parts |= read_both(pair, cuts.part_width, some, cuts.width)


def _scan_in_pieces(pair: Pair, cuts: Cuts, numbers: range, suspects_max: int, scanned: Scanned) -> None:
    """Let each query be as large as the time that the one before has taken allows."""
    count = _FIRST_PARTITIONS
    before: Took | None = None
    without_key: Sequence[None] = [None]
    while numbers:
        some = numbers[:count]
        spent = pair.spent.seconds
        found = read_both(pair, cuts.part_width, [*without_key, *some], cuts.width)
        took = Took(len(some), max(pair.spent.seconds - spent, 0.001))
        count, before = next_count(took, before, pair.pace.query_seconds), took
        scanned.parts |= found
        without_key = []
        left = numbers[len(some) :]
        unequal = [part // cuts.parts for part in unequal_of(found) if part is not None]
        if len(unequal) > _MOST * len(found) and _can_read_rows(cuts, some, found):
            first = numbers[numbers.index(min(unequal)) :]
            left = min(left, _read_rows(pair, cuts, first, suspects_max, scanned), key=len)
            # What was read by its rows is known better than by its parts.
            scanned.parts = {
                part: both
                for part, both in scanned.parts.items()
                if part is None or part // cuts.parts not in scanned.partitions
            }
        numbers = left


def next_count(took: Took, before: Took | None, seconds_max: float) -> int:
    """Return how many partitions to ask the source for, so that it takes a quarter of what is allowed.

    Where the query `before` tells that time does not depend on how many they are, fewer would only be more queries.
    """
    fitting = took.partitions * seconds_max / took.seconds
    if before is not None and _is_flat(took, before):
        doubled = 2 * max(took.partitions, before.partitions)
        is_in_time = _expected(doubled, took, before) <= _NEAR * seconds_max
        count = max(int(_NEAR * fitting), doubled if is_in_time else 1)
    elif took.seconds > seconds_max / 4:
        # By half, so that the next one tells whether it is of use.
        count = min(int(fitting / 4), took.partitions // 2)
    else:
        count = int(fitting / 4) + 1
    return max(1, min(count, took.partitions * _GROWTH_MAX))


def _is_flat(one: Took, other: Took) -> bool:
    """Whether the larger of two queries took less than half of the time longer that its partitions would explain."""
    fewer, more = sorted((one, other), key=lambda took: took.partitions)
    ratio = more.partitions / fewer.partitions
    return ratio > _RATIO_MIN and more.seconds / fewer.seconds < 1 + (ratio - 1) / 2


def _expected(partitions: int, one: Took, other: Took) -> float:
    """How many seconds so many partitions should take, by two other numbers of them."""
    each = max(0.0, (one.seconds - other.seconds) / (one.partitions - other.partitions))
    return one.seconds + each * (partitions - one.partitions)


def _can_read_rows(cuts: Cuts, some: Sequence[int], found: Both) -> bool:
    """Whether keys tell how many rows travel: most are there, and none several times."""
    rows = [max(side.count for side in both) for part, both in found.items() if part is not None]
    return cuts.width <= ROWS_AT_ONCE and max(rows) <= cuts.part_width and _is_filled(cuts, some, sum(rows))


def _is_filled(cuts: Cuts, some: Sequence[int], rows: int) -> bool:
    keys = len(some) * cuts.width
    return _FILLED * keys <= rows <= keys


def _read_rows(pair: Pair, cuts: Cuts, numbers: range, suspects_max: int, scanned: Scanned) -> range:
    """Read rows until enough differ, or no more in most parts, or keys are few; return the partitions that are left."""
    if scanned.looked_at >= suspects_max:
        return numbers
    read = 0
    for some, (mine, theirs) in _fetch_rows(pair, cuts, numbers, min(ROWS_AT_ONCE, suspects_max)):
        differ = differing(mine, theirs)
        scanned.partitions |= beside(mine.signatures(), theirs.signatures())
        scanned.suspects.append(differ)
        read += len(some)
        is_filled = _is_filled(cuts, some, max(len(mine), len(theirs)))
        if scanned.looked_at >= suspects_max or len(differ) < _MOST * len(some) * cuts.parts or not is_filled:
            break
    return numbers[read:]


def _fetch_rows(
    pair: Pair, cuts: Cuts, numbers: range, rows: int
) -> Iterator[tuple[Sequence[int], tuple[HashedRows, HashedRows]]]:
    """Yield so many rows of both sides, with the partitions that they are of, one fetch ahead of who looks at them."""
    listed = list(groups(numbers, max(1, rows // cuts.width)))
    fetches = (
        partial(pair.fetch_hashes, partial(rows_of, Within(tuple(some), cuts.width), cuts.width)) for some in listed
    )
    return zip(listed, one_ahead(fetches), strict=False)


def rows_of(within: Within, width: int, side: AuditSide) -> str:
    """The query for the rows `within`, with their partition (of `width`)."""
    return rows_query(side, within, width)
