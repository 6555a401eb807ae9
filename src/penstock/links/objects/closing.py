"""When what waits in a topic partition becomes a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


@dataclass(frozen=True, slots=True)
class BatchClosing:
    """A file is due at `rows` messages, at about `bytes` of them, or `seconds` after the first was seen.

    With 0 seconds everything is due at once: a file holds what came while the one
    before it was written, which is the least latency. A new schema closes a file in any case.
    """

    rows: int
    bytes: int
    seconds: float


AT_ONCE = BatchClosing(1, 1, 0.0)


class Waiting:
    """Remembers since when partitions have something that is in no file.

    Only in memory: after a restart, what waits may wait as long again.
    """

    def __init__(self, closing: BatchClosing) -> None:
        """Nothing waits yet."""
        self._closing = closing
        self._since: dict[tuple[str, int], tuple[int, float]] = {}
        self._now = 0.0
        self._told: Collection[tuple[str, str]] = ()
        self._message_bytes: Mapping[str, int] = {}

    def begin(self, now: float, told: Collection[tuple[str, str]], message_bytes: Mapping[str, int]) -> None:
        """Begin a round at `now`, in seconds.

        Tables (source, name) in `told` have a schema-change event that is to be passed on,
        for which all of their rows are needed. `message_bytes` are average sizes by topic.
        """
        self._now = now
        self._told = told
        self._message_bytes = message_bytes

    def waits(self, table: tuple[str, str], place: tuple[str, int], start: int, end: int) -> bool:
        """Whether the messages `[start, end)` of a (topic, partition) of `table` may still wait for more."""
        if self._closing.seconds <= 0 or table in self._told:
            return False
        known = self._since.get(place)
        if known is None or known[0] != start:
            known = (start, self._now)
            self._since[place] = known
        count = end - start
        size = count * self._message_bytes.get(place[0], 0)
        is_full = count >= self._closing.rows or size >= self._closing.bytes
        return not is_full and self._now - known[1] < self._closing.seconds
