"""The transactional publisher: messages and the position they bring us to, in one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.core.changes import Messages


class Publisher(Protocol):
    """Publishes for one link, and for nobody else.

    Opening one fences every older publisher of the same link. All messages of a
    `publish` and its record become visible together or not at all.
    """

    def position(self) -> Mapping[str, object] | None:
        """The newest committed record of this link, None before the first."""
        ...

    def create_topics(self, topics: Iterable[str]) -> None:
        """Create those of `topics` that do not exist, so that readers who are told of them find them.

        Raises UnavailableError when the brokers are away, PenstockError when they refuse.
        """
        ...

    def publish(self, messages: Iterable[Messages], record: Callable[[], Mapping[str, object]]) -> None:
        """Commit `messages`, in their order, together with the position record.

        `messages` are taken one at a time, so they need not fit into memory
        together; `record` is asked for when the last one is sent.
        Raises FencedError when a newer publisher exists and UnavailableError when
        the outcome is not known: open a new publisher and ask `position` then.
        """
        ...

    def settle(self) -> None:
        """Return when readers see everything that was published.

        Kafka answers a commit when it is decided, and tells the partitions
        afterwards: a reader that asks at once may still find the record before.
        Raises UnavailableError when that takes too long.
        """
        ...

    def close(self) -> None:
        """Abort what is open and drop the connection."""
        ...
