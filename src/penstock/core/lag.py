"""Since when a link or a table is behind its log, known without a look at what lies ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Lag:
    """What was measured at `seen_at_ms`, in Unix milliseconds.

    `since_ms` is 0 at the end of the log, None where nobody knows; else all that
    was committed before it was carried, so that what is ahead is not older.
    `carried_ms` is the commit time of the newest change that was carried by then, None where nobody looked.
    """

    since_ms: int | None = None
    seen_at_ms: int = 0
    carried_ms: int | None = None


def follow_lag(before: Lag, *, is_behind: bool, carried_ms: int, now_ms: int) -> Lag:
    """Go on from the measurement `before`; `carried_ms` is the commit time of the newest change that was carried.

    Who is behind now and was not at the last look has fallen behind since then:
    that the newest change is old says nothing, because a log may have been idle.
    Who carries something new comes nearer, by its commit time, but not past the
    last look: the source's clock, or a session's SET TIMESTAMP, may be ahead of ours.
    """
    if not is_behind:
        return Lag(0, now_ms, carried_ms)
    if before.since_ms == 0:
        since_ms: int | None = before.seen_at_ms
    elif before.since_ms is None:
        since_ms = carried_ms or None
    else:
        has_carried = before.carried_ms is not None and carried_ms > before.carried_ms
        nearer_ms = min(carried_ms, before.seen_at_ms) if has_carried else 0
        since_ms = max(before.since_ms, nearer_ms)
    return Lag(since_ms and min(since_ms, now_ms), now_ms, carried_ms)


class NewestChange:
    """The commit time of what a link carried last, from that of each of its tables."""

    def __init__(self) -> None:
        """Nothing has been seen."""
        self._by_table: Mapping[str, int] = {}
        self._carried_ms = 0

    def carried_ms(self, by_table: Mapping[str, int]) -> int:
        """Go by the tables that moved since the last call: what another one carried long ago may be in the future."""
        moved = [at_ms for table, at_ms in by_table.items() if at_ms != self._by_table.get(table, 0)]
        self._by_table = dict(by_table)
        self._carried_ms = max(moved, default=self._carried_ms)
        return self._carried_ms


def lag_seconds(since_ms: int | None, now_ms: int) -> float | None:
    """How many seconds ago `Lag.since_ms` was: 0 at the end of the log, None where unknown."""
    return since_ms if since_ms is None or since_ms == 0 else max(0.0, (now_ms - since_ms) / 1000)
