"""What a spolt's micro-batches do: read ranges of topics and run user code over them.

As in `capture_tasks`, what talks to servers is imported where it is used.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.config.specs import PipelineSpec
    from penstock.jobs.link import Task
    from penstock.links.spolts.plan import InputRange
    from penstock.links.spolts.process import RangeProcessor
    from penstock.links.spolts.spec import SpoltJob
    from penstock.ports.messages import MessageLog
    from penstock.ports.subjects import Subjects


@dataclass(frozen=True, slots=True)
class ProcessRanges:
    """Process some ranges of a plan."""

    pipeline: PipelineSpec
    job: SpoltJob
    ranges: tuple[InputRange, ...]

    def run(self) -> Iterator[object]:
        """Yield a RangeProcessed for each range, unless there is too much: then for the first ones."""
        workplace = _workplace(self)
        is_sound = True
        try:
            for part in workplace.processor.process(self.ranges):
                is_sound = is_sound and part.fault is None
                yield part
        except BaseException:
            is_sound = False
            raise
        finally:
            if not is_sound:
                _kept.pop(self.job.spolt.name, None)
                workplace.close()


@dataclass(frozen=True, slots=True)
class HandOver:
    """Leave ranges to the driver: their spolt has expressions, which Spark evaluates when the driver asks it."""

    ranges: tuple[InputRange, ...]

    def run(self) -> Iterator[object]:
        """Yield the ranges as they are."""
        yield self


@dataclass(frozen=True, slots=True)
class _Workplace:
    """What the tasks of a spolt in one process share: user code is loaded once, brokers are found once."""

    task: ProcessRanges
    processor: RangeProcessor
    log: MessageLog
    subjects: Subjects

    def fits(self, task: ProcessRanges) -> bool:
        return (self.task.pipeline, self.task.job) == (task.pipeline, task.job)

    def close(self) -> None:
        with suppress(PenstockError):
            self.log.close()
        self.subjects.close()


_kept: dict[str, _Workplace] = {}


def _workplace(task: ProcessRanges) -> _Workplace:
    from penstock.links.spolts.load import load_code  # noqa: PLC0415 - see the module's docstring
    from penstock.links.spolts.process import RangeProcessor  # noqa: PLC0415
    from penstock.wiring.open import open_subjects, open_topic_log  # noqa: PLC0415

    name = task.job.spolt.name
    kept = _kept.get(name)
    if kept is not None and kept.fits(task):
        return kept
    code = load_code(task.job.spolt)
    log, subjects = open_topic_log(task.pipeline), open_subjects(task.pipeline)
    processor = RangeProcessor(task.job, code, log, subjects, task.pipeline.home / "spolts" / name)
    _kept[name] = _Workplace(task, processor, log, subjects)
    return _kept[name]


class SpoltLinkPlanner:
    """Plans from the spolt's committed record and the ends of the topics."""

    def __init__(self, pipeline: PipelineSpec, job: SpoltJob, tasks_max: int) -> None:
        """Plan at most `tasks_max` tasks side by side."""
        from penstock.wiring.spolts import SpoltPlanning  # noqa: PLC0415 - see the module's docstring

        self._pipeline = pipeline
        self._job = job
        self._tasks_max = tasks_max
        self._planning = SpoltPlanning(pipeline, job.spolt)
        self._planned: Sequence[InputRange] = ()

    def fix_end(self) -> None:
        """Nothing to remember: whoever asks for an end has stopped what writes the topics before."""

    def has_work(self) -> bool:
        """Plan, and tell whether anything came of it."""
        self._planned = self._planning.plan()
        return bool(self._planned)

    def plan(self) -> Sequence[Task]:
        """Share the plan out."""
        if not self._planned:
            self.has_work()
        ranges, self._planned = self._planned, ()
        if self._job.spolt.has_expressions:
            return [HandOver(tuple(ranges))] if ranges else []
        shares = [ranges[index :: self._tasks_max] for index in range(min(self._tasks_max, len(ranges)))]
        return [ProcessRanges(self._pipeline, self._job, tuple(share)) for share in shares]


@dataclass(frozen=True, slots=True)
class SpoltLinkPlanning:
    """Makes a spolt's planner."""

    pipeline: PipelineSpec
    job: SpoltJob
    tasks_max: int

    def __call__(self) -> SpoltLinkPlanner:
        """Open the planner."""
        return SpoltLinkPlanner(self.pipeline, self.job, self.tasks_max)
