"""What topics take: asked where a message is large, and remembered for a while."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from penstock.adapters.kafka.cluster import LARGEST_MESSAGE, REQUEST_TIMEOUT_SECONDS
from penstock.core.kafka.largest import LARGEST_BYTES

if TYPE_CHECKING:
    from penstock.adapters.kafka.cluster import KafkaCluster

_KNOWN_SECONDS = 30.0
"""Somebody may raise it meanwhile."""


class TopicSizes:
    """Tells how large a message of a topic may be, in bytes (max.message.bytes)."""

    def __init__(self, cluster: KafkaCluster) -> None:
        """Ask nothing yet."""
        self._cluster = cluster
        self._admin: AdminClient | None = None
        self._known: dict[str, tuple[float, int]] = {}

    def __call__(self, topic: str) -> int:
        """Return what `topic` takes; what brokers take at most where it cannot be asked, and they will tell."""
        asked_at, takes = self._known.get(topic, (0.0, 0))
        if not takes or time.monotonic() - asked_at > _KNOWN_SECONDS:
            takes = self._ask(topic)
            self._known[topic] = time.monotonic(), takes
        return takes

    def _ask(self, topic: str) -> int:
        if self._admin is None:
            self._admin = AdminClient(self._cluster.client_settings())
        resource = ConfigResource(ResourceType.TOPIC, topic)
        try:
            (answer,) = self._admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_SECONDS).values()
            return int(answer.result()[LARGEST_MESSAGE].value)
        except KafkaException:
            return LARGEST_BYTES
