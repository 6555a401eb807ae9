"""Links of a pipeline: what their driver sides do with each micro-batch."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import structlog

from penstock.jobs.capture_tasks import CapturePlanning, Started
from penstock.jobs.link import MessageWork, PlannedWork
from penstock.jobs.objects_following import ObjectsFollower
from penstock.jobs.objects_tasks import OFFSETS_PER_TASK, ObjectsLinkPlanner, ObjectsPlanning, close_kept, keep_open
from penstock.links.capture.backlog_slices import SliceDropped, SlicePublished
from penstock.links.capture.live import TailSliceEnded
from penstock.links.capture.spec import PIECE_BYTES_MAX
from penstock.links.counts import CarriedRows
from penstock.links.objects.followed_log import FollowedLog
from penstock.links.objects.plan import ObjectsPlan
from penstock.links.objects.publish import BatchPublisher
from penstock.links.objects.write import RangeWritten
from penstock.links.warehouse.load import WarehouseLoader
from penstock.wiring.files import SWEEP_ON_SECONDS, SWEEP_SECONDS, batch_reader, objects_record, sweep_files
from penstock.wiring.fills import fills_of, kept_for
from penstock.wiring.large_files import LargeSweeps
from penstock.wiring.open import (
    OBJECTS_LINK,
    batch_topic,
    create_ledgers,
    open_publisher,
    open_registry,
    open_topic_log,
    open_topic_tail,
)
from penstock.wiring.stopped_readings import StoppedReadings
from penstock.wiring.table_control import open_table_control
from penstock.wiring.topic_limits import warn_of_size_limits
from penstock.wiring.warehouses import open_sinks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.core.tables import TableId
    from penstock.jobs.link import PlannerFactory, Until
    from penstock.links.capture.spec import CaptureSpec
    from penstock.ports.sink import Sink
    from penstock.ports.state import State

_log = structlog.get_logger()

_PIECE_BYTES_MIN = 1 << 20
_IDLE_SWEEPS = 5
"""How often old files are deleted one time after the other where nothing waits to be written."""
_SWEEP_REST = 4


class CaptureLink:
    """A source's log into Kafka."""

    brings_changes_in = True

    def __init__(self, spec: CaptureSpec, tasks_max: int) -> None:
        """Capture what `spec` says, with at most `tasks_max` tasks side by side."""
        self.name = spec.source_name
        self._spec = spec
        self._tasks_max = tasks_max
        self._fruitless = 0

    def open(self) -> PlannedWork:
        """See `Link`. Each start without progress since the one before halves the pieces of large transactions."""
        piece_bytes = max(PIECE_BYTES_MAX >> self._fruitless, _PIECE_BYTES_MIN)
        self._fruitless += 1
        spec = replace(self._spec, piece_bytes=piece_bytes)
        return PlannedWork("mysql", CapturePlanning(spec, self._tasks_max), self._take)

    def close(self) -> None:
        """See `Link`."""

    def _take(self, outcomes: Iterable[object]) -> None:
        published: list[SlicePublished] = []
        for outcome in outcomes:
            match outcome:
                case SlicePublished():
                    published.append(outcome)
                case _:
                    self._note(outcome)
        if published:
            self._fruitless = 0
            through = max((each.position for each in published), key=lambda position: position.order)
            rows_carried = sum(each.rows for each in published)
            told = {"files": len(published), "through": str(through), "rows": rows_carried}
            _log.info("backlog published", source=self.name, **told)

    def _note(self, outcome: object) -> None:
        match outcome:
            case TailSliceEnded(position, publications, rows):
                self._fruitless = 0
                _log.info(
                    "tail slice ended", source=self.name, through=str(position), publications=publications, rows=rows
                )
            case Started(how):
                _log.info("capture started", source=self.name, how=how)
            case SliceDropped(begin, waited) if waited:
                told = {"begin": str(begin), "waited_seconds": round(waited)}
                _log.warning("a backlog slice never got the publish token", source=self.name, **told)
            case SliceDropped():
                pass
            case _:
                raise TypeError(outcome)


