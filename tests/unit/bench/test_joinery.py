"""What `penstock bench joinery` joins, and what it shows."""

from __future__ import annotations

from penstock.bench.joinery.events import join_events
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
