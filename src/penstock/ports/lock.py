"""The leader's lock: at most one instance of a pipeline runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Lock(Protocol):
    """Held by one process at a time; freed by the system when that process dies.

    A lock alone does not keep a process from publishing that was paused while
    it held it, and whose lock has gone to another one since: Kafka's fencing does.
    """

    @property
    def patience_seconds(self) -> float:
        """How long the lock of an instance that was killed may stay taken, with something to spare."""
        ...

    def acquire(self, wait_seconds: float) -> bool:
        """Try for up to `wait_seconds`; False if another instance still holds it.

        A lock with a queue keeps our place in it until `release`. Raises
        UnavailableError if a server that keeps the lock does not answer.
        """
        ...

    def holder(self) -> str:
        """Who holds it, in words for an operator ("pid 4711 since 12:00:01"); "" if nobody.

        Raises UnavailableError if a server that keeps the lock does not answer.
        """
        ...

    def tell_loss(self, listener: Callable[[str], None]) -> None:
        """Call `listener` once, with the reason, if the lock is lost while we hold it.

        It is called from another thread, in the moment in which we learn of it,
        and must not wait for anything.
        """
        ...

    def release(self) -> None:
        """Let go. Safe to call twice."""
        ...
