"""Messages that nobody of a pipeline wrote, put into its topics; and what their hint says, which deletes these."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

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


def delete_topics(chain: Chain, prefix: str) -> None:
    """Delete every topic whose name begins so, and wait until they are gone."""
    admin = AdminClient({"bootstrap.servers": str(chain.spec.kafka.bootstrap_servers)})

    def there() -> list[str]:
        return [name for name in admin.list_topics(timeout=30).topics if name.startswith(prefix)]

    for done in admin.delete_topics(there()).values():
        done.result(30)
    deadline = time.monotonic() + 30
    while there():
        assert time.monotonic() < deadline, "topics are not deleted"
        time.sleep(0.1)
