"""The schemas topic, read whole: what captures have told of their tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.errors import UnavailableError
from penstock.core.schema_changes import read_schema_change
from penstock.wiring.open import schema_changes_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.config.specs import PipelineSpec
    from penstock.core.schema_changes import SchemaChange
    from penstock.ports.topics import TopicLog


def read_schemas_topic(spec: PipelineSpec, log: TopicLog, told_to: int = 0) -> Iterator[tuple[int, SchemaChange]]:
    """Give every schema-change event that there is now, oldest first, and its offset.

    Without transactions also those that a crash has left behind the record of their capture.
    Raises UnavailableError where the topic ends before `told_to`, as a broker may say that was behind the others.
    """
    topic = schema_changes_topic(spec)
    end = log.ends([(topic, 0)]).get((topic, 0), 0)
    if end < told_to:
        message = f"{topic}/0 ends at {end}, and was read up to {told_to}"
        raise UnavailableError(message, "check that all brokers run, and that nobody has deleted the topic")
    for messages in log.read(topic, 0, 0, end):
        for offset, value in messages:
            yield offset, read_schema_change(topic, offset, value)
