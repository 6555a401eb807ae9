"""How a refresh of the Schematizer comes to where a snapshot is."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.refreshes import RefreshStatus, plan_moves
from penstock.core.snapshots import Status
from penstock.schematizer.metadata.refreshes import _NEXT
from penstock.schematizer.storage.usage_models import RefreshStatus as Stored


@given(st.sampled_from(get_args(RefreshStatus)), st.lists(st.sampled_from(Status)))
def test_a_refresh_follows_its_snapshot_by_moves_that_the_schematizer_takes(
    known: RefreshStatus, statuses: list[Status]
) -> None:
    for status in statuses:
        for move in plan_moves(known, status):
            assert Stored(move) in _NEXT[Stored(known)]
            known = move
        if status is Status.DONE:
            assert known in {"success", "failed"}


def test_a_snapshot_that_is_cancelled_is_a_refresh_that_failed() -> None:
    assert plan_moves("paused", Status.CANCELLED) == ("failed",)
    assert plan_moves("not_started", Status.DONE) == ("in_progress", "success")
    assert plan_moves("in_progress", Status.REQUESTED) == ()
