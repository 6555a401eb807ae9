"""Since when a link or a table is behind its log, known without a look at what lies ahead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lag:
    """What was measured at `seen_at_ms`, in Unix milliseconds.

    `since_ms` is 0 at the end of the log, None where nobody knows; else all that
    was committed before it was carried, so that what is ahead is not older.
    """

    since_ms: int | None = None
    seen_at_ms: int = 0


def follow_lag(before: Lag, *, is_behind: bool, carried_ms: int, now_ms: int) -> Lag:
    """Go on from the measurement `before`; `carried_ms` is the commit time of the newest change that was carried.

    Who is behind now and was not at the last look has fallen behind since then:
    that the newest change is old says nothing, because a log may have been idle.
    """
    if not is_behind:
        return Lag(0, now_ms)
    if before.since_ms == 0:
        since_ms: int | None = max(before.seen_at_ms, carried_ms)
    elif before.since_ms is None:
        since_ms = carried_ms or None
    else:
        since_ms = max(before.since_ms, carried_ms)
    return Lag(since_ms and min(since_ms, now_ms), now_ms)


def lag_seconds(since_ms: int | None, now_ms: int) -> float | None:
    """How many seconds ago `Lag.since_ms` was: 0 at the end of the log, None where unknown."""
    return since_ms if since_ms is None or since_ms == 0 else max(0.0, (now_ms - since_ms) / 1000)
