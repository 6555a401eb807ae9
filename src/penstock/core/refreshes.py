"""What the Schematizer is told of a snapshot: it is one of its refreshes, and goes where those may go."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from penstock.core.snapshots import Status

RefreshStatus: TypeAlias = Literal["not_started", "in_progress", "paused", "success", "failed"]

_STATUS: Final[dict[Status, RefreshStatus]] = {
    Status.REQUESTED: "not_started",
    Status.RUNNING: "in_progress",
    Status.PAUSED: "paused",
    Status.DONE: "success",
    Status.FAILED: "failed",
    Status.CANCELLED: "failed",
}
_NEXT: Final[dict[RefreshStatus, frozenset[RefreshStatus]]] = {
    "not_started": frozenset({"in_progress", "failed"}),
    "in_progress": frozenset({"paused", "success", "failed"}),
    "paused": frozenset({"in_progress", "failed"}),
    "success": frozenset(),
    "failed": frozenset(),
}


def plan_moves(known: RefreshStatus, status: Status) -> tuple[RefreshStatus, ...]:
    """By which statuses a refresh that is `known` comes to that of a snapshot; none if it is there, or has ended."""
    wanted = _STATUS[status]
    if known == wanted or not _NEXT[known] or wanted == "not_started":
        return ()
    return (wanted,) if wanted in _NEXT[known] else ("in_progress", wanted)
