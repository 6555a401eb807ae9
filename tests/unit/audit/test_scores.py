"""What scores promise, whatever partitions a table has."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.audit.minhash import MASK, coefficients, hashes, matching_share
from penstock.core.audit.scores import Share, margin, table_score

shares = st.lists(
    st.builds(Share, st.floats(0, 1), st.integers(1, 64).map(margin)),
    max_size=20,
)


@given(st.integers(0, 50), shares)
def test_a_score_lies_between_its_bounds_and_they_between_0_and_1(equal: int, unequal: list[Share]) -> None:
    found = table_score(equal, unequal)

    assert -1e-12 <= found.lower <= found.score + 1e-12
    assert found.score <= found.upper + 1e-12 <= 1 + 2e-12


@given(st.integers(0, 50))
def test_only_unequal_partitions_widen_the_bounds(equal: int) -> None:
    found = table_score(equal, ())

    assert (found.score, found.lower, found.upper) == (1, 1, 1)


@given(st.integers(0, 50), shares, st.floats(0, 1))
def test_one_more_equal_partition_never_lowers_a_score(equal: int, unequal: list[Share], share: float) -> None:
    parts = [*unequal, Share(share, margin(16))]

    assert table_score(equal + 1, parts).score >= table_score(equal, parts).score - 1e-12


@given(st.integers(0, 2**32 - 1), st.integers(1, 64))
def test_no_product_of_a_seed_leaves_a_signed_number_of_64_bits(seed: int, k: int) -> None:
    assert all(seed * a + b < 2**63 for a, b in coefficients(k))
    assert all(0 <= value <= MASK for value in hashes(seed, k))


def test_the_coefficients_are_a_fixed_sequence_that_repeats_nothing() -> None:
    assert coefficients(4) == (
        (1285533145, 1655539436),
        (1350832907, 492214603),
        (1235092432, 1629043653),
        (176256801, 205743474),
    )
    assert coefficients(6)[:4] == coefficients(4)
    assert coefficients(5)[4] == (205743474 * 48271 % MASK, 205743474 * 48271**2 % MASK)
    assert len(set(coefficients(64))) == 64


@given(st.sets(st.integers(0, 2**32 - 1), min_size=1, max_size=300), st.integers(0, 300))
def test_sets_that_are_equal_match_in_all_values_and_others_about_as_they_are_alike(rows: set[int], kept: int) -> None:
    k = 64
    other = set(sorted(rows)[:kept]) | {row ^ 1 for row in sorted(rows)[kept:]}
    true = len(rows & other) / len(rows | other)

    share = matching_share(_minima(rows, k), _minima(other, k))

    assert matching_share(_minima(rows, k), _minima(rows, k)) == 1
    assert abs(share - true) < 5 * math.sqrt(0.25 / k)


def _minima(rows: set[int], k: int) -> tuple[int, ...]:
    return tuple(min(values) for values in zip(*(hashes(row, k) for row in rows), strict=True))
