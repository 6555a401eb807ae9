"""What lies in a link's topics behind its checkpoint, and how far they must reach, where there are no transactions.

One producer writes at a time, so a partition ends where it ended before plus
what was sent. What a crash left behind the checkpoint is, in each partition, the
beginning of what comes next: it is not sent again, but held against it.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from contextlib import closing
from typing import TYPE_CHECKING, TypeAlias

from penstock.adapters.kafka.described import read_states, require_readable, wait_for_states
from penstock.adapters.kafka.ends import written_ends
from penstock.adapters.kafka.reader import TopicReader
from penstock.core.errors import UnavailableError
from penstock.core.topic_fingerprints import TopicState, foreign_message, other_writer, require_grown, require_same

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from confluent_kafka.admin import AdminClient

    from penstock.adapters.kafka.cluster import KafkaCluster
    from penstock.ports.publisher import MessageCheck

Place: TypeAlias = tuple[str, int]

_QUIET_SECONDS = 0.5
_QUIET_SECONDS_MAX = 30.0
_TAIL_BYTES_MAX = 512 << 20


class TopicTails:
    """The partitions of one link: what is checkpointed of them, what was found behind that, and where they end."""

    def __init__(self, cluster: KafkaCluster, admin: AdminClient, check: MessageCheck | None) -> None:
        """Know no topic yet. `check` tells which message is the foreign one, where one is."""
        self._cluster = cluster
        self._admin = admin
        self._check = check
        self._topics: dict[str, TopicState] = {}
        self._ends: dict[Place, int] = {}
        self._found: dict[Place, deque[tuple[int, bytes | None, bytes | None]]] = {}
        self._left_over: dict[str, int] = {}
        self._sent: Counter[Place] = Counter()
        self._matched: set[Place] = set()

    def recover(self, topics: Mapping[str, TopicState]) -> None:
        """Find what lies behind `topics`, as they were checkpointed.

        Raises PositionError if they cannot have become what they are.
        """
        found = self._quiet_states(topics)
        for topic, state in topics.items():
            now = found.get(topic)
            require_same(topic, state, None if now is None else (now.id, len(now.ends)))
            require_grown(topic, state, found[topic].ends, 0)
        ranges = {
            (topic, number): (start, end)
            for topic, state in topics.items()
            for number, (start, end) in enumerate(zip(state.ends, found[topic].ends, strict=True))
        }
        self._know(topics)
        self._ends = {place: end for place, (_, end) in ranges.items()}
        self._found = {place: deque() for place in ranges}
        size = 0
        with closing(TopicReader(self._cluster)) as reader:
            for place, offset, key, value in reader.scan(ranges):
                size += len(key or b"") + len(value or b"")
                if size > _TAIL_BYTES_MAX:
                    raise other_writer(place, ranges[place][0], f"more than {_TAIL_BYTES_MAX >> 20} MiB of it")
                self._found[place].append((offset, key, value))

    def begin_again(self, topics: Mapping[str, TopicState]) -> None:
        """Keep what was in the topics before a first publication that a crash broke off, if there was one."""
        found = self._quiet_states(topics)
        # One that was deleted meanwhile is begun anew, without anything left over.
        kept = {topic: now for topic, now in found.items() if now.id == topics[topic].id}
        self._left_over = {topic: sum(now.ends) - sum(topics[topic].ends) for topic, now in kept.items()}
        self._know(kept)

    def left_over(self, topic: str) -> int:
        """How many messages of it are in `topic`."""
        return self._left_over.get(topic, 0)

    def meet(self, topics: Sequence[str]) -> Mapping[str, TopicState]:
        """Return where topics end that were not known: to be checkpointed before anything is sent there.

        Raises PositionError for one with more partitions than anybody would read.
        """
        new = [topic for topic in topics if topic not in self._topics]
        states = wait_for_states(self._admin, new, lambda places: written_ends(self._admin, places))
        known = {**self._topics, **states}
        require_readable(self._cluster, {topic: known[topic] for topic in topics})
        self._know(states)
        return states

    def partitions(self, topic: str) -> int:
        """How many a topic has that was met."""
        return len(self._topics[topic].ends)

    def pass_over(self, place: Place, messages: Sequence[tuple[bytes | None, bytes | None]]) -> int:
        """Return how many (key, value) of the next messages of a partition are in it already.

        Raises PositionError where another one is in their place.
        """
        found = self._found.get(place)
        passed = 0
        while found and passed < len(messages):
            offset, *there = found[0]
            if tuple(there) != tuple(messages[passed]):
                topic, partition = place
                fault = "after the checkpoint should be what this pipeline publishes next, and this is something else"
                raise foreign_message(topic, partition, offset, fault)
            found.popleft()
            passed += 1
        if passed:
            self._matched.add(place)
        return passed

    def count(self, place: Place, messages: int) -> None:
        """Add messages that are on their way to a partition."""
        self._sent[place] += messages

    def settle(self, record: Mapping[str, object]) -> Mapping[str, TopicState]:
        """Return where the topics end that got messages, all of which Kafka has acknowledged: the next checkpoint.

        Raises PositionError if somebody else has written there too, UnavailableError
        if messages are missing.
        """
        ends = written_ends(self._admin, list(self._sent))
        for place, count in self._sent.items():
            expected, end = self._ends[place] + count, ends.get(place, 0)
            if end > expected:
                self._find_foreign(place, end, record)
                raise other_writer(place, expected, f"{end - expected} message(s)")
            if end < expected:
                message = f"Kafka acknowledged messages of {place[0]}/{place[1]} up to {expected}, and has only {end}"
                raise UnavailableError(message, "check the brokers; this link starts again and looks what is there")
            self._ends[place] = end
        # What is left over of a first publication is behind us with the one that was made instead.
        changed = {*(place[0] for place in (*self._sent, *self._matched)), *self._left_over}
        self._sent.clear()
        self._matched.clear()
        self._left_over.clear()
        states = {topic: TopicState(self._topics[topic].id, self._checkpointed(topic)) for topic in changed}
        self._topics |= states
        return states

    def require_topics(self) -> None:
        """Raise PositionError if a topic of ours is gone or another one: why publishing may have failed."""
        found = self._written_states(self._topics)
        for topic, state in self._topics.items():
            now = found.get(topic)
            require_same(topic, state, None if now is None else (now.id, len(now.ends)))

    def _know(self, states: Mapping[str, TopicState]) -> None:
        self._topics |= states
        self._ends |= {(topic, number): end for topic, state in states.items() for number, end in enumerate(state.ends)}

    def _checkpointed(self, topic: str) -> tuple[int, ...]:
        """Where the partitions of a topic would end without what was found there and has not come again yet."""
        places = [(topic, number) for number in range(self.partitions(topic))]
        return tuple(self._ends[place] - len(self._found.get(place, ())) for place in places)

    def _quiet_states(self, topics: Mapping[str, TopicState]) -> dict[str, TopicState]:
        """What the topics are, once nothing comes in: what a killed publisher sent may arrive after it.

        Raises PositionError if somebody writes there all the while.
        """
        deadline = time.monotonic() + _QUIET_SECONDS_MAX
        while True:
            before = self._written_states(topics)
            time.sleep(_QUIET_SECONDS)
            after = self._written_states(topics)
            if before == after:
                return after
            if time.monotonic() > deadline:
                for place, end in _grown(before, after):
                    raise other_writer(place, end, "more and more messages")

    def _written_states(self, topics: Mapping[str, TopicState]) -> dict[str, TopicState]:
        return read_states(self._admin, topics, lambda places: written_ends(self._admin, places))

    def _find_foreign(self, place: Place, end: int, record: Mapping[str, object]) -> None:
        """Raise PositionError for the first new message of a partition that cannot be ours, if one can be told."""
        check = self._check
        if check is None:
            return
        with closing(TopicReader(self._cluster)) as reader:
            for (topic, partition), offset, _, value in reader.scan({place: (self._ends[place], end)}):
                fault = check.fault(topic, value, record)
                if fault:
                    raise foreign_message(topic, partition, offset, fault)


def _grown(before: Mapping[str, TopicState], after: Mapping[str, TopicState]) -> Iterator[tuple[Place, int]]:
    """The partitions that got messages between two looks, and where each ended before."""
    for topic in sorted(before.keys() & after.keys()):
        for number, (was, now) in enumerate(zip(before[topic].ends, after[topic].ends, strict=False)):
            if now > was:
                yield (topic, number), was
