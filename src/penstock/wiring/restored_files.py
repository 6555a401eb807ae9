"""The object store as targets read it: a file that is gone is written again from its topic."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import structlog

from penstock.core.batches import read_batch
from penstock.core.errors import PenstockError, SinkError
from penstock.links.audit.told_table import ToldTables
from penstock.links.large_messages import WholeLog
from penstock.links.objects.rewrite import render_again
from penstock.wiring.batch_messages import read_batch_messages, read_objects_record
from penstock.wiring.open import (
    batch_topic,
    failovers_topic,
    open_large_store,
    open_object_store,
    open_registry,
    open_topic_log,
    schema_changes_topic,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.adapters.kafka.reader import TopicReader
    from penstock.config.specs import PipelineSpec
    from penstock.core.batches import Batch
    from penstock.ports.objects import ObjectStore
    from penstock.ports.registry import Registry
    from penstock.ports.topics import TopicLog

_log = structlog.get_logger()


def open_restoring_store(spec: PipelineSpec) -> ObjectStore:
    """Where files are kept, for whoever reads those that batches name."""
    return RestoringStore(spec, open_object_store(spec))


class RestoringStore:
    """An `ObjectStore` that has what Kafka has: a topic keeps its messages for a week."""

    def __init__(self, spec: PipelineSpec, objects: ObjectStore) -> None:
        """Read from `objects`; nothing else is opened unless a file is gone."""
        self._spec = spec
        self._objects = objects

    def put(self, key: str, content: bytes) -> None:
        """See `ObjectStore`."""
        self._objects.put(key, content)

    def get(self, key: str) -> bytes:
        """Read a file, which is written again first if it is gone, or if a power cut has left it empty."""
        try:
            content = self._objects.get(key)
        except SinkError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            return self._restore(key, error)
        return content or self._restore(key, SinkError(f"{key} is empty", "restore the file"))

    def pieces(self, key: str) -> Iterator[bytes]:
        """See `ObjectStore`: one piece, as what is written again is made in memory."""
        yield self.get(key)

    def exists(self, key: str) -> bool:
        """See `ObjectStore`."""
        return self._objects.exists(key)

    def list(self, prefix: str) -> Sequence[str]:
        """See `ObjectStore`."""
        return self._objects.list(prefix)

    def written(self, prefix: str) -> Iterator[tuple[str, int]]:
        """See `ObjectStore`."""
        return self._objects.written(prefix)

    def delete(self, keys: Sequence[str]) -> None:
        """See `ObjectStore`."""
        self._objects.delete(keys)

    def local_path(self, key: str) -> str | None:
        """See `ObjectStore`."""
        return self._objects.local_path(key)

    def _restore(self, key: str, lost: SinkError) -> bytes:
        """Write a file again. Raises SinkError, with why that cannot be, UnavailableError while Kafka is away."""
        with closing(open_topic_log(self._spec)) as log, closing(open_registry(self._spec)) as registry:
            try:
                batch = self._find(log, key)
                whole = WholeLog(self._spec.pipeline, log, open_large_store(self._spec))
                content = None if batch is None else self._render_again(batch, whole, registry)
            except PenstockError as error:
                if error.retryable:
                    raise
                message = f"{lost.message}; nor can it be written again from its topic: {error.message}"
                raise SinkError(message, lost.hint) from error
        if content is None:
            raise lost
        self._objects.put(key, content)
        _log.warning("a file that was gone is written again from its topic", file=key)
        return content

    def _render_again(self, batch: Batch, log: TopicLog, registry: Registry) -> bytes:
        told = ToldTables(log, schema_changes_topic(self._spec), failovers_topic(self._spec))
        told.read()
        timelines = told.timelines(batch.source, batch.topic, batch.partition)
        return render_again(batch, log, registry, told.format(batch.topic), timelines)

    def _find(self, log: TopicReader, key: str) -> Batch | None:
        """The batch whose file `key` is."""
        topic = batch_topic(self._spec)
        end = log.ends([(topic, 0)]).get((topic, 0), 0)
        start = read_objects_record(self._spec, log).batches_from
        batches = (read_batch(*each) for part in read_batch_messages(self._spec, log, start, end) for each in part)
        return next((batch for batch in batches if batch.path == key), None)
