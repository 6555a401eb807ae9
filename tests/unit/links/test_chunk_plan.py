"""The ranges of keys that a snapshot has left to read."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.chunk_plan import ChunkPlan, KeyRange
from penstock.core.snapshots import SnapshotProgress

_KEYS = 60


@given(st.integers(0, 2**32))
def test_whoever_reads_in_whatever_order_every_key_is_read_once_and_the_record_says_which_are_left(seed: int) -> None:
    random, read = Random(seed), []  # noqa: S311 - a test
    progress, taken = SnapshotProgress("shop.orders"), list[KeyRange]()
    plan = ChunkPlan(progress.ranges)

    while not progress.is_done:
        if random.random() < 0.05:
            plan, taken = ChunkPlan(progress.ranges), []
        found = plan.take(random.randint(1, 4)) if random.random() < 0.5 else None
        taken += [found] if found else []
        if not taken or random.random() < 0.3:
            continue
        key_range = taken.pop(random.randrange(len(taken)))
        if random.random() < 0.1:
            key_range.is_taken = False
            continue
        keys = _keys_of((key_range.begin, key_range.end))
        count = random.randint(1, 5)
        is_last = len(keys) < count
        plan.done(key_range, None if is_last else str(keys[count - 1]), [str(k) for k in keys[2 * count - 1 :: count]])
        read += keys[:count]
        progress = progress.after(len(keys[:count]), plan.left())

        left = [] if progress.is_done else [key for each in progress.ranges for key in _keys_of(each)]
        assert sorted(read + left) == list(range(_KEYS))
        assert SnapshotProgress.from_mapping(progress.to_mapping()) == progress
        if left:
            # A release that knew one range reads again from here on.
            assert set(left) <= set(_keys_of((progress.cursor, "")))

    assert progress.rows == _KEYS


def test_nobody_waits_for_whoever_marks_off_chunks() -> None:
    plan = ChunkPlan([("", "")])
    first = plan.take(2)
    assert first is not None
    assert plan.take(2) is None

    plan.done(first, "b", ["c", "d", "e"])

    taken = [plan.take(2) for _ in range(5)]
    assert [(each.begin, each.end) for each in taken if each] == [("b", "c"), ("c", "d"), ("e", ""), ("d", "e")]
    assert taken[4] is None
    assert plan.left() == (("b", ""),)


@pytest.mark.parametrize("begin", ["", "b"])
def test_a_range_of_which_nothing_was_read_is_left_as_it_was(begin: str) -> None:
    plan = ChunkPlan([(begin, "")])
    whole = plan.take(1)
    assert whole is not None

    plan.done(whole, begin)

    assert plan.left() == ((begin, ""),)
    assert not SnapshotProgress("shop.orders").after(0, plan.left()).is_done


def _keys_of(bounds: tuple[str, str]) -> list[int]:
    begin, end = int(bounds[0] or -1), int(bounds[1] or _KEYS)
    return [key for key in range(_KEYS) if begin < key <= end]
