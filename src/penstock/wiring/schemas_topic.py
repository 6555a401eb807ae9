"""The schemas topic, read whole: what captures have told of their tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.schema_changes import read_schema_change
from penstock.wiring.open import schema_changes_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.config.specs import PipelineSpec
    from penstock.core.schema_changes import SchemaChange
    from penstock.ports.topics import TopicLog


def read_schemas_topic(spec: PipelineSpec, log: TopicLog) -> Iterator[tuple[int, SchemaChange]]:
    """Give every schema-change event that there is now, oldest first, and its offset.

    Without transactions also those that a crash has left behind the record of their capture.
    """
    topic = schema_changes_topic(spec)
    end = log.ends([(topic, 0)]).get((topic, 0), 0)
    for messages in log.read(topic, 0, 0, end):
        for offset, value in messages:
            yield offset, read_schema_change(topic, offset, value)
