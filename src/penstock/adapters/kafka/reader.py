"""Reading topics by offset, committed messages only."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from penstock.adapters.kafka.cluster import REQUEST_TIMEOUT_SECONDS, KafkaCluster, explain, open_admin
from penstock.adapters.kafka.described import describe_topics, meet
from penstock.adapters.kafka.ends import begins_now, committed_ends, settled_ends
from penstock.adapters.kafka.fetched import by_place, ends_at, entry, next_offsets, take, take_whole, thrown_away
from penstock.core.errors import PositionError, UnavailableError
from penstock.core.garbage import no_collection

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from confluent_kafka.admin import AdminClient

    from penstock.core.spolts.raw import RawMessage
    from penstock.ports.topics import Fetched

_FETCH_MESSAGES = 8192
_QUEUED_KIBIBYTES = 8192
"""How much of a partition waits in memory to be taken: more only makes what is taken colder."""
_TAIL_OFFSETS = 64
_POLL_SECONDS = 0.5
_PROGRESS_SECONDS = 10.0
"""How often the client says how far it has come. Nothing else tells of messages that were rolled back."""
_MEET_SECONDS = 5.0


class TopicReader:
    """Reads ranges of offsets (ports/topics.TopicLog). It belongs to no consumer group and commits nothing."""

    def __init__(self, cluster: KafkaCluster) -> None:
        """Make the client; nothing is sent before the first read."""
        self._cluster = cluster
        self._admin: AdminClient | None = None
        self._met: set[str] = set()
        self._begins: Mapping[tuple[str, int], int] = {}
        self._settled: dict[tuple[str, int], int] = {}
        self._deadline = 0.0
        self._heard = False
        self._progress: list[str] | None = None
        self._consumer = self._open_consumer()

    def _open_consumer(self) -> Consumer:
        settings: dict[str, Any] = {
            **self._cluster.client_settings(),
            "group.id": "penstock-reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
            "fetch.queue.backoff.ms": 5,
            "queued.max.messages.kbytes": _QUEUED_KIBIBYTES,
        }
        if self._progress is not None:
            settings |= {"statistics.interval.ms": int(_PROGRESS_SECONDS * 1000), "stats_cb": self._progress.append}
        return Consumer(settings)

    @property
    def admin(self) -> AdminClient:
        """The client that it asks brokers with, for whoever has something to ask as well."""
        if self._admin is None:
            self._admin = open_admin(self._cluster)
        return self._admin

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Sequence[tuple[int, bytes]]]:
        """Yield (offset, value) of the committed messages of `[start, end)`; see ports/topics.TopicLog."""
        if start >= end:
            return
        place, done = (topic, partition), False
        with self._assigned({place: start}):
            for fetched in self._fetches(topic, [place]):
                self._heard = True
                messages: list[tuple[int, bytes]] = []
                for message in fetched:
                    done = done or ends_at(message, end)
                    if not done and message.error() is None:
                        messages.append(entry(message))
                done = done or (bool(messages) and messages[-1][0] == end - 1)
                if messages:
                    yield messages
                if done:
                    return

    def read_together(
        self, ranges: Mapping[tuple[str, int], tuple[int, int]], bytes_max: int
    ) -> Iterator[tuple[tuple[str, int], Fetched]]:
        """Read many ranges at once; see ports/topics.TopicLog."""
        room = {place: bytes_max for place, (start, end) in ranges.items() if start < end}
        reached = {place: start for place, (start, _) in ranges.items()}
        for place, messages in self._gather(ranges, room):
            try:
                taken, more = take(messages, ranges[place][1], room[place])
            except PositionError as error:
                begins = self.begins([place]).get(place, 0)
                taken, more = thrown_away(place, reached[place], begins, error), False
            room[place] -= taken.size_bytes
            if not more:
                del room[place]
            if taken.offsets:
                reached[place] = taken.offsets[-1] + 1
            if taken.offsets or taken.unreadable is not None:
                yield place, taken

    def read_messages(
        self, ranges: Mapping[tuple[str, int], tuple[int, int]], bytes_max: int
    ) -> Mapping[tuple[str, int], Sequence[RawMessage]]:
        """Read many ranges at once, whole messages; see ports/messages.MessageLog."""
        read: dict[tuple[str, int], list[RawMessage]] = {place: [] for place in ranges}
        room = {place: bytes_max for place, (start, end) in ranges.items() if start < end}
        with no_collection():
            for place, messages in self._gather(ranges, room):
                room[place] -= take_whole(messages, ranges[place][1], room[place], read[place])
                if room[place] <= 0:
                    del room[place]
        return read

    def _gather(
        self, ranges: Mapping[tuple[str, int], tuple[int, int]], wanted: Mapping[tuple[str, int], object]
    ) -> Iterator[tuple[tuple[str, int], Sequence[Message]]]:
        """Yield what comes of many ranges, in stretches of one place, as long as a place is in `wanted`."""
        with self._assigned({place: ranges[place][0] for place in wanted}):
            for fetched in self._fetches(f"{len(wanted)} topics", wanted) if wanted else ():
                for place, messages in by_place(fetched):
                    if place in wanted:
                        self._heard = True
                        yield place, messages
                if not wanted:
                    return

    def ends(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """For each (topic, partition): the first offset that is not yet committed. Absent ones are left out."""
        return committed_ends(self.admin, partitions)

    def settled_ends(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """Where partitions end once all in them is decided; see ports/topics.TopicLog."""
        settled = settled_ends(self.admin, partitions, self._settled)
        self._settled |= settled
        return settled

    def ids(self, topics: Collection[str]) -> Mapping[str, str]:
        """The ids of topics (KIP-516); see ports/topics.TopicLog."""
        return {topic: topic_id for topic, (topic_id, _) in self.shapes(topics).items()}

    def shapes(self, topics: Collection[str]) -> Mapping[str, tuple[str, int]]:
        """The ids of topics and how many partitions they have; see ports/messages.MessageLog."""
        return describe_topics(self.admin, topics)

    def begins(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """For each (topic, partition): the first offset that is still kept. Absent ones are left out."""
        return begins_now(self.admin, partitions)

    def scan(
        self, ranges: Mapping[tuple[str, int], tuple[int, int]]
    ) -> Iterator[tuple[tuple[str, int], int, bytes | None, bytes | None]]:
        """Yield ((topic, partition), offset, key, value) of the committed messages of many `[start, end)`, one by one.

        Those of a partition come in order; nothing is kept. Raises what `read` raises.
        """
        ends = {place: end for place, (start, end) in ranges.items() if start < end}
        with self._assigned({place: ranges[place][0] for place in ends}):
            for fetched in self._fetches(f"{len(ends)} topics", ends) if ends else ():
                for message in fetched:
                    place = (message.topic() or "", message.partition() or 0)
                    if place not in ends:
                        continue
                    self._heard = True
                    if ends_at(message, ends[place]):
                        del ends[place]
                    elif message.error() is None:
                        offset = message.offset() or 0
                        if offset == ends[place] - 1:
                            del ends[place]
                        yield place, offset, message.key(), message.value()
                if not ends:
                    return

    def cluster_id(self) -> str:
        """The id that the cluster gave itself when it was made. Raises UnavailableError."""
        try:
            # No list of topics: a cluster may have thousands.
            found = self.admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_SECONDS).result()
        except KafkaException as error:
            raise explain(error, "asking for the cluster's id") from error
        return str(found.cluster_id or "")

    def newest(self, topic: str, partition: int = 0) -> bytes | None:
        """Return the last committed value of a partition; None if the topic is empty or does not exist."""
        asked, place = [(topic, partition)], (topic, partition)
        high = self.ends(asked).get(place)
        low = begins_now(self.admin, asked).get(place)
        if high is None or low is None:
            return None
        back = _TAIL_OFFSETS
        while True:
            start = max(low, high - back)
            newest = None
            for messages in self.read(topic, partition, start, high):
                newest = messages[-1][1]
            if newest is not None or start == low:
                return newest
            back *= 8

    def close(self) -> None:
        """Drop the connection."""
        self._progress = None
        self._consumer.close()

    @contextmanager
    def _assigned(self, begins: Mapping[tuple[str, int], int]) -> Iterator[None]:
        self._assign(begins)
        try:
            yield
        finally:
            # Whatever stays assigned is fetched on and on in the background. A client that was closed has nothing.
            with suppress(RuntimeError):
                self._consumer.unassign()
            if self._progress is not None:
                # What it says of its progress would gather in memory while nobody reads.
                self._progress = None
                self._replace_consumer()

    def _assign(self, begins: Mapping[tuple[str, int], int]) -> None:
        self._begins = begins
        new = {topic for topic, _ in begins} - self._met
        if new:
            meet(self._consumer, new)
            self._met |= new
        self._consumer.assign([TopicPartition(*place, start) for place, start in begins.items()])

    def _fetches(self, what: str, wanted: Collection[tuple[str, int]]) -> Iterator[list[Message]]:
        """Yield what comes in, for ever. `consume` alone would wait for its whole number of messages.

        Whoever finds what is `wanted` in it, which may become less, says so by `_heard`.
        Raises UnavailableError when nothing of that comes: neither messages nor a
        stretch of a topic that was rolled back, of which there is no message however
        long it takes.
        """
        self._await_anew()
        while True:
            first = self._consumer.poll(_POLL_SECONDS)
            if first is not None:
                self._heard = False
                yield [first, *self._consumer.consume(_FETCH_MESSAGES, timeout=0)]
                if self._heard:
                    # From now on: whoever took it may have taken long.
                    self._await_anew()
            if time.monotonic() > self._deadline:
                if not self._comes_on(wanted):
                    text = f"Kafka sent nothing of {what} for {REQUEST_TIMEOUT_SECONDS:.0f} s"
                    raise UnavailableError(text, "check that the brokers run and can be reached")
                self._await_anew()

    def _await_anew(self) -> None:
        """Forget how far the client has come; it must have come further before the deadline."""
        if self._progress:
            self._progress.clear()
        self._deadline = time.monotonic() + REQUEST_TIMEOUT_SECONDS

    def _comes_on(self, wanted: Collection[tuple[str, int]]) -> bool:
        """Whether there is more to wait for: brokers that answer, at first; from then on, what comes in from them.

        What is left of what is wanted is read by a client that says how far it has come.
        """
        if self._progress is not None:
            return len({next_offsets(said, wanted) for said in self._progress}) > 1
        left = [
            TopicPartition(at.topic, at.partition, max(at.offset, self._begins[at.topic, at.partition]))
            for at in self._consumer.position([TopicPartition(*place) for place in wanted])
        ]
        self._progress = []
        self._replace_consumer()
        try:
            self._consumer.list_topics(timeout=_MEET_SECONDS)
        except KafkaException:
            return False
        self._consumer.assign(left)
        return True

    def _replace_consumer(self) -> None:
        self._consumer.close()
        self._met.clear()
        self._consumer = self._open_consumer()
