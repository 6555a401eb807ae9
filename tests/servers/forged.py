"""Messages that nobody of a pipeline wrote, put into its topics."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from penstock.core.tables import TableId
from penstock.links.audit.told_table import ToldTables
from penstock.wiring.open import failovers_topic, open_topic_log, schema_changes_topic

if TYPE_CHECKING:
    from tests.servers.chain import Chain


def message_with(chain: Chain, table: str, text: bytes) -> tuple[str, int, int, bytes]:
    """The newest message of a table that has `text`: its topic, partition, offset and value."""
    spec = chain.spec
    with closing(open_topic_log(spec)) as log:
        told = ToldTables(log, schema_changes_topic(spec), failovers_topic(spec))
        told.read()
        ((topic, partitions),) = told.of(chain.source, TableId(chain.name, table)).topics
        ends = log.ends([(topic, partition) for partition in range(partitions)])
        found = [
            (topic, partition, offset, value)
            for (_, partition), end in ends.items()
            for messages in log.read(topic, partition, 0, end)
            for offset, value in messages
            if value and text in value
        ]
    return found[-1]


def put(chain: Chain, topic: str, partition: int, value: bytes) -> None:
    """Write a message behind all others."""
    producer = Producer({"bootstrap.servers": chain.spec.kafka.bootstrap_servers})
    producer.produce(topic, value, partition=partition)
    assert producer.flush(30) == 0
