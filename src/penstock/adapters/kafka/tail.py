"""Waiting at the end of topics with long fetches: a broker answers when something is committed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition

from penstock.adapters.kafka.described import meet
from penstock.adapters.kafka.fetched import ends_at, entry, place_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.adapters.kafka.cluster import KafkaCluster

_FETCH_SECONDS = 10
"""How long a broker may keep a fetch waiting. Less than the 30 s after which clients give an answer up."""
_NO_END = 1 << 62


class TopicTail:
    """Follows partitions from offsets on (ports/topics.TopicTail). It belongs to no group and commits nothing."""

    def __init__(self, cluster: KafkaCluster, starts: Mapping[tuple[str, int], int]) -> None:
        """Begin at `starts`, first offsets by (topic, partition)."""
        self._places = set(starts)
        self._consumer = Consumer(
            {
                **cluster.client_settings(),
                "group.id": "penstock-tail",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": _FETCH_SECONDS * 1000,
                "fetch.queue.backoff.ms": 5,
                "queued.max.messages.kbytes": 1024,
            }
        )
        meet(self._consumer, {topic for topic, _ in starts})
        self._consumer.assign(_assignment(starts))

    def include(self, starts: Mapping[tuple[str, int], int]) -> None:
        """Follow those of `starts`, too, that are not followed yet."""
        new = {place: start for place, start in starts.items() if place not in self._places}
        if new:
            meet(self._consumer, {topic for topic, _ in new})
            self._consumer.incremental_assign(_assignment(new))
            self._places |= set(new)

    def take(self, messages_max: int, wait_seconds: float) -> Sequence[tuple[tuple[str, int], int, bytes]]:
        """Return (partition, offset, value) of what is there, at most so many; see ports/topics.TopicTail."""
        deadline = time.monotonic() + wait_seconds
        while True:
            first = self._consumer.poll(max(0.0, deadline - time.monotonic()))
            if first is None:
                return []
            fetched = [first, *self._consumer.consume(messages_max - 1, timeout=0)]
            # An error that passes is no message: the client itself tries again.
            found = [each for each in fetched if not ends_at(each, _NO_END) and each.error() is None]
            messages = [(place_of(each), *entry(each)) for each in found]
            if messages:
                return messages

    def close(self) -> None:
        """Drop the connection."""
        self._consumer.close()


def _assignment(starts: Mapping[tuple[str, int], int]) -> list[TopicPartition]:
    return [TopicPartition(*place, start) for place, start in starts.items()]
