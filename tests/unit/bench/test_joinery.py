"""What `penstock bench joinery` joins, and what it shows."""

from __future__ import annotations

from penstock.bench.joinery.events import join_events, state_events
from penstock.bench.joinery.large import plan_state_figures
from penstock.bench.joinery.suite import Joined, plan_figures
from penstock.core.errors import UnavailableError


def test_events_are_the_same_however_they_are_cut() -> None:
    whole = join_events(0, 1000, 10_000, 500, 3)

    assert join_events(0, 400, 10_000, 500, 3).equals(whole.slice(0, 400))
    assert join_events(400, 600, 10_000, 500, 3).equals(whole.slice(400))
    assert [whole["op"].to_pylist().count(op) for op in (1, 2)] == [980, 20]
    assert len(set(whole["join_key"].to_pylist())) > 300


def test_each_further_million_is_what_the_longer_run_took_more() -> None:
    ours = [
        Joined(1_000_000, 5, 4, 30.0, 20.0, 1 << 20, 1 << 30),
        Joined(3_000_000, 5, 12, 70.0, 50.0, 3 << 20, 1 << 30),
    ]
    theirs = [
        Joined(1_000_000, 5, 4, 50.0, 30.0, 1 << 20, 1 << 30),
        Joined(3_000_000, 5, 12, 150.0, 90.0, 1 << 22, 1 << 30),
    ]

    figures = {figure.name: figure for figure in plan_figures(2, ours, theirs)}

    further = figures["2 inputs, each further million events"]
    assert (further.value, further.peer_value, further.ok) == (20.0, 50.0, True)
    assert figures["2 inputs, 1,000,000 events, start included"].ok


def test_a_peer_that_is_not_there_is_told() -> None:
    ours = [Joined(events, 5, 4, 30.0, 20.0, 1, 1) for events in (1_000_000, 3_000_000)]

    figures = plan_figures(5, ours, UnavailableError("no network", "wait"))

    assert {figure.peer_value for figure in figures} == {None}
    assert {figure.note for figure in figures} == {"the peer could not be measured: no network"}


def test_rows_of_a_state_all_stay_and_five_have_one_join_key() -> None:
    events = state_events(0, 10_000)

    assert state_events(4000, 50).equals(events.slice(4000, 50))
    assert len(set(zip(events["input"].to_pylist(), events["row_key"].to_pylist(), strict=True))) == 10_000
    assert events["op"].to_pylist().count(2) == 0
    assert len(set(events["join_key"].to_pylist())) == 2000
    assert events["input"].to_pylist().count(0) == 100


def test_a_heap_over_the_bound_and_a_long_start_miss_their_targets() -> None:
    figures = plan_state_figures(2_000_000, 40.0, (3 << 30, 4 << 30, 1 << 30), 61.0)

    assert [(figure.value, figure.ok) for figure in figures] == [
        (3072.0, False),
        (4096.0, None),
        (1024.0, None),
        (20.0, None),
        (61.0, False),
    ]
