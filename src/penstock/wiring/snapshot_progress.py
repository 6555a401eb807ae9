"""How far a snapshot is, in the words and figures that the command line, the page and the metrics share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.snapshots import Status, Wanted

if TYPE_CHECKING:
    from penstock.ports.snapshots import Snapshot

_WORDS = {Wanted.PAUSE: "pausing", Wanted.CANCEL: "being cancelled"}


def seconds_left(snapshot: Snapshot) -> float | None:
    """About how long it takes until it is done, at the pace while it ran; None if nobody knows."""
    if snapshot.status is not Status.RUNNING or not snapshot.rows or not snapshot.rows_expected:
        return None
    if snapshot.options.where or not snapshot.ran_ms:
        return None
    return round(snapshot.ran_ms / 1000 * max(0, snapshot.rows_expected - snapshot.rows) / snapshot.rows, 1)


def state_word(snapshot: Snapshot) -> str:
    """How it is, in a word or two."""
    if snapshot.status.has_ended or (snapshot.status is Status.PAUSED and snapshot.wanted is Wanted.PAUSE):
        return snapshot.status
    return _WORDS.get(snapshot.wanted, snapshot.status)


def share_done(snapshot: Snapshot) -> float | None:
    """Which part of its rows it has read, from 0 to 1; None if nobody knows how many there are."""
    if snapshot.status is Status.DONE:
        return 1.0
    if not snapshot.rows_expected or snapshot.options.where:
        return None
    return min(1.0, snapshot.rows / snapshot.rows_expected)
