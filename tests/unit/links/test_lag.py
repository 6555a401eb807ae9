"""Since when a link is behind: true at any time, whatever was seen of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.lag import Lag, NewestChange, follow_lag, lag_seconds


def test_a_log_that_was_idle_for_long_makes_nobody_late() -> None:
    at_end = Lag(0, seen_at_ms=50_000)

    assert follow_lag(at_end, is_behind=True, carried_ms=1_000, now_ms=51_000) == Lag(50_000, 51_000, 1_000)


def test_a_link_that_stands_still_falls_behind_and_one_that_moves_comes_nearer() -> None:
    behind = Lag(50_000, 51_000)

    stands = follow_lag(behind, is_behind=True, carried_ms=1_000, now_ms=90_000)
    moves = follow_lag(stands, is_behind=True, carried_ms=80_000, now_ms=91_000)

    assert (stands, moves) == (Lag(50_000, 90_000, 1_000), Lag(80_000, 91_000, 80_000))
    assert follow_lag(moves, is_behind=False, carried_ms=90_000, now_ms=92_000) == Lag(0, 92_000, 90_000)


def test_nothing_is_guessed_of_a_link_that_has_carried_nothing() -> None:
    assert follow_lag(Lag(), is_behind=True, carried_ms=0, now_ms=5_000) == Lag(None, 5_000, 0)


@pytest.mark.parametrize("before", [Lag(0, 50_000, 1_000), Lag(40_000, 50_000, 1_000), Lag(40_000, 50_000), Lag()])
def test_a_commit_time_in_the_future_hides_no_lag_that_grows(before: Lag) -> None:
    lag, told = before, []

    for now_ms in (52_000, 100_000, 1_000_000):
        lag = follow_lag(lag, is_behind=True, carried_ms=9_000_000_000, now_ms=now_ms)
        told.append(lag_seconds(lag.since_ms, now_ms) or 0.0)

    assert told[1] - told[0] == 48
    assert told[2] - told[1] == 900


def test_a_link_that_keeps_up_with_a_clock_that_is_ahead_is_not_called_late() -> None:
    lag = Lag(0, 50_000, 3_650_000)

    for now_ms in range(52_000, 90_000, 2_000):
        lag = follow_lag(lag, is_behind=True, carried_ms=now_ms + 3_600_000, now_ms=now_ms)

        assert (lag_seconds(lag.since_ms, now_ms) or 0.0) <= 2


def test_a_link_goes_by_the_tables_that_moved_and_not_by_one_that_was_ahead_once() -> None:
    newest = NewestChange()

    told = [
        newest.carried_ms({"orders": 1_000, "odd": 9_000}),
        newest.carried_ms({"orders": 1_000, "odd": 9_000}),
        newest.carried_ms({"orders": 2_000, "odd": 9_000, "users": 0}),
        newest.carried_ms({"orders": 3_000, "odd": 1_500, "users": 0}),
    ]

    assert told == [9_000, 9_000, 2_000, 3_000]


def test_seconds_are_counted_from_the_oldest_change_that_may_wait() -> None:
    assert [lag_seconds(since_ms, 9_500) for since_ms in (None, 0, 2_000, 20_000)] == [None, 0, 7.5, 0]


@given(st.lists(st.integers(1, 3), max_size=40), st.lists(st.integers(0, 3), min_size=40, max_size=40))
def test_the_oldest_change_ahead_is_never_older_than_what_is_told(gaps: list[int], carried: list[int]) -> None:
    """A log of commits at known times, of which a link carries some between two looks."""
    lag, now_ms, commits, count = Lag(0, 1_000), 1_000, [500], 1
    for gap, more in zip(gaps, carried, strict=False):
        now_ms += gap * 1_000
        commits += [now_ms - 500] * (gap % 2)
        count = min(len(commits), count + more)
        lag = follow_lag(lag, is_behind=count < len(commits), carried_ms=commits[count - 1], now_ms=now_ms)
        ahead = commits[count:]
        assert lag.since_ms is not None
        assert (lag.since_ms == 0) == (not ahead)
        assert not ahead or lag.since_ms <= min(ahead)
