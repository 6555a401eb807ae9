"""What the embedded broker needs after kill -9 that it does not do by itself."""

from __future__ import annotations

import structlog

from penstock.adapters.kafka.cluster import KafkaCluster
from penstock.adapters.kafka.forgotten_markers import write_forgotten_markers
from penstock.core.errors import PenstockError

_log = structlog.get_logger()


def end_transactions(bootstrap_servers: str) -> bool:
    """Have transactions that were decided end everywhere; return whether all were looked at."""
    try:
        ended = write_forgotten_markers(KafkaCluster(bootstrap_servers))
    except PenstockError as error:
        _log.warning("transactions that Kafka has not finished were not looked for", error=error.message)
        return False
    for topic, partition in ended:
        _log.warning(
            "a transaction that Kafka had not finished is ended as it was decided", topic=f"{topic}/{partition}"
        )
    return True
