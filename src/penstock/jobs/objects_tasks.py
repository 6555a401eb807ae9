"""What the S3 spolt's micro-batches do: read ranges of topics and write files.

As in `capture_tasks`, what talks to servers is imported where it is used.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from penstock.links.objects.plan import ObjectsPlan, ObjectsPlanner, TopicRange
from penstock.links.objects.record import ObjectsRecord
from penstock.links.objects.shares import UNKNOWN_BYTES, read_in_parts, share_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.config.specs import PipelineSpec
    from penstock.jobs.link import Task
    from penstock.ports.objects import ObjectStore
    from penstock.ports.registry import Registry
    from penstock.ports.topics import TopicLog

OFFSETS_PER_TASK = 100_000
"""So many messages are worth the start of a task on Spark."""

FOLLOWED_OFFSETS_MAX = 20_000
_FOLLOWED_BYTES_MAX = 32 << 20
"""So much at once is carried by the driver itself; more by tasks."""


@dataclass(frozen=True, slots=True)
class WriteFiles:
    """Write some ranges of a plan, part by part. The plan's first task carries what is to be passed on."""

    pipeline: PipelineSpec
    parts: tuple[tuple[TopicRange, ...], ...]
    passed_on: ObjectsPlan | None

    def run(self) -> Iterator[object]:
        """Yield what to pass on, then a RangeWritten for each range."""
        from penstock.links.large_messages import WholeLog  # noqa: PLC0415 - see the module's docstring
        from penstock.links.objects.write import FileWriter  # noqa: PLC0415
        from penstock.wiring.files import file_rules  # noqa: PLC0415

        if self.passed_on is not None:
            yield self.passed_on
        if not self.parts:
            return
        kept = _kept_open(self.pipeline)
        log = WholeLog(self.pipeline.pipeline, kept.log, kept.large)
        writer = FileWriter(self.pipeline.pipeline, log, kept.registry, kept.objects, file_rules(self.pipeline))
        try:
            for part in self.parts:
                yield from writer.write(part)
        except BaseException:
            close_kept()
            raise


@dataclass(frozen=True, slots=True)
class _Kept:
    """What the last task in this process left open: finding the brokers again takes a second."""

    pipeline: PipelineSpec
    log: TopicLog
    registry: Registry
    objects: ObjectStore
    large: ObjectStore


_kept: list[_Kept] = []
"""One at most."""


def close_kept() -> None:
    """Close what tasks in this process have left open."""
    while _kept:
        kept = _kept.pop()
        kept.registry.close()
        kept.log.close()


def _kept_open(pipeline: PipelineSpec) -> _Kept:
    from penstock.wiring.open import open_topic_log  # noqa: PLC0415 - as above

    if not _kept or _kept[0].pipeline != pipeline:
        keep_open(pipeline, open_topic_log(pipeline))
    return _kept[0]


def keep_open(pipeline: PipelineSpec, log: TopicLog) -> None:
    """Let tasks of `pipeline` in this process read from `log`, until `close_kept` closes it."""
    from penstock.wiring.open import open_large_store, open_object_store, open_registry  # noqa: PLC0415 - as above

    close_kept()
    stores = open_object_store(pipeline), open_large_store(pipeline)
    _kept.append(_Kept(pipeline, log, open_registry(pipeline), *stores))


