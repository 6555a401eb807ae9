"""The topics of a pipeline: their names, and how each is kept."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.adapters.kafka.cluster import LARGEST_MESSAGE, KafkaCluster, create_topics
from penstock.core.topic_policy import TopicRule, rule_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka.admin import AdminClient

_LARGE = {LARGEST_MESSAGE: str(64 << 20)}
"""As large as clients read without settings of their own; by default, brokers take a megabyte. Rows may have more."""

POSITION_SETTINGS = {
    **_LARGE,
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": "3600000",
    "segment.ms": "3600000",
    "segment.bytes": "16777216",
}
"""One key, so compaction keeps the newest record; an hour's records stay for the mirror to count."""

LEDGER_SETTINGS = {
    **_LARGE,
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": "134217728",
}
"""Batches and schemas are what targets restart from: brokers throw nothing away by themselves.

Of what we have them throw away they delete whole segments, which have a gibibyte by default. One must hold
the largest message.
"""
TABLE_SETTINGS = {**_LARGE, "cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}
"""Changes stay a week, however many there are: a link that is down for longer says so and stops."""
_NO_RULE = TopicRule("*")


def position_topic(pipeline: str, link: str) -> str:
    """Where `link` commits its position records."""
    return f"penstock.{pipeline}.position.{link}"


def fingerprint_topic(pipeline: str, link: str) -> str:
    """Where `link` writes down what it knows of the topics that it publishes to."""
    return f"penstock.{pipeline}.seal.{link}"


def schemas_topic(pipeline: str) -> str:
    """Where captures announce each table's schema and topic, in log order per source."""
    return f"penstock.{pipeline}.schemas"


def batches_topic(pipeline: str) -> str:
    """Where the S3 spolt announces its files."""
    return f"penstock.{pipeline}.batches"


def timelines_topic(pipeline: str) -> str:
    """Where failovers say from which offsets on topics are of a new timeline."""
    return f"penstock.{pipeline}.eras"


def letters_topic(pipeline: str, spolt: str) -> str:
    """Where a spolt puts the messages that it could not process."""
    return f"penstock.{pipeline}.deadletters.{spolt}"


def create_own_topics(cluster: KafkaCluster, topics: Sequence[str], admin: AdminClient | None = None) -> None:
    """Create those of `topics` that do not exist, each as it is to be kept. Raises as `create_topics` does."""
    ledgers = [topic for topic in topics if topic.startswith("penstock.")]
    tables = [topic for topic in topics if topic not in ledgers]
    create_topics(cluster, ledgers, LEDGER_SETTINGS, partitions=1, admin=admin)
    by_rule: dict[TopicRule, list[str]] = defaultdict(list)
    for topic in tables:
        by_rule[rule_of(topic, cluster.rules) or _NO_RULE].append(topic)
    for rule, named in by_rule.items():
        copied = replace(cluster, replication=rule.replication or cluster.replication)
        settings = {**TABLE_SETTINGS, **rule.settings_at_birth}
        create_topics(copied, named, settings, partitions=rule.partitions or cluster.partitions, admin=admin)
