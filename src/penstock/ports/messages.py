"""Topics as anybody writes them: keys, tombstones, times and headers as well as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.core.spolts.raw import RawMessage


class MessageLog(Protocol):
    """Committed messages only, as `ports/topics.TopicLog` reads them."""

    def read_messages(
        self, ranges: Mapping[tuple[str, int], tuple[int, int]], bytes_max: int
    ) -> Mapping[tuple[str, int], Sequence[RawMessage]]:
        """Read `[start, end)` of many (topic, partition) at once.

        A partition whose keys and values have `bytes_max` bytes is left there: its last
        message is then short of its end. Raises PositionError when a start has been
        thrown away and UnavailableError when the brokers are away.
        """
        ...

    def shapes(self, topics: Collection[str]) -> Mapping[str, tuple[str, int]]:
        """For each topic: what tells it from others of its name ("" if nothing does), and how many partitions it has.

        Absent ones are left out, and asking makes none. Raises UnavailableError.
        """
        ...

    def begins(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """For each (topic, partition): the first offset that was not thrown away. Absent ones are left out."""
        ...

    def close(self) -> None:
        """Drop the connection."""
        ...
