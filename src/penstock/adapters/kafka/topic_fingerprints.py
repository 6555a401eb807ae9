"""Holds a link's record against the topics that it publishes to, and takes fingerprints (core/topic_fingerprints.py).

Nothing is asked per transaction: a topic fingerprint is taken where the publisher settles, and
when it meets a topic for the first time. It is committed with the next record,
on a topic of its own, because a record is written every few milliseconds.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

from penstock.adapters.kafka.cluster import REQUEST_TIMEOUT_SECONDS, explain
from penstock.adapters.kafka.described import describe_topics, read_states, require_readable, wait_for_states
from penstock.adapters.kafka.ends import settled_ends, written_ends
from penstock.adapters.kafka.topics import fingerprint_topic, position_topic
from penstock.core.errors import START_ANEW, PositionError
from penstock.core.topic_fingerprints import (
    Since,
    TopicFingerprint,
    TopicState,
    foreign_message,
    require_authority,
    require_count,
    require_grown,
    require_same,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from confluent_kafka.admin import AdminClient

    from penstock.adapters.kafka.cluster import KafkaCluster
    from penstock.adapters.kafka.reader import TopicReader
    from penstock.ports.publisher import MessageCheck


class TopicFingerprints:
    """The newest topic fingerprint of one link, and what was published since."""

    def __init__(
        self, cluster: KafkaCluster, admin: AdminClient, pipeline: str, link: str, check: MessageCheck | None
    ) -> None:
        """Know nothing yet: `verify` comes first. Without a `check` every message in the topics counts as ours."""
        self.topic = fingerprint_topic(pipeline, link)
        self._position_topic = position_topic(pipeline, link)
        self._cluster = cluster
        self._admin = admin
        self._check = check
        self._fingerprint = TopicFingerprint()
        self._is_committed = True
        self._since: dict[str, int] = {}
        self._found: Mapping[str, TopicState] = {}
        self.foreign: dict[str, PositionError] = {}
        """Topics of one table each in which there are messages of others."""

    @property
    def messages(self) -> int:
        """How many were published since the topic fingerprint."""
        return sum(self._since.values())

    def verify(self, record: Mapping[str, object] | None, reader: TopicReader) -> None:
        """Hold `record`, the newest, against the topics, and take a fingerprint. Every transaction of ours is settled.

        Raises PositionError where they do not explain each other.
        """
        newest = reader.newest(self.topic)
        fingerprint = TopicFingerprint() if newest is None else TopicFingerprint.from_mapping(json.loads(newest))
        if record is None:
            self._require_new(fingerprint)
            return
        require_authority(self._position_topic, record)
        since = Since.of_record(record)
        if since is None:
            self._fingerprint = TopicFingerprint(fingerprint.number)
            return
        messages = since.after(fingerprint)
        found = read_states(self._admin, fingerprint.topics, self.settled_ends)
        for topic, expected in fingerprint.topics.items():
            require_same(topic, expected, _what(found.get(topic)))
            require_grown(topic, expected, found[topic].ends, messages.get(topic, 0))
        self._require_counts(reader, fingerprint, found, messages, record)
        self._found = found
        self._fingerprint = TopicFingerprint(fingerprint.number, found)
        if found != fingerprint.topics:
            self._change(found)

    def found(self, topic: str) -> int:
        """How many offsets `topic` had when the record was held against it, 0 if it was none of ours then."""
        state = self._found.get(topic)
        return 0 if state is None else sum(state.ends)

    def meet(self, topics: Collection[str]) -> None:
        """Take a fingerprint of the topics that are to be published to, and exist; those that are known keep theirs.

        Raises PositionError for one with more partitions than anybody would read.
        """
        new = [topic for topic in topics if topic not in self._fingerprint.topics]
        states = wait_for_states(self._admin, new, self.settled_ends)
        known = {**self._fingerprint.topics, **states}
        require_readable(self._cluster, {topic: known[topic] for topic in topics})
        if new:
            self._change(known)

    def knows(self, topic: str) -> bool:
        """Whether `topic` was met."""
        return topic in self._fingerprint.topics

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has that was met."""
        return len(self._fingerprint.topics[topic].ends)

    def count(self, topic: str, messages: int) -> None:
        """Add messages that are on their way to `topic`."""
        self._since[topic] = self._since.get(topic, 0) + messages

    def stamp(self, record: Mapping[str, object]) -> dict[str, object]:
        """Return `record` with what was published since the topic fingerprint."""
        return {**record, **Since(self._fingerprint.number, self._since).to_mapping()}

    def uncommitted(self) -> bytes | None:
        """The topic fingerprint, if it is not in Kafka yet: it belongs into the next transaction."""
        return None if self._is_committed else json.dumps(self._fingerprint.to_mapping()).encode()

    def commit(self) -> None:
        """The transaction with the topic fingerprint is committed."""
        self._is_committed = True

    def take(self, described: Mapping[str, tuple[str, int]], ends: Mapping[tuple[str, int], int]) -> None:
        """Take a fingerprint of settled topics: what the brokers say of them, and where their partitions end.

        Raises PositionError if they are not what we published to.
        """
        states = {}
        for topic, expected in self._fingerprint.topics.items():
            if topic in described:
                require_same(topic, expected, described[topic])
                found = [ends.get((topic, number), 0) for number in range(len(expected.ends))]
                require_grown(topic, expected, found, self._since.get(topic, 0))
                states[topic] = TopicState(described[topic][0], tuple(found))
            elif topic in self._since:
                require_same(topic, expected, None)
        self._change({**self._fingerprint.topics, **states})
        self._since = {}

    def settled_ends(self, places: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """Where partitions end, once what was published there is decided.

        Of topics where others write too: where they end now. Of somebody's open transaction nobody waits for the end.
        """
        return {
            **settled_ends(self._admin, [place for place in places if not self._is_shared(place[0])]),
            **written_ends(self._admin, [place for place in places if self._is_shared(place[0])]),
        }

    def require_topics(self) -> None:
        """Raise PositionError if a topic of ours is gone or another one: why publishing may have failed."""
        found = describe_topics(self._admin, self._fingerprint.topics)
        for topic, expected in self._fingerprint.topics.items():
            require_same(topic, expected, found.get(topic))

    def _change(self, topics: Mapping[str, TopicState]) -> None:
        self._fingerprint = TopicFingerprint(self._fingerprint.number + self._is_committed, topics)
        self._is_committed = False

    def _require_new(self, fingerprint: TopicFingerprint) -> None:
        """Without a record there must have been no link."""
        if fingerprint.number:
            message = f"{self._position_topic} has no position, although its link has published before"
            raise PositionError(message, f"the topic was deleted or recreated: restore it, or {START_ANEW}")

    def _require_counts(
        self,
        reader: TopicReader,
        fingerprint: TopicFingerprint,
        found: Mapping[str, TopicState],
        messages: Mapping[str, int],
        record: Mapping[str, object],
    ) -> None:
        """Count what is committed behind the topic fingerprint, topic by topic, where nobody else writes."""
        ranges = {
            (topic, number): (start, end)
            for topic, expected in fingerprint.topics.items()
            if topic != self._position_topic and not self._is_shared(topic)
            for number, (start, end) in enumerate(zip(expected.ends, found[topic].ends, strict=True))
            if start < end
        }
        begins = reader.begins(list(ranges))
        kept = {place: (max(start, begins.get(place, 0)), end) for place, (start, end) in ranges.items()}
        expired = {place[0] for place in ranges if kept[place] != ranges[place]}
        counted = Counter(topic for (topic, _), _, _, _ in reader.scan(kept))
        for topic in sorted({place[0] for place in ranges}):
            count, wanted = counted[topic], messages.get(topic, 0)
            try:
                if count > wanted:
                    self._find_foreign(reader, {place: kept[place] for place in kept if place[0] == topic}, record)
                if count > wanted or (count < wanted and topic not in expired and not self._is_compacted(topic)):
                    require_count(topic, fingerprint.topics[topic], wanted, count)
            except PositionError as error:
                if count < wanted or self._check is None or not self._check.is_of_one_table(topic):
                    raise
                self.foreign[topic] = error

    def _is_shared(self, topic: str) -> bool:
        """Whether others write there, too: never to where we stand, whatever else a link's messages are in."""
        return topic != self._position_topic and self._check is not None and self._check.is_shared(topic)

    def _find_foreign(
        self, reader: TopicReader, ranges: Mapping[tuple[str, int], tuple[int, int]], record: Mapping[str, object]
    ) -> None:
        """Raise PositionError for the first message in `ranges` that cannot be ours, if there is one."""
        check = self._check
        if check is None:
            return
        for (topic, partition), offset, _, value in reader.scan(ranges):
            fault = check.fault(topic, value, record)
            if fault:
                raise foreign_message(topic, partition, offset, fault)

    def _is_compacted(self, topic: str) -> bool:
        """Whether the brokers may have taken messages out of its middle."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        try:
            (answer,) = self._admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_SECONDS).values()
            return "compact" in str(answer.result()["cleanup.policy"].value)
        except KafkaException as error:
            raise explain(error, f"being asked how it keeps topic {topic}") from error


def _what(state: TopicState | None) -> tuple[str, int] | None:
    return None if state is None else (state.id, len(state.ends))
