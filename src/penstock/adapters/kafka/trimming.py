"""Throwing away the first messages of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from penstock.adapters.kafka.cluster import REQUEST_TIMEOUT_SECONDS, explain

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_REFUSED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.POLICY_VIOLATION,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError._UNSUPPORTED_FEATURE,  # noqa: SLF001 - librdkafka's own codes have an underscore
    }
)
"""What brokers answer to whoever may not, and where none may: it will be the same the next time."""


def throw_away_before(admin: AdminClient, topic: str, offset: int) -> str:
    """Have brokers throw away the messages of partition 0 of `topic` before `offset` (DeleteRecords, KIP-107).

    Those that are gone already are no error. Return "", or why the brokers do not let us.
    Raises UnavailableError when they are away.
    """
    asked = [TopicPartition(topic, 0, offset)]
    try:
        for answer in admin.delete_records(asked, request_timeout=REQUEST_TIMEOUT_SECONDS).values():
            answer.result()
    except KafkaException as error:
        cause = error.args[0]
        if cause.code() in _REFUSED:
            return str(cause.str())
        raise explain(error, f"throwing away the first messages of {topic}") from error
    return ""
