"""What the S3 spolt's micro-batches do: read ranges of topics and write files.

As in `capture_tasks`, what talks to servers is imported where it is used.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.links.objects.plan import ObjectsPlan, ObjectsPlanner, TopicRange, share_out
from penstock.links.objects.record import ObjectsRecord

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from penstock.config.specs import PipelineSpec
    from penstock.ports.topics import TopicLog
    from penstock.spark.link_source import Task

_OFFSETS_PER_TASK = 40_000


@dataclass(frozen=True, slots=True)
class WriteFiles:
    """Write some ranges of a plan. The plan's first task carries what is to be passed on."""

    pipeline: PipelineSpec
    ranges: tuple[TopicRange, ...]
    passed_on: ObjectsPlan | None

    def run(self) -> Iterator[object]:
        """Yield what to pass on, then a RangeWritten for each range."""
        from penstock.links.objects.write import FileWriter  # noqa: PLC0415 - see the module's docstring
        from penstock.wiring.open import open_object_store, open_registry  # noqa: PLC0415

        if self.passed_on is not None:
            yield self.passed_on
        with closing(open_registry(self.pipeline)) as registry:
            log = _kept_log(self.pipeline)
            writer = FileWriter(self.pipeline.pipeline, log, registry, open_object_store(self.pipeline))
            try:
                yield from writer.write(self.ranges)
            except BaseException:
                _kept.clear()
                log.close()
                raise


_kept: dict[Hashable, TopicLog] = {}
"""The connection to Kafka that the last task in this process left open: finding the brokers again takes a second."""


def _kept_log(pipeline: PipelineSpec) -> TopicLog:
    from penstock.wiring.open import kafka_cluster, open_topic_log  # noqa: PLC0415 - see the module's docstring

    cluster = kafka_cluster(pipeline)
    if cluster not in _kept:
        _kept[cluster] = open_topic_log(pipeline)
    return _kept[cluster]


class ObjectsLinkPlanner:
    """Plans from the S3 spolt's committed record and the ends of the topics."""

    def __init__(self, pipeline: PipelineSpec, tasks_max: int) -> None:
        """Plan at most `tasks_max` tasks side by side."""
        from penstock.wiring.open import announcements_topic, open_topic_log  # noqa: PLC0415

        self._pipeline = pipeline
        self._tasks_max = tasks_max
        self._log = open_topic_log(pipeline)
        self._planner = ObjectsPlanner(self._log, announcements_topic(pipeline))
        self._record: ObjectsRecord | None = None
        self._planned: ObjectsPlan | None = None

    def fix_end(self) -> None:
        """Nothing to remember: whoever asks for an end has stopped the captures before."""

    def has_work(self) -> bool:
        """Plan, and tell whether anything came of it."""
        from penstock.wiring.open import OBJECTS_LINK, committed_position  # noqa: PLC0415

        if self._record is None:
            record = committed_position(self._pipeline, self._log, OBJECTS_LINK)
            self._record = ObjectsRecord() if record is None else ObjectsRecord.from_mapping(record)
        self._planned = self._planner.plan(self._record)
        return bool(self._planned.ranges or self._planned.announcements)

    def plan(self) -> Sequence[Task]:
        """Share the plan out."""
        if self._planned is None:
            self.has_work()
        plan, self._planned, self._record = self._planned, None, None
        if plan is None:
            return []
        shares = share_out(plan.ranges, self._tasks_max, _OFFSETS_PER_TASK) if plan.ranges else [()]
        passed_on = ObjectsPlan(plan.settled, plan.announcements, ())
        return [
            WriteFiles(self._pipeline, share, passed_on if index == 0 else None) for index, share in enumerate(shares)
        ]


@dataclass(frozen=True, slots=True)
class ObjectsPlanning:
    """Makes the S3 spolt's planner."""

    pipeline: PipelineSpec
    tasks_max: int

    def __call__(self) -> ObjectsLinkPlanner:
        """Open the planner."""
        return ObjectsLinkPlanner(self.pipeline, self.tasks_max)