class ObjectsLinkPlanner:
    """Plans from the S3 spolt's committed record and the ends of the topics."""

    def __init__(
        self, pipeline: PipelineSpec, tasks_max: int, offsets_per_task: int, log: TopicLog | None = None
    ) -> None:
        """Plan at most `tasks_max` tasks side by side, each of some `offsets_per_task` if there is more than one.

        Without a `log` it has one of its own, for as long as its process lives; whoever lends one
        tells it what to plan from, too.
        """
        from penstock.wiring.files import batch_closing  # noqa: PLC0415
        from penstock.wiring.open import (  # noqa: PLC0415
            OBJECTS_LINK,
            committed_position,
            failovers_topic,
            open_topic_log,
            schema_changes_topic,
        )

        self._pipeline = pipeline
        self._tasks_max = tasks_max
        self._offsets_per_task = offsets_per_task
        self._read_record: Callable[[], Mapping[str, object] | None] = lambda: None
        if log is None:
            log = reader = open_topic_log(pipeline)
            self._read_record = partial(committed_position, pipeline, reader, OBJECTS_LINK)
        topics = schema_changes_topic(pipeline), failovers_topic(pipeline)
        self._planner = ObjectsPlanner(log, *topics, batch_closing(pipeline))
        self._wakes_at = _next_sweep(pipeline)
        self._record: ObjectsRecord | None = None
        self._planned: ObjectsPlan | None = None

    def fix_end(self) -> None:
        """Write all that there is: whoever asks for an end has stopped the captures before."""
        self._planner.stop_waiting()
        self._wakes_at = math.inf

    def know(self, record: ObjectsRecord) -> None:
        """Plan from `record`, which whoever publishes has committed, in place of asking Kafka for it."""
        self._record = record

    def is_much(self) -> bool:
        """Whether what `has_work` has found is worth tasks on Spark, or more than a driver should hold in memory."""
        if self._planned is None or self._record is None:
            return False
        sizes = self._record.message_bytes
        ranges = [(r.end - r.start, sizes.get(r.topic, UNKNOWN_BYTES)) for r in self._planned.ranges]
        offsets, size = sum(count for count, _ in ranges), sum(count * each for count, each in ranges)
        return offsets > FOLLOWED_OFFSETS_MAX or size > _FOLLOWED_BYTES_MAX

    def starts(self) -> Mapping[tuple[str, int], int]:
        """From which offset on each (topic, partition) has something new, as it was planned last."""
        return self._planner.starts(self._record or ObjectsRecord())

    def has_work(self) -> bool:
        """Plan, and tell whether anything came of it, or old files are to be looked for."""
        if self._record is None:
            record = self._read_record()
            self._record = ObjectsRecord.of(record)
        now = time.monotonic()
        self._planned = self._planner.plan(self._record, now)
        if self._planned.ranges or self._planned.schema_changes:
            return True
        if now < self._wakes_at:
            return False
        # Old files are deleted after a micro-batch, and while nothing comes there would be none.
        self._wakes_at = _next_sweep(self._pipeline)
        return True

    def plan(self) -> Sequence[Task]:
        """Share the plan out."""
        if self._planned is None:
            self.has_work()
        plan, record = self._planned, self._record
        self._planned, self._record = None, None
        if plan is None or record is None:
            return []
        shares = self._share_out(plan, record) if plan.ranges else [()]
        passed_on = ObjectsPlan(plan.settled, plan.schema_changes, ())
        return [
            WriteFiles(self._pipeline, share, passed_on if index == 0 else None) for index, share in enumerate(shares)
        ]

    def _share_out(self, plan: ObjectsPlan, record: ObjectsRecord) -> Sequence[tuple[tuple[TopicRange, ...], ...]]:
        from penstock.wiring.files import file_rules  # noqa: PLC0415 - see the module's docstring

        bytes_max, sizes = file_rules(self._pipeline).bytes_max, record.message_bytes
        shares = share_out(plan.ranges, self._tasks_max, self._offsets_per_task, bytes_max, sizes)
        return [read_in_parts(share, bytes_max, sizes) for share in shares]


def _next_sweep(pipeline: PipelineSpec) -> float:
    from penstock.wiring.files import SWEEP_SECONDS  # noqa: PLC0415 - see the module's docstring

    return math.inf if pipeline.files_keep_hours is None else time.monotonic() + SWEEP_SECONDS


@dataclass(frozen=True, slots=True)
class ObjectsPlanning:
    """Makes the S3 spolt's planner."""

    pipeline: PipelineSpec
    tasks_max: int
    offsets_per_task: int

    def __call__(self) -> ObjectsLinkPlanner:
        """Open the planner."""
        return ObjectsLinkPlanner(self.pipeline, self.tasks_max, self.offsets_per_task)
