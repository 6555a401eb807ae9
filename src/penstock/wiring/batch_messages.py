"""The batch topic, read from before its end: the S3 spolt may throw away messages meanwhile."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.core.errors import PositionError, UnavailableError
from penstock.links.objects.record import ObjectsRecord
from penstock.wiring.open import OBJECTS_LINK, batch_topic, committed_position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.adapters.kafka.reader import TopicReader
    from penstock.config.specs import PipelineSpec
    from penstock.core.batches import BatchMessages


def read_objects_record(spec: PipelineSpec, log: TopicReader) -> ObjectsRecord:
    """The newest record of the link that writes files, which says what of them and of their messages may be gone."""
    return ObjectsRecord.of(committed_position(spec, log, OBJECTS_LINK))


@contextmanager
def reading_batches(spec: PipelineSpec, log: TopicReader, start: int) -> Iterator[None]:
    """Explain why the batch topic cannot be read from `start`.

    Raises UnavailableError where the S3 spolt has thrown away what is there since the caller read its record: who
    begins anew reads the newer one. A PositionError goes on where messages are gone, and the record does not say so.
    """
    try:
        yield
    except PositionError as error:
        begin = read_objects_record(spec, log).batches_from
        if begin <= start:
            raise
        message = f"the batch topic begins at {begin} by now; it was to be read from {start}"
        raise UnavailableError(message, "nothing is lost: this is tried again from there") from error


def read_batch_messages(spec: PipelineSpec, log: TopicReader, start: int, end: int) -> Iterator[BatchMessages]:
    """Yield the messages of `[start, end)` of the batch topic. Raises as `reading_batches`."""
    with reading_batches(spec, log, start):
        yield from log.read(batch_topic(spec), 0, start, end)
