"""The transactional publisher: messages and the position they bring us to, in one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.core.changes import Messages
    from penstock.core.errors import PositionError


class MessageCheck(Protocol):
    """Tells the messages of one link from others that are in its topics."""

    def is_shared(self, topic: str) -> bool:
        """Whether other links write to `topic` as well."""
        ...

    def fault(self, topic: str, value: bytes | None, record: Mapping[str, object]) -> str:
        """Why this link, which stands at `record`, cannot have written the message; "" if it can."""
        ...

    def is_of_one_table(self, topic: str) -> bool:
        """Whether somebody else's message in `topic` stops one table (CapturePublisher), and not the link."""
        ...


class Publisher(Protocol):
    """Publishes for one link, and for nobody else.

    Opening one fences every older publisher of the same link, and holds the link's
    record against the topics: PositionError where they do not explain each other.
    All messages of a `publish` and its record become visible together or not at all;
    or, with brokers that cannot do that, the messages first and the record soon
    after, and after a crash the rest of them before anything else.
    """

    def position(self) -> Mapping[str, object] | None:
        """The newest committed record of this link, None before the first."""
        ...

    def left_over(self, topic: str) -> int:
        """How many messages of ours, or more, are in `topic` of a copy that was broken off before this was opened.

        Nobody can publish those again: they are of a copy that is gone. To be asked only
        while there is no record of a whole copy.
        """
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
        Raises FencedError when a newer publisher exists, PositionError when a topic
        was deleted or recreated under us, and UnavailableError when the outcome is
        not known: open a new publisher and ask `position` then.
        """
        ...

    def save(self) -> None:
        """Make the record of what was published durable, where `publish` has left that for later.

        Whoever has nothing more to publish calls it, so that others soon see where the link stands.
        Raises what `publish` raises.
        """
        ...

    def settle(self) -> None:
        """Return when readers see everything that was published, and its record is durable.

        Kafka answers a commit when it is decided, and tells the partitions
        afterwards: a reader that asks at once may still find the record before.
        Raises UnavailableError when that takes too long, PositionError as `publish` does.
        """
        ...

    def close(self) -> None:
        """Abort what is open and drop the connection."""
        ...


class CapturePublisher(Publisher, Protocol):
    """Publishes for a capture or a join: each of its tables has a topic of its own."""

    def take_foreign(self) -> Mapping[str, PositionError]:
        """Topics of one table each to which somebody else has written, with the error.

        Whoever takes them commits that the tables have stopped. Until then `publish` raises one of them:
        who publishes past them would never hear of them again.
        """
        ...

    def partitions(self, topic: str) -> int:
        """How many partitions `topic` has, which was created."""
        ...

    def ends(self, topic: str) -> Sequence[int]:
        """Where the partitions of `topic`, which was created, end now, with messages that nobody may read yet.

        Raises UnavailableError when the brokers are away.
        """
        ...
