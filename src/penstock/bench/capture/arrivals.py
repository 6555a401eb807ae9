"""Watches a topic from outside, as any reader at read_committed sees it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicPartition

from penstock.bench.beside import Beside
from penstock.core.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

_FETCH_MESSAGES = 10_000
_POLL_SECONDS = 0.1
_SETTLED_SECONDS = 1.0
_BEGINNING = 0


class Arrivals(Beside):
    """Counts the messages of partition 0 of a topic that exists, from its beginning, inside a `with` block.

    `first_at` and `last_at` are moments of the monotonic clock, when the client
    handed the message to us. With `keep_keys`, `keys` has (key, moment) of each.
    """

    def __init__(self, bootstrap_servers: str, topic: str, *, keep_keys: bool = False) -> None:
        """Prepare; nothing is read before the block."""
        self.count = 0
        self.first_at = self.last_at = 0.0
        self.keys: list[tuple[bytes, float]] = []
        self._topic = topic
        self._keep_keys = keep_keys
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "penstock-bench",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "fetch.queue.backoff.ms": 5,
                "queued.max.messages.kbytes": 262_144,
                "log_level": 2,
            }
        )
        super().__init__("arrivals")

    def _begin(self) -> None:
        self._consumer.assign([TopicPartition(self._topic, 0, _BEGINNING)])

    def _end(self) -> None:
        self._consumer.close()

    def settled(self) -> int:
        """Wait until nothing has come for a second; how many messages have come."""
        while True:
            before = self.count
            time.sleep(_SETTLED_SECONDS)
            if self.count == before:
                return before

    def wait_for(self, count: int, wait_seconds: float, alive: Callable[[], bool]) -> None:
        """Wait for `count` messages; UnavailableError when the time is up or whoever sends them is not `alive`."""
        deadline = time.monotonic() + wait_seconds
        while self.count < count:
            # Asked before the count is looked at again: what came just before the end counts.
            lost = not (self._thread.is_alive() and alive()) or time.monotonic() > deadline
            if lost and self.count < count:
                message = f"only {self.count:,} of {count:,} messages came to {self._topic}"
                raise UnavailableError(message, "read the logs under the bench's home, or measure less")
            time.sleep(_POLL_SECONDS)

    def _run(self) -> None:
        while not self._stopping.is_set():
            first = self._consumer.poll(_POLL_SECONDS)
            if first is None:
                continue
            # `consume` alone would wait for its whole number of messages.
            fetched = [first, *self._consumer.consume(_FETCH_MESSAGES, timeout=0)]
            now = time.monotonic()
            for message in fetched:
                error = message.error()
                if error is not None:
                    raise KafkaException(error)
                if self._keep_keys:
                    self.keys.append((message.key() or b"", now))
            self.first_at = self.first_at or now
            self.last_at = now
            self.count += len(fetched)
