"""What a capture's micro-batches do: the first start, a tail slice of the live tail, or slices of the backlog.

Spark starts several Python processes for each query, and all of them import this
module. Drivers of servers are therefore imported where they are used: a process
that only plans, or only passes tasks on, does not wait for them.
"""

from __future__ import annotations

import uuid
from contextlib import closing
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from penstock.core.publication import CaptureRecord, StoppedTable
from penstock.links.capture.backlog_slices import BacklogSlice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.core.positions import Position
    from penstock.jobs.link import Task
    from penstock.links.capture.live import LiveCapture
    from penstock.links.capture.spec import CaptureSpec
    from penstock.ports.source import LogFile

_BACKLOG_FILE_BYTES_MAX = 256 << 20
_BACKLOG_FILES_MIN = 2
_FILES_PER_TASK_MAX = 16
"""So many, for between two micro-batches nothing is read ahead; no more, for each ends some time."""
_BETWEEN_SLICES_SECONDS = 10.0
"""Longer than Spark takes from one micro-batch to the next; when it never comes, changes soon wait for a restart."""


@dataclass(frozen=True, slots=True)
class Started:
    """The first start was made, `how` in words."""

    how: str


@dataclass(frozen=True, slots=True)
class StartCapture:
    """Make the first start: find the start of the log, or copy the tables."""

    spec: CaptureSpec

    def run(self) -> Iterator[object]:
        """Commit the first position record."""
        from penstock.wiring.capture import start_capture  # noqa: PLC0415 - see the module's docstring

        yield Started(start_capture(self.spec))


@dataclass(frozen=True, slots=True)
class TailSlice:
    """Follow the log for a time. `number` counts the micro-batches of the planner called `planner`."""

    spec: CaptureSpec
    planner: str
    number: int
    seconds: float
    stop: Position | None

    def run(self) -> Iterator[object]:
        """Read, decode and publish; yield a TailSliceEnded."""
        live = _take_over(self)
        try:
            ended = live.run(self.seconds, self.stop)
        except BaseException:
            live.close()
            raise
        # Behind a stop nobody follows on: of a stream that is not read, the server keeps its end for a minute.
        is_through = self.stop is not None and ended.position.order >= self.stop.order
        if live.can_go_on and not is_through:
            _kept[self.spec.source_name] = (self, live)
            # The next tail slice may come to another process, and without transactions nothing would fence this one.
            if self.stop is None and self.spec.pipeline.kafka.transactions:
                live.go_on(_BETWEEN_SLICES_SECONDS)
        else:
            live.close()
        yield ended


@dataclass(frozen=True, slots=True)
class CarrySlices:
    """Carry every N-th file of the backlog, beside tasks that carry those between; each is published in order.

    All files must be planned with the tables in `stopped`; `connection_index` tells the task from those beside it.
    """

    spec: CaptureSpec
    slices: Sequence[BacklogSlice]
    stopped: Mapping[str, StoppedTable]
    connection_index: int

    def run(self) -> Iterator[object]:
        """Yield what became of each file, up to the first behind which none gets the token."""
        from penstock.links.capture.carry_slice import carry_slice  # noqa: PLC0415
        from penstock.wiring.backlog import SliceReader  # noqa: PLC0415

        with closing(SliceReader(self.spec, self.connection_index)) as connection_index:
            for slice_ in self.slices:
                with connection_index.read(slice_.begin, self.stopped) as ahead:
                    carried = carry_slice(slice_, ahead, connection_index, self.spec.epoch)
                yield carried
                if not carried.goes_on:
                    return


_kept: dict[str, tuple[TailSlice, LiveCapture]] = {}
"""The live capture that the last tail slice in this process left open, by source: the next may go on with it."""


def _take_over(tail_slice: TailSlice) -> LiveCapture:
    """Go on with what the tail slice just before this one left open in this process, or open anew.

    Only the very next tail slice may: in between, another process may have published.
    """
    from penstock.wiring.capture import open_live  # noqa: PLC0415

    kept = _kept.pop(tail_slice.spec.source_name, None)
    if kept is not None:
        before, live = kept
        if (before.spec, before.planner, before.number) == (tail_slice.spec, tail_slice.planner, tail_slice.number - 1):
            return live
        live.close()
    return open_live(tail_slice.spec)


