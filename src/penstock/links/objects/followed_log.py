"""Topics that are read at their ends: what a tail has brought is neither asked for again nor fetched a second time.

An end that the tail tells lies before a transaction's marker, or before what has not
come yet: it is never too far. Where more must be certain, brokers are asked: where a
ledger has grown, by whose messages rows are told apart, until it has not; for
partitions that are not followed; and after `look`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.errors import PositionError
from penstock.ports.topics import Fetched

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from penstock.ports.topics import TopicLog, TopicTail

HELD_MESSAGES_MAX = 25_000
_HELD_BYTES_MAX = 32 << 20
_AT_ONCE = 10_000
_FEW = 1_000
_LINGER_SECONDS = 0.005
"""How long more is waited for behind what came: partitions of one transaction come one after the other."""


@dataclass(slots=True)
class _Held:
    """Messages of a partition: all of those from `begin` to before `end`."""

    begin: int
    end: int
    messages: list[tuple[int, bytes]] = field(default_factory=list)

    def cut(self, start: int, end: int, bytes_max: int) -> Fetched:
        """Those of `[start, end)`; of more than `bytes_max` bytes the first."""
        offsets: list[int] = []
        values: list[bytes] = []
        size = 0
        for offset, value in self.messages:
            if start <= offset < end and size < bytes_max:
                offsets.append(offset)
                values.append(value)
                size += len(value)
        return Fetched(offsets, values, size)


class FollowedLog:
    """`log`, and a tail of what is told to be followed. It implements the port `TopicLog`; for one thread."""

    def __init__(
        self,
        log: TopicLog,
        open_tail: Callable[[Mapping[tuple[str, int], int]], TopicTail],
    ) -> None:
        """Follow nothing yet."""
        self._log = log
        self._open_tail = open_tail
        self._tail: TopicTail | None = None
        self._ledger_ends: Mapping[tuple[str, int], int] = {}
        self._must_ask = True
        self._reached: dict[tuple[str, int], int] = {}
        self._held: dict[tuple[str, int], _Held] = {}
        self._bytes = 0
        self._ids: dict[str, str] = {}

    def follow(self, starts: Mapping[tuple[str, int], int]) -> None:
        """Follow those of `starts`, too, and let go of what is before them."""
        if self._tail is None:
            self._tail = self._open_tail(starts)
        else:
            self._tail.include(starts)
        for place, start in starts.items():
            held = self._held.setdefault(place, _Held(start, start))
            held.begin = max(held.begin, start)
            if held.messages and held.messages[0][0] < start:
                held.messages = [message for message in held.messages if message[0] >= start]
        self._bytes = sum(len(value) for held in self._held.values() for _, value in held.messages)

    def gather(self, wait_seconds: float) -> bool:
        """Take what has come, or wait for something; whether there was any. Raises UnavailableError."""
        try:
            return self._gather(wait_seconds)
        except PositionError:
            # Something was thrown away before it came. Who asks brokers for it learns of which table it was.
            self.forget()
            return True

    def _gather(self, wait_seconds: float) -> bool:
        came = self._tail.take(_AT_ONCE, wait_seconds) if self._tail is not None else ()
        taken = 0
        while came and self._tail is not None:
            for place, offset, value in came:
                held = self._held[place]
                held.messages.append((offset, value))
                held.end = offset + 1
                self._reached[place] = max(self._reached.get(place, 0), held.end)
                self._bytes += len(value)
            taken += len(came)
            if self._bytes > _HELD_BYTES_MAX:
                self._let_go()
            came = self._tail.take(_AT_ONCE, _LINGER_SECONDS) if taken < HELD_MESSAGES_MAX else ()
        # Behind many there may be many more, which a tail would bring one handful after the other.
        self._must_ask = self._must_ask or taken > _FEW
        return taken > 0

    def look(self) -> None:
        """Ask brokers next time, although a tail may know."""
        self._must_ask = True
        self._ids.clear()

    def forget(self) -> None:
        """Follow nothing any more."""
        if self._tail is not None:
            self._tail.close()
            self._tail = None
        self._reached.clear()
        self._held.clear()
        self._bytes = 0
        self.look()

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Sequence[tuple[int, bytes]]]:
        """See `TopicLog`."""
        return self._log.read(topic, partition, start, end)

    def read_together(
        self, ranges: Mapping[tuple[str, int], tuple[int, int]], bytes_max: int
    ) -> Iterator[tuple[tuple[str, int], Fetched]]:
        """See `TopicLog`."""
        asked: dict[tuple[str, int], tuple[int, int]] = {}
        for place, (start, end) in ranges.items():
            held = self._held.get(place)
            if held is None or start < held.begin or end > held.end:
                asked[place] = (start, end)
            elif (fetched := held.cut(start, end, bytes_max)).offsets:
                yield place, fetched
        if asked:
            yield from self._log.read_together(asked, bytes_max)

    def ends(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """See `TopicLog`."""
        if not self._must_ask and all(place in self._reached for place in partitions):
            return {place: self._reached[place] for place in partitions}
        found = self._log.ends(partitions)
        self._reached = {place: end for place, end in self._reached.items() if place not in partitions} | dict(found)
        return found

    def settled_ends(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """See `TopicLog`. Brokers are asked, of the ledgers, which tell what the messages of others are."""
        found = self._log.settled_ends(partitions)
        self._must_ask = found != self._ledger_ends
        self._ledger_ends = found
        return found

    def ids(self, topics: Collection[str]) -> Mapping[str, str]:
        """See `TopicLog`."""
        if not self._ids.keys() >= set(topics):
            self._ids |= self._log.ids(topics)
        return {topic: self._ids[topic] for topic in topics if topic in self._ids}

    def close(self) -> None:
        """See `TopicLog`."""
        self.forget()
        self._log.close()

    def _let_go(self) -> None:
        """Hold nothing of what waits: it can be fetched again."""
        for held in self._held.values():
            held.begin, held.messages = held.end, []
        self._bytes = 0