class ObjectsLink:
    """The topics of all tables into files: the S3 spolt."""

    name = OBJECTS_LINK
    brings_changes_in = False

    def __init__(
        self,
        pipeline: PipelineSpec,
        state: State,
        epoch: int,
        tasks_max: int,
        offsets_per_task: int = OFFSETS_PER_TASK,
    ) -> None:
        """Write with at most `tasks_max` tasks side by side, each of some `offsets_per_task`."""
        self._pipeline = pipeline
        self._counts = CarriedRows(self.name, state)
        self._stopped = StoppedReadings(pipeline, self.name, state)
        self._epoch = epoch
        self._tasks_max = tasks_max
        self._offsets_per_task = offsets_per_task
        self._publisher: BatchPublisher | None = None
        self._follower: ObjectsFollower | None = None
        self._sweep_at = 0.0
        self._large = LargeSweeps(pipeline)

    def open(self) -> PlannedWork:
        """See `Link`."""
        create_ledgers(self._pipeline)
        warn_of_size_limits(self._pipeline)
        publisher = open_publisher(self._pipeline, OBJECTS_LINK, self._epoch)
        self._publisher = BatchPublisher(publisher, batch_topic(self._pipeline), self._epoch)
        self._stopped.tell(self._publisher.record)
        return PlannedWork("topics", self.planning(), self._take_visibly, self.follow)

    def planning(self) -> PlannerFactory:
        """What makes the planner of its micro-batches."""
        return ObjectsPlanning(self._pipeline, self._tasks_max, self._offsets_per_task)

    def follow(self, until: Until) -> None:
        """Carry what comes by ourselves, behind a micro-batch, while that is little."""
        if self._publisher is None:
            return
        publisher, pipeline = self._publisher, self._pipeline
        if self._follower is None:
            log = FollowedLog(open_topic_log(pipeline), partial(open_topic_tail, pipeline))
            keep_open(pipeline, log)
            planner = ObjectsLinkPlanner(pipeline, self._tasks_max, self._offsets_per_task, log)
            pace = pipeline.files_freshness_seconds
            self._follower = ObjectsFollower(planner, log, lambda: publisher.record, pace)
        self._follower.follow(PlannedWork("topics", self.planning(), self._take), until)
        publisher.settle()

    def close(self) -> None:
        """See `Link`."""
        self._follower = None
        close_kept()
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None

    def _take_visibly(self, outcomes: Iterable[object]) -> None:
        """Take them, and return when the planner of the next micro-batch, which asks Kafka, finds what we committed."""
        self._take(outcomes)
        if self._publisher is not None:
            self._publisher.settle()

    def _take(self, outcomes: Iterable[object]) -> None:
        plan: ObjectsPlan | None = None
        written: list[RangeWritten] = []
        for outcome in outcomes:
            match outcome:
                case ObjectsPlan():
                    plan = outcome
                case RangeWritten():
                    written.append(outcome)
                case _:
                    raise TypeError(outcome)
        if plan is not None and self._publisher is not None:
            self._counts.add(self._publisher.publish(plan, written))
            self._stopped.tell(self._publisher.record)
            self._sweep(self._publisher, _IDLE_SWEEPS if not written else 1)

    def _sweep(self, publisher: BatchPublisher, times_max: int) -> None:
        """Delete old files now and then, some at a time."""
        began = time.monotonic()
        if began >= self._sweep_at:
            has_more = all(sweep_files(self._pipeline, publisher) for _ in range(times_max))
            self._large.sweep()
            ended = time.monotonic()
            # Meanwhile no file is written: far targets and stores take a fifth of the time at most.
            soon = max(SWEEP_ON_SECONDS, _SWEEP_REST * (ended - began))
            self._sweep_at = ended + (soon if has_more else SWEEP_SECONDS)


class WarehouseLink:
    """Files into the tables of one sink: the warehouse spolt."""

    brings_changes_in = False

    def __init__(
        self,
        pipeline: PipelineSpec,
        link: LinkSpec,
        state: State,
        open_sinks: Callable[[PipelineSpec, LinkSpec], Sequence[Sink]] = open_sinks,
    ) -> None:
        """Load the tables that `link` wants into what `open_sinks` opens."""
        self.name = link.name
        self._pipeline = pipeline
        self._link = link
        self._state = state
        self._open_sinks = open_sinks
        self._loader: WarehouseLoader | None = None

    def open(self) -> MessageWork:
        """See `Link`."""
        create_ledgers(self._pipeline)
        sinks = self._open_sinks(self._pipeline, self._link)
        record = objects_record(self._pipeline)
        registry, read = open_registry(self._pipeline), batch_reader(self._pipeline, record.batches_from)
        loader = self._loader = WarehouseLoader(self.name, sinks, registry, self._state, self._wanted, read)
        kept, fills = kept_for(self._pipeline, self._link, record), fills_of(self._pipeline, self._link, record)
        start = loader.start(kept, open_table_control(self._pipeline, self._link), fills)
        pace = self._pipeline.freshness_seconds(self._link)
        return MessageWork(start, self._take, loader.keep_trying, pace)

    def close(self) -> None:
        """See `Link`."""
        if self._loader is not None:
            self._loader.close()
            self._loader = None

    def _wanted(self, source: str, table: TableId) -> bool:
        return source == self._link.source and self._link.patterns.matches(table)

    def _take(self, messages: Sequence[tuple[int, bytes]]) -> None:
        if self._loader is not None:
            self._loader.load(messages)
