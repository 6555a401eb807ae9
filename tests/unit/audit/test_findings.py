"""What becomes of a score once rows were looked at again."""

from __future__ import annotations

from dataclasses import replace

from penstock.core.audit.findings import Comparison, DivergentRow, NamedRows, score_of
from penstock.core.audit.queries import KeyRange, Signature, hash_cuts, number_cuts, ranges_of
from penstock.core.audit.suspects import Suspect, Suspects

MINE = Signature(10, (1, 2, 3, 4), (5, 6))
OTHER = Signature(10, (9, 9, 9, 9), (5, 7))


NONE = Suspects.of(())


def suspects(*found: tuple[str, int]) -> Suspects:
    return Suspects.of(Suspect((key,), partition, b"a" * 16, b"b" * 16) for key, partition in found)


def test_a_partition_is_equal_once_all_of_its_suspects_were_in_flight() -> None:
    comparison = Comparison(3, {4: (MINE, OTHER)}, suspects(("1", 4), ("2", 4)))

    score, unequal = score_of(comparison, NONE, NONE, 2)

    assert (score.score, score.lower, unequal) == (1.0, 1.0, 0)


def test_a_partition_with_a_wrong_row_and_none_in_flight_has_the_share_of_its_minhash_values() -> None:
    comparison = Comparison(3, {4: (MINE, OTHER)}, suspects(("1", 4)))

    score, unequal = score_of(comparison, comparison.suspects, NONE, 2)

    assert (score.score, unequal) == ((3 + 0.5) / 4, 1)


def test_rows_are_counted_where_nobody_asked_for_minhash_values() -> None:
    both = replace(MINE, minima=()), replace(OTHER, minima=())
    comparison = Comparison(3, {4: both}, suspects(("1", 4)))

    score, unequal = score_of(comparison, comparison.suspects, NONE, 2)

    assert (score.score, score.lower, score.upper) == ((3 + 9 / 11) / 4,) * 3
    assert unequal == 1


def test_rows_are_counted_where_some_were_in_flight_and_some_are_wrong() -> None:
    comparison = Comparison(0, {4: (MINE, OTHER)}, suspects(("1", 4), ("2", 4)))

    score, _ = score_of(comparison, suspects(("1", 4)), NONE, 2)

    assert score.score == score.lower == score.upper == 9 / 11


def test_a_partition_whose_rows_nobody_looked_at_stays_unequal() -> None:
    comparison = Comparison(1, {4: (MINE, OTHER)}, NONE, frozenset({4}))

    score, unequal = score_of(comparison, NONE, NONE, 2)

    assert unequal == 1
    assert score.score == 0.75


def test_neighbours_are_read_together_and_rows_without_a_key_by_themselves() -> None:
    assert ranges_of([3, -1, 0, 4], 10) == [KeyRange(-10, 9), KeyRange(30, 49)]


def test_sparse_keys_and_many_rows_do_not_make_more_partitions_than_may_travel() -> None:
    assert number_cuts([("-5", "5"), (None, None)], 10, 100).width == 10
    assert number_cuts([("0", str(10**9))], 10, 100).width == 10_000_001
    assert number_cuts([(None, None), (None, None)], 10, 100).width == 10
    assert hash_cuts(10**9, 10, 1024).width == 2**22
    assert hash_cuts(0, 10, 1024).width == 2**32


def test_rows_without_values_are_named_behind_those_that_have_some() -> None:
    valued = DivergentRow(("1",), "different", {"name": ("a", "b")})
    others = Suspects.of([Suspect(("2",), 0, b"a" * 16, b""), Suspect(("3",), 0, b"", b"b" * 16)])

    rows = NamedRows((valued,), others)

    assert list(rows) == [valued, DivergentRow(("2",), "missing"), DivergentRow(("3",), "extra")]
    assert (len(rows), rows[2].key, rows[:2]) == (3, ("3",), tuple(rows)[:2])
