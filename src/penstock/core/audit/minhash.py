"""MinHash: how alike two sets of rows are, from k numbers of each.

Hash i of a row is ((seed * a + b) mod 2305843009213693951) & 2147483647 with the
i-th pair of `coefficients`; the seed is the last 32 bits of the row's hash. The
value of a set is the least of its rows. Source: A. Broder, "On the resemblance
and containment of documents" (1997).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

MODULUS: Final = 2_305_843_009_213_693_951
MASK: Final = 2_147_483_647
HASHES_MAX: Final = 64

_FIRST: Final = (
    (1_285_533_145, 1_655_539_436),
    (1_350_832_907, 492_214_603),
    (1_235_092_432, 1_629_043_653),
    (176_256_801, 205_743_474),
)
# The generator of C's minstd_rand (Park and Miller, with the multiplier of 1993).
_MULTIPLIER: Final = 48_271


def coefficients(k: int) -> tuple[tuple[int, int], ...]:
    """Return the first `k` pairs (a, b): four that are fixed, then those of minstd_rand, from the last b on."""
    pairs = list(_FIRST[:k])
    state = _FIRST[-1][1]
    while len(pairs) < k:
        a = state * _MULTIPLIER % MASK
        state = a * _MULTIPLIER % MASK
        pairs.append((a, state))
    return tuple(pairs)


def hashes(seed: int, k: int) -> tuple[int, ...]:
    """Return the `k` hashes of one row, as the databases compute them."""
    return tuple(((seed * a + b) % MODULUS) & MASK for a, b in coefficients(k))


def matching_share(values: Sequence[int], others: Sequence[int]) -> float:
    """Return the share of equal MinHash values, which estimates the Jaccard similarity; 0 where a side has no rows."""
    if not values or len(values) != len(others):
        return 0.0
    return sum(a == b for a, b in zip(values, others, strict=True)) / len(values)
