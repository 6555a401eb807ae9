"""The leader's lock: at most one instance of a pipeline runs."""

from __future__ import annotations

from typing import Protocol


class Lock(Protocol):
    """Held by one process at a time; freed by the system when that process dies."""

    def acquire(self, wait_seconds: float) -> bool:
        """Try for up to `wait_seconds`; False if another instance still holds it."""
        ...

    def holder(self) -> str:
        """Who holds it, in words for an operator ("pid 4711 since 12:00:01"); "" if nobody."""
        ...

    def release(self) -> None:
        """Let go. Safe to call twice."""
        ...
