"""How topics are kept, as the brokers say it, and changing that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from penstock.adapters.kafka.cluster import REQUEST_TIMEOUT_SECONDS, KafkaCluster, explain, open_admin

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class KeptTopic:
    """A topic: its partitions, how many copies of each there are at least, and all of its settings."""

    partitions: int
    replication: int
    settings: Mapping[str, str]


class TopicKeeper:
    """Reads and changes how topics are kept."""

    def __init__(self, cluster: KafkaCluster) -> None:
        """Ask nothing yet."""
        self._admin: AdminClient = open_admin(cluster)

    def names(self, prefix: str) -> Sequence[str]:
        """The topics whose names begin with `prefix`, sorted. Raises UnavailableError."""
        try:
            known = self._admin.list_topics(timeout=REQUEST_TIMEOUT_SECONDS)
        except KafkaException as error:
            raise explain(error, "being asked which topics there are") from error
        return sorted(name for name in known.topics if name.startswith(prefix))

    def read(self, topics: Collection[str]) -> Mapping[str, KeptTopic]:
        """How those of `topics` that exist are kept. Raises UnavailableError, PenstockError if we may not ask."""
        try:
            known = self._admin.list_topics(timeout=REQUEST_TIMEOUT_SECONDS).topics
            there = sorted(topic for topic in topics if topic in known)
            if not there:
                return {}
            resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in there]
            answers = self._admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_SECONDS)
            settings = {resource.name: answer.result() for resource, answer in answers.items()}
        except KafkaException as error:
            raise explain(error, "being asked how it keeps topics") from error
        return {
            topic: KeptTopic(
                len(known[topic].partitions),
                min(len(each.replicas) for each in known[topic].partitions.values()),
                {name: str(entry.value) for name, entry in settings[topic].items()},
            )
            for topic in there
        }

    def change(self, topic: str, settings: Mapping[str, str]) -> None:
        """Set settings of one topic, all of them or none; others stay. Raises UnavailableError, PenstockError."""
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        try:
            answers = self._admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_SECONDS)
            for answer in answers.values():
                answer.result()
        except KafkaException as error:
            raise explain(error, f"changing how topic {topic} is kept") from error
