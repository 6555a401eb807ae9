"""What begins where a source is read on at another place: where it stood, and which messages come behind."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.core.changes import Messages
from penstock.core.errors import START_ANEW, PenstockError, PositionError, UsageError
from penstock.core.publication import CaptureRecord
from penstock.core.timelines import TimelineBegan
from penstock.links.capture.open_capture import OpenCapture
from penstock.wiring.capture import read_schema_changes
from penstock.wiring.open import committed_position, failovers_topic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.adapters.kafka.reader import TopicReader
    from penstock.config.specs import PipelineSpec
    from penstock.core.positions import Position
    from penstock.links.capture.open_capture import CaptureParts
    from penstock.links.capture.spec import CaptureSpec


def require_source(spec: PipelineSpec, source: str) -> None:
    """Raise UsageError if the pipeline has no such source."""
    names = [each.name for each in spec.sources]
    if source not in names:
        message = f'there is no source "{source}" in this pipeline'
        raise UsageError(message, f"its sources are: {', '.join(names)}")


def require_transactions(spec: PipelineSpec, source: str) -> None:
    """Raise UsageError where Kafka's transactions are not used: place and timeline have to be told in one."""
    if not spec.kafka.transactions:
        message = f"{source} publishes without Kafka's transactions, and a failover needs them"
        raise UsageError(message, f"{START_ANEW}, of the new master")


def read_standing(spec: CaptureSpec, log: TopicReader) -> CaptureRecord:
    """Where the capture stands. Raises PositionError for one that was never started, or is copying its tables."""
    committed = committed_position(spec.pipeline, log, spec.source_name)
    if committed is None:
        message = f"the capture of {spec.source_name} has no position in Kafka"
        raise PositionError(message, "it was never started: correct `host` and `port` in the file, and run it")
    record = CaptureRecord.from_mapping(committed)
    if record.is_snapshotting:
        message = f"the initial snapshot of {spec.source_name} is not whole yet, so there is no position to go on from"
        raise PositionError(message, f"let it end; without its server, {START_ANEW}")
    return record


def resume_at(spec: CaptureSpec, parts: CaptureParts, before: Position) -> OpenCapture:
    """Take the capture over, which fences who was there. Raises PenstockError if it stands elsewhere by now."""
    capture = OpenCapture.resume(parts, spec.epoch)
    if capture.position != before:
        message = f"{spec.source_name} was at {before}, and is at {capture.position} now: an instance published"
        raise PenstockError(message, "nothing was changed: see that no instance runs, and try again")
    return capture


def timeline_message(
    spec: CaptureSpec, log: TopicReader, timeline: int, places: tuple[str, str], server: str
) -> Messages:
    """Say that everything from here on in all topics that the source ever had is of `timeline`, read from `server`.

    `places` are those in the two logs, as operators write them.
    """
    now_ms = time.time_ns() // 1_000_000
    began = TimelineBegan(spec.source_name, timeline, _topic_ends(spec, log), *places, server, now_ms)
    keys, values = (pa.array([each], pa.binary()) for each in (spec.source_name.encode(), began.to_json()))
    return Messages(topic=failovers_topic(spec.pipeline), keys=keys, values=values, order=np.zeros(1, np.int64))


def _topic_ends(spec: CaptureSpec, log: TopicReader) -> Mapping[tuple[str, int], int]:
    """The ends of all topics that the source ever had."""
    announced = [a for a in read_schema_changes(spec, log) if a.source == spec.source_name]
    partitions = {(a.topic, partition) for a in announced for partition in range(a.partitions)}
    return log.ends(sorted(partitions))
