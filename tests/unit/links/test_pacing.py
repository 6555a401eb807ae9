"""How often rounds begin: as often as asked on the average, and never behind for good."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.jobs.pacing import Pacing

SECONDS = 0.25


def test_what_begins_when_another_has_ended_catches_up_with_it_after_a_delay() -> None:
    pacing, behind = Pacing(SECONDS), []
    for number in range(8):
        arrives = number * (SECONDS + 0.002)
        begins = max(arrives, pacing.due) + (0.1 if number == 2 else 0.0)
        behind.append(begins - arrives)
        pacing.begin(begins)

    assert behind[2] > 0.09
    assert max(behind[3:]) < 0.02


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_in_any_stretch_no_more_begins_than_its_pace_allows_and_one(gaps: list[float]) -> None:
    pacing, now, begun = Pacing(SECONDS), 0.0, list[float]()
    for gap in gaps:
        now += gap + pacing.wait_seconds(now + gap)
        pacing.begin(now)
        begun.append(now)

    for first, begin in enumerate(begun):
        for more, end in enumerate(begun[first + 1 :], 1):
            assert more <= (end - begin) / SECONDS + 1 + 1e-6


def test_without_a_pace_nothing_waits() -> None:
    pacing = Pacing(0.0)
    pacing.begin(5.0)

    assert pacing.wait_seconds(5.0) == 0.0
