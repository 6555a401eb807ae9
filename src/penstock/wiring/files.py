"""What a pipeline's config says of its files, for the links that write, read and delete them."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import structlog

from penstock.adapters.kafka.trimming import throw_away_before
from penstock.config.sinks import DeltaSinkSpec
from penstock.core.errors import FencedError, PenstockError
from penstock.core.file_formats import FileFormat
from penstock.core.topic_fingerprints import require_place
from penstock.links.objects.closing import BatchClosing
from penstock.links.objects.retention import FileRetention
from penstock.links.objects.trimming import BatchTrimming
from penstock.links.objects.write import FileRules
from penstock.links.warehouse.lake_state import LakeState
from penstock.links.warehouse.progress import TargetProgress
from penstock.wiring.batch_messages import read_batch_messages, read_objects_record
from penstock.wiring.fills import deleted_topics
from penstock.wiring.open import (
    batch_topic,
    open_lake_store,
    open_object_store,
    open_topic_log,
)
from penstock.wiring.warehouses import open_state_database

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.adapters.kafka.reader import TopicReader
    from penstock.config.specs import PipelineSpec
    from penstock.core.batches import BatchMessages, ReadBatches
    from penstock.links.objects.publish import BatchPublisher
    from penstock.links.objects.record import ObjectsRecord

SWEEP_SECONDS = 300.0
"""How often old files are looked for; that means asking every target where it stands."""
SWEEP_ON_SECONDS = 2.0
"""How soon again, at the earliest, where there were more of them than are deleted at a time."""

_log = structlog.get_logger()
_refused: set[str] = set()
"""Why brokers do not let us throw away messages, as this process has said in its log."""


def file_rules(spec: PipelineSpec) -> FileRules:
    """How files are written."""
    objects = spec.objects
    format_ = FileFormat(objects.format, objects.compression)
    bytes_max = objects.batch_mebibytes_max << 20
    return FileRules(format_, objects.batch_rows_max, bytes_max, spec.inline_bytes_max)


def batch_closing(spec: PipelineSpec) -> BatchClosing:
    """When what waits becomes a file."""
    objects = spec.objects
    return BatchClosing(objects.batch_rows_max, objects.batch_mebibytes_max << 20, objects.batch_seconds)


def objects_record(spec: PipelineSpec) -> ObjectsRecord:
    """The same as `read_objects_record`, for whoever has no log open."""
    with closing(open_topic_log(spec)) as log:
        return read_objects_record(spec, log)


def sink_offsets(spec: PipelineSpec) -> Mapping[str, int]:
    """What the target of each link says of how far it has loaded. Takes no locks.

    Raises UnavailableError or SinkError.
    """
    offsets: dict[str, int] = {}
    for link in spec.links:
        kind = spec.sink(link.sink)
        if isinstance(kind, DeltaSinkSpec):
            offsets[link.name] = _needs_from(LakeState(open_lake_store(spec, kind), spec.pipeline, link.source))
            continue
        # A sink makes its tables first, and waits for whoever loads: what it says of itself is read beside it.
        with closing(open_state_database(spec, link)) as database:
            progress = TargetProgress(database, spec.pipeline, link.source)
            offsets[link.name] = _needs_from(progress) if progress.is_made() else 0
    return offsets


def _needs_from(target: TargetProgress | LakeState) -> int:
    """The offset of the batch topic before which nothing is needed any more, by tables that wait neither."""
    return min([target.batch_offset(), *(at for at in target.waiting().values() if at >= 0)])


def batch_reader(spec: PipelineSpec, first: int) -> ReadBatches:
    """What reads stretches of the batch topic, which begins at `first`, for tables that have waited."""

    def read(start: int, end: int) -> Iterator[BatchMessages]:
        with closing(open_topic_log(spec)) as log:
            place = (batch_topic(spec), 0)
            require_place(*place, end, log.ends([place]).get(place))
            yield from read_batch_messages(spec, log, max(start, first), end)

    return read


def sweep_files(spec: PipelineSpec, publisher: BatchPublisher) -> bool:
    """Delete files that are old and loaded by every target, then their batch messages; return whether there are more.

    What cannot be asked or deleted now waits for the next time: nothing stops for
    it, except for a newer instance, which raises FencedError.
    """
    has_more = False
    if spec.files_keep_hours is None:
        return has_more
    with _until_next_time("old files wait"), closing(open_topic_log(spec)) as log:
        keep_ms = int(spec.files_keep_hours * 3_600_000)
        objects, now_ms = open_object_store(spec), time.time_ns() // 1_000_000
        retention = FileRetention(spec.pipeline, log, batch_topic(spec), objects, keep_ms)
        offsets, topics = sink_offsets(spec), deleted_topics(spec, log, publisher.record)
        swept = retention.sweep(publisher, offsets, now_ms, topics)
        if swept.files:
            _log.info("old files deleted", files=swept.files, batches_before=publisher.record.files_from)
        has_more = swept.has_more
        with _until_next_time("batch messages of deleted files wait"):
            trimming = BatchTrimming(log, batch_topic(spec), partial(_throw_away, spec, log))
            has_more |= trimming.trim(publisher, min(offsets.values(), default=0), topics)
    return has_more


@contextmanager
def _until_next_time(waits: str) -> Iterator[None]:
    """Leave what cannot be done now, but for a newer instance, and say in the log what `waits`."""
    try:
        yield
    except FencedError:
        raise
    except PenstockError as error:
        _log.warning(waits, error=error.message, hint=error.hint)


def _throw_away(spec: PipelineSpec, log: TopicReader, before: int) -> None:
    """Throw away batch messages. Brokers that refuse it keep them, which is no fault: it is said once."""
    refused = throw_away_before(log.admin, batch_topic(spec), before)
    if refused and refused not in _refused:
        _refused.add(refused)
        hint = "let the pipeline delete records of that topic (the ACL DELETE), or have it grow"
        _log.warning("batch messages of deleted files stay", topic=batch_topic(spec), error=refused, hint=hint)
