"""What joins need of the topics that they read: whether all messages are there, and stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.adapters.kafka.described import compacted_topics, forgetful_topics
from penstock.core.commands import shell_word
from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.adapters.kafka.reader import TopicReader
    from penstock.links.joins.spec import JoinJob


def forgetful_inputs(log: TopicReader, job: JoinJob) -> Sequence[str]:
    """The topics of a join from which it could not be made again for ever. Raises UnavailableError."""
    return forgetful_topics(log.admin, {stream.topic for stream in job.streams})


def require_kept(log: TopicReader, job: JoinJob) -> None:
    """Raise UsageError for a compacted topic whose messages may lack columns: older ones, which have them, are gone.

    Raises UnavailableError when the brokers are away.
    """
    inputs = zip(job.streams, job.plan.inputs, strict=True)
    for topic in compacted_topics(log.admin, {stream.topic for stream, given in inputs if given.is_partial}):
        message = f"the join {job.name} needs all messages of {topic}, whose rows may lack columns, and it is compacted"
        table = next(stream.table for stream in job.streams if stream.topic == topic)
        hint = (
            f"set cleanup.policy=delete, retention.ms=-1 and retention.bytes=-1 on {topic}; "
            f"then have its rows read again: penstock snapshot FILE {shell_word(table)} --full-refresh"
        )
        raise UsageError(message, hint)


def require_whole(log: TopicReader, job: JoinJob, partitions: Sequence[tuple[str, int]]) -> None:
    """Raise UsageError unless every message of the inputs is there: without the first ones rows are missing."""
    begins: Mapping[tuple[str, int], int] = log.begins(partitions)
    for (topic, partition), offset in begins.items():
        if offset:
            message = f"the join {job.name} needs all of {topic}, and its messages before {partition}/{offset} are gone"
            hint = f"join the table in a new pipeline, and set retention.ms=-1 and retention.bytes=-1 on {topic}"
            raise UsageError(message, hint)
