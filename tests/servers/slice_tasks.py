"""Tasks that carry ranges of a backlog, each in a process of its own, without Spark."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

from tests.servers.forked import FORKS

from penstock.config.crash_points import VARIABLE
from penstock.core.publication import CaptureRecord
from penstock.jobs.capture_tasks import CapturePlanner, CarrySlices
from penstock.links.capture.spec import CaptureSpec
from penstock.wiring.epochs import next_epoch
from penstock.wiring.open import committed_position, create_ledgers, open_topic_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.config.specs import PipelineSpec

_END_SECONDS = 60.0


def plan_ranges(spec: PipelineSpec, tasks: int) -> Sequence[CarrySlices]:
    """Plan a micro-batch of a new instance, which must be one of ranges."""
    epoch = next_epoch(spec)
    create_ledgers(spec)
    planned = CapturePlanner(CaptureSpec(spec, spec.sources[0].name, epoch), tasks).plan()
    ranges = [task for task in planned if isinstance(task, CarrySlices)]
    assert len(ranges) == len(planned) == tasks
    return ranges


def newest_record(spec: PipelineSpec) -> CaptureRecord:
    with closing(open_topic_log(spec)) as log:
        record = committed_position(spec, log, spec.sources[0].name)
    assert record is not None
    return CaptureRecord.from_mapping(record)


class RangeTask:
    """A task that runs; it ends as kill -9 would have it end at the place `crash_at`, if it comes by."""

    def __init__(self, task: CarrySlices, crash_at: str = "") -> None:
        self._receiver, sender = FORKS.Pipe(duplex=False)
        self.process = FORKS.Process(target=_run, args=(task, crash_at, sender))
        self.process.start()
        sender.close()

    def outcomes(self) -> list[Any]:
        """What it has to say, when it has ended."""
        assert self._receiver.poll(_END_SECONDS), "it did not end"
        outcomes: list[Any] = self._receiver.recv()
        self.process.join(_END_SECONDS)
        return outcomes

    def died(self) -> int:
        """Wait for its end; the number of the signal that it died of."""
        self.process.join(_END_SECONDS)
        assert self.process.exitcode is not None
        return -self.process.exitcode

    def kill(self) -> None:
        """End it as Spark ends the tasks of a micro-batch that has failed."""
        self.process.kill()
        self.process.join(_END_SECONDS)


def _run(task: CarrySlices, crash_at: str, sender: Any) -> None:  # noqa: ANN401 - a pipe's end has no public type
    os.environ[VARIABLE] = crash_at
    sender.send(list(task.run()))
