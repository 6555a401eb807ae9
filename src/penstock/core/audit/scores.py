"""How equal two tables are, as one number with bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Score:
    """A number from 0 to 1, and the bounds in which the true one is to be expected."""

    score: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Share:
    """How much of an unequal partition is equal, and by how much that may be wrong: 0 where the rows were counted."""

    share: float
    margin: float


def margin(k: int) -> float:
    """Return the error to be expected of the share of `k` MinHash values."""
    return 1 / math.sqrt(k)


def table_score(equal: int, unequal: Sequence[Share]) -> Score:
    """Return the score of a table with `equal` partitions that are, and some that are not; 1 for a table of none."""
    total = equal + len(unequal)
    if not total:
        return Score(1.0, 1.0, 1.0)
    score = (equal + math.fsum(each.share for each in unequal)) / total
    lower = (equal + math.fsum(max(0.0, each.share - each.margin) for each in unequal)) / total
    upper = (equal + math.fsum(min(1.0, each.share + each.margin) for each in unequal)) / total
    return Score(score, lower, upper)
