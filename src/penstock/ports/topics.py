"""Topics, read by offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from penstock.core.errors import UnreadableMessageError


@dataclass(frozen=True, slots=True)
class Fetched:
    """Messages of one (topic, partition): offsets, and values of as many, `size_bytes` in all.

    The message behind them cannot be had where `unreadable` says so.
    """

    offsets: Sequence[int]
    values: Sequence[bytes]
    size_bytes: int
    unreadable: UnreadableMessageError | None = None


class TopicLog(Protocol):
    """Committed messages only: what an aborted or open transaction holds is never seen."""

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Sequence[tuple[int, bytes]]]:
        """Yield (offset, value) of the messages of `[start, end)`, in lists, in order.

        `end` must not be past the end of the partition. Raises PositionError when
        `start` has been thrown away and UnavailableError when the brokers are away.
        """
        ...

    def read_together(
        self, ranges: Mapping[tuple[str, int], tuple[int, int]], bytes_max: int
    ) -> Iterator[tuple[tuple[str, int], Fetched]]:
        """Read `[start, end)` of many (topic, partition) at once, which is much quicker than one after another.

        Yields them as they come, in stretches of one (topic, partition), in order
        within each. A partition whose messages have `bytes_max` bytes is left there:
        its last message is then short of its end. One of which messages were thrown away
        ends with what says so (Fetched.unreadable). Raises what `read` raises otherwise.
        """
        ...

    def ends(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """For each (topic, partition): the first offset that is not yet committed. Absent ones are left out."""
        ...

    def settled_ends(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """For each (topic, partition): its end, once every transaction with messages in it is decided there.

        `ends` hides what is committed behind a transaction of somebody else that is open. This waits for its
        end, and raises UnavailableError when that takes too long. Absent ones are left out.
        """
        ...

    def ids(self, topics: Collection[str]) -> Mapping[str, str]:
        """For each topic: what tells it from others that had its name, "" where the brokers do not know.

        Absent ones are left out.
        """
        ...

    def close(self) -> None:
        """Drop the connection."""
        ...


class TopicTail(Protocol):
    """Some partitions, followed at their ends: committed messages only, and no broker is asked while there are none."""

    def include(self, starts: Mapping[tuple[str, int], int]) -> None:
        """Follow those of `starts`, first offsets by (topic, partition), that are not followed yet."""
        ...

    def take(self, messages_max: int, wait_seconds: float) -> Sequence[tuple[tuple[str, int], int, bytes]]:
        """Return (partition, offset, value) of messages that came, at most so many, in the order of each partition.

        Waits for the first of them, and returns none after `wait_seconds`: brokers
        that are away look like that too, so whoever waits long asks `TopicLog.ends`.
        Raises PositionError when an offset has been thrown away.
        """
        ...

    def close(self) -> None:
        """Drop the connection."""
        ...
