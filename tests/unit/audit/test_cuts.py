"""Partitions of parts: what is put together of parts is what the partitions would have given themselves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.audit.partition_size import partition_size
from penstock.core.audit.queries import Signature, hash_cuts, merge_parts, number_cuts
from penstock.core.audit.side import HASH_VALUES

ROWS = st.dictionaries(st.integers(-50_000, 50_000), st.integers(0, 2**32 - 1), max_size=60)


@given(ROWS, st.sampled_from([1000, 600, 997]))
def test_signatures_of_partitions_can_be_put_together_of_those_of_their_parts(rows: dict[int, int], size: int) -> None:
    cuts = number_cuts([(str(min(rows, default=0)), str(max(rows, default=0)))], size, 4096)

    merged = merge_parts(_signatures(rows, cuts.part_width), cuts.parts)

    assert cuts.width % cuts.parts == 0
    assert merged == _signatures(rows, cuts.width)


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_there_are_never_more_signatures_than_may_travel_at_once(count: int, size: int) -> None:
    for cuts, span in (
        (number_cuts([("0", str(count))], size, 4096), count + 1),
        (hash_cuts(count, size, 4096), HASH_VALUES),
    ):
        assert -(-span // cuts.part_width) <= 4 * 4096
        assert -(-span // cuts.width) <= 4096
        assert cuts.part_width * cuts.parts == cuts.width


def test_a_partition_keeps_its_size_and_small_ones_have_no_parts() -> None:
    large, small = number_cuts([("1", "300000")], 10_000, 4096), number_cuts([("1", "32")], 8, 4096)

    assert (large.width, large.parts) == (10_000, 125)
    assert (small.width, small.parts) == (8, 1)


def test_a_part_without_rows_takes_nothing_from_those_of_the_others() -> None:
    empty, full = Signature(0, (0, 0, 0, 0), ()), Signature(2, (1, 2, 3, 4), (), "1", "2")

    assert merge_parts({0: empty, 1: full}, 2) == merge_parts({0: full, 1: empty}, 2) == {0: full}


def _signatures(rows: dict[int, int], width: int) -> dict[int | None, Signature]:
    found: dict[int | None, list[tuple[int, int]]] = {}
    for key, word in rows.items():
        found.setdefault(key // width, []).append((key, word))
    return {
        number: Signature(
            len(some),
            tuple(sum(word ^ place for _, word in some) for place in range(4)),
            (),
            str(min(key for key, _ in some)),
            str(max(key for key, _ in some)),
        )
        for number, some in found.items()
    }


def test_a_partition_has_fewer_rows_where_these_are_wide_but_never_only_a_few() -> None:
    assert [partition_size(width) for width in (0, 100, 6_710, 10_000, 1 << 20, 1 << 30)] == [
        10_000,
        10_000,
        10_000,
        6_710,
        64,
        64,
    ]