class CapturePlanner:
    """Plans a capture's micro-batches from its committed position and the source's list of binlogs."""

    def __init__(self, spec: CaptureSpec, tasks_max: int) -> None:
        """Plan at most `backlog_tasks` of the source and `tasks_max` tasks side by side; tail slices alone with one.

        Ranges wait for each other: `tasks_max` must be able to run at once.
        """
        from penstock.wiring.capture_kinds import capture_kind  # noqa: PLC0415
        from penstock.wiring.open import open_topic_log  # noqa: PLC0415

        self._spec = spec
        self._tasks_max = min(spec.source.backlog_tasks, tasks_max)
        self._topics = open_topic_log(spec.pipeline)
        self._log = capture_kind(spec.source).log(spec.source)
        self._stop: Position | None = None
        self._name = uuid.uuid4().hex
        self._number = 0

    def fix_end(self) -> None:
        """Stop at what is committed in the source now."""
        self._stop = self._log.head()

    def has_work(self) -> bool:
        """Tell whether the stop is still ahead; without a stop there is always a tail slice to run."""
        if self._stop is None:
            return True
        record = self._record()
        if record is None or record.position.order < self._stop.order:
            return True
        from penstock.wiring.snapshots import has_snapshots  # noqa: PLC0415

        return has_snapshots(self._spec, record.rereads, were_tried=self._number > 0)

    def plan(self) -> Sequence[Task]:
        """Start, catch up file by file, or follow."""
        self._number += 1
        record = self._record()
        if record is None:
            return [StartCapture(self._spec)]
        files = self._log.complete_files_from(record.position)
        return self._backlog(record, files) or [self._tail_slice(record, files)]

    def _tail_slice(self, record: CaptureRecord, files: Sequence[LogFile]) -> TailSlice:
        """Follow the log; with slices behind the file we are in the middle of, only to the end of that file."""
        stop = self._stop
        has_slices = self._tasks_max >= _BACKLOG_FILES_MIN and len(files) > _BACKLOG_FILES_MIN
        if has_slices and record.position.file == files[0].begin.file:
            stop = files[1].begin
        return TailSlice(self._spec, self._name, self._number, self._spec.source.tail_slice_seconds, stop)

    def _record(self) -> CaptureRecord | None:
        """The record to go on from, None while the first start is still to be made."""
        from penstock.wiring.open import committed_position  # noqa: PLC0415

        committed = committed_position(self._spec.pipeline, self._topics, self._spec.source_name)
        record = None if committed is None else CaptureRecord.from_mapping(committed)
        return None if record is None or record.is_snapshotting else record

    def _backlog(self, record: CaptureRecord, files: Sequence[LogFile]) -> list[CarrySlices]:
        """Whole files that lie between us and the file that is being written.

        A slice ends at the first statement, and what was read behind it is thrown
        away. From the middle of a file, where a statement may have left us, a tail slice
        therefore reads to the file's end, statements included. Files that are too large
        to be held in memory are left to tail slices too: their servers would not wait until
        they are read on. So is everything while XA transactions are prepared, because
        slices do not know of them. One file alone is not worth a batch.
        """
        next_files = files[: self._tasks_max * _FILES_PER_TASK_MAX]
        fitting = takewhile(lambda file: file.size_bytes <= _BACKLOG_FILE_BYTES_MAX, next_files)
        begins = [file.begin for file in fitting]
        tasks = min(self._tasks_max, len(begins))
        if tasks < _BACKLOG_FILES_MIN or record.position.is_open or begins[0].order != record.position.order:
            return []
        plan, last = f"{self._name}-{self._number}", len(begins) - 1
        slices = [BacklogSlice(plan, number, begin, number == last) for number, begin in enumerate(begins)]
        return [
            CarrySlices(self._spec, slices[connection_index::tasks], record.stopped, 1 + connection_index)
            for connection_index in range(tasks)
        ]


@dataclass(frozen=True, slots=True)
class CapturePlanning:
    """Makes a capture's planner."""

    spec: CaptureSpec
    tasks_max: int

    def __call__(self) -> CapturePlanner:
        """Open the planner."""
        return CapturePlanner(self.spec, self.tasks_max)
