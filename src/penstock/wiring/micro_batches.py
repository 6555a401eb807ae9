"""Runs the tasks of a sink beside the links of a running pipeline.

No link waits for a task, but for the moment of its transaction where a target takes one
writer, and none ends with it. A task that fails is told in `penstock status`, and tried
again at its next time, until it is suspended for the rest of the run.
"""

from __future__ import annotations

import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

import structlog

from penstock.config.sinks import TaskSinkSpec
from penstock.core.errors import PenstockError, PositionError, RefusedStatementError, UnavailableError, UsageError
from penstock.core.warehouse.micro_batches import find_due, seconds_to_next
from penstock.wiring.background_thread import BackgroundThread
from penstock.wiring.open import open_pipeline_state
from penstock.wiring.sink_kinds.table import tasks_kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from penstock.config.specs import PipelineSpec
    from penstock.core.warehouse.micro_batches import Task
    from penstock.links.warehouse.micro_batches import TaskRuns

_log = structlog.get_logger()

_PAUSE_SECONDS_MAX: Final = 60.0
_AGAIN_SECONDS: Final = 5.0
_OF_THE_TASK: Final = (RefusedStatementError, UsageError, PositionError)
"""What does not pass by itself. A disk that is full, a lock and the like do: no task is suspended for them."""


def tasks_link(sink: str) -> str:
    """What the tasks of a sink are called where links are: no link has a name with a blank."""
    return f"tasks of {sink}"


def sinks_with_tasks(spec: PipelineSpec) -> Sequence[TaskSinkSpec]:
    """The sinks of a pipeline that have tasks."""
    return [sink for sink in spec.sinks if isinstance(sink, TaskSinkSpec) and sink.tasks]


def run_tasks_once(spec: PipelineSpec) -> PenstockError | None:
    """Run each task of a pipeline that has something to do; return the first error."""
    first: PenstockError | None = None
    for sink in sinks_with_tasks(spec):
        due = TaskRound(spec, sink)
        try:
            with closing(open_tasks(spec, sink)) as runs:
                due.run(runs, time.monotonic())
            error = next(iter(due.errors.values()), None)
        except PenstockError as refused:
            # A sink that is away holds up its own tasks.
            error = refused
        first = first or error
    return first


def open_tasks(spec: PipelineSpec, sink: TaskSinkSpec) -> TaskRuns:
    """Open a sink for its tasks. Raises what opening it for a link does."""
    from penstock.links.warehouse.micro_batches import TaskRuns  # noqa: PLC0415 - drivers are slow to import

    sources = sorted(link.source for link in spec.links if link.sink == sink.name)
    runs = TaskRuns(tasks_kind(spec, sink).open_for_tasks(), spec.pipeline, sources)
    try:
        runs.start()
    except BaseException:
        runs.close()
        raise
    return runs


class TaskRound:
    """Which tasks of a sink are due, and what came of those that ran."""

    def __init__(self, spec: PipelineSpec, sink: TaskSinkSpec) -> None:
        """Begin with all of them due, and none that failed: a start is another try."""
        self._spec = spec
        self._link = tasks_link(sink.name)
        self._tasks = [task.task for task in sink.tasks]
        self._checked_at: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self.errors: dict[str, PenstockError] = {}
        self._waits = True
        self._noted: set[str] | None = None

    def run(self, runs: TaskRuns, now: float) -> float:
        """Run what is due at `now` (seconds that only grow) and has something to do; return when to do it again.

        Raises UnavailableError where the target is away, which is no task's failure.
        """
        due = find_due(self._tasks, self._checked_at, now)
        loads = runs.loads()
        for task in self._tasks:
            if task.name in due or (task.after and not any(name in self.errors for name in task.after)):
                self._run(runs, task, loads)
            if task.name in due:
                self._checked_at[task.name] = now
        if self._waits:
            self._go_on()
        self._note({task.name for task in self._tasks if task.stream and str(task.stream) not in loads})
        return now + min(seconds_to_next(self._tasks, self._checked_at, now), _PAUSE_SECONDS_MAX)

    def wait(self, error: PenstockError) -> None:
        """Tell of every task without an error of its own that it waits for the target; `run` takes it back."""
        self._waits = True
        with closing(open_pipeline_state(self._spec)) as state:
            for task in (task for task in self._tasks if task.name not in self.errors):
                told = f"the task waits: {error.message}"
                state.stop_table(self._link, task.name, told, error.hint, time.time_ns() // 1_000_000)

    def _note(self, waiting: set[str]) -> None:
        """Say which tasks read a table that nothing was ever loaded into: its name may be a mistake."""
        if waiting == self._noted:
            return
        with closing(open_pipeline_state(self._spec)) as state:
            # A note would take the place of an error.
            for task in (task for task in self._tasks if task.name not in self.errors):
                if task.name in waiting:
                    note = f"it waits for the first rows of {task.stream}; is that what the sink calls the table?"
                    state.note_table(self._link, task.name, note)
                elif self._noted is None or task.name in self._noted:
                    state.note_table(self._link, task.name, "")
        self._noted = waiting

    def _go_on(self) -> None:
        with closing(open_pipeline_state(self._spec)) as state:
            for name in state.stopped_tables(self._link):
                if name not in self.errors:
                    state.resume_table(self._link, name)
        # Notes went with the errors.
        self._waits, self._noted = False, None

    def _run(self, runs: TaskRuns, task: Task, loads: Mapping[str, str]) -> None:
        failures = self._failures.get(task.name, 0)
        if failures >= task.failures_max or not runs.has_work(task, loads):
            return
        try:
            ran = runs.run(task)
        except PenstockError as error:
            if isinstance(error, UnavailableError) and not _answers(runs):
                raise
            self._fail(task, error, failures + isinstance(error, _OF_THE_TASK))
            return
        if task.name in self.errors:
            with closing(open_pipeline_state(self._spec)) as state:
                state.resume_table(self._link, task.name)
            del self.errors[task.name]
        self._failures[task.name] = 0
        if ran:
            _log.info("task ran", link=self._link, task=task.name)

    def _fail(self, task: Task, error: PenstockError, failures: int) -> None:
        self._failures[task.name], self.errors[task.name] = failures, error
        told = f"failed {failures} times in a row: {error.message}" if failures > 1 else f"failed: {error.message}"
        # What a target says to do about a statement is about tables of ours.
        is_refused = isinstance(error, RefusedStatementError)
        mend = "correct the task's `sql`, or what the error names" if is_refused else error.hint
        if failures >= task.failures_max:
            told, hint = f"the task is suspended: it {told}", f"{mend}; then start the pipeline again"
        else:
            told, hint = f"the task {told}", f"{mend}; nothing is lost, and it is tried again at its next time"
        _log.warning("task failed", link=self._link, task=task.name, error=told, hint=hint)
        with closing(open_pipeline_state(self._spec)) as state:
            state.stop_table(self._link, task.name, told, hint, time.time_ns() // 1_000_000)


def _answers(runs: TaskRuns) -> bool:
    """Whether a target answers in spite of an error: a lock, a full tablespace and a timeout may be one task's."""
    try:
        runs.loads()
    except PenstockError:
        return False
    return True


class MicroBatches(BackgroundThread):
    """The tasks of one sink, while a `with` block lasts. One that is under way at the end is waited for a while.

    It is rolled back if that takes too long, and runs again with the next start.
    """

    waits = "tasks wait for their target"
    pause_seconds = _AGAIN_SECONDS
    stop_seconds = 10.0

    def __init__(self, spec: PipelineSpec, sink: TaskSinkSpec) -> None:
        """Run the tasks of `sink`."""
        super().__init__(f"penstock-{tasks_link(sink.name).replace(' ', '-')}")
        self._spec = spec
        self._sink = sink
        self._round: TaskRound | None = None
        self._runs: TaskRuns | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, and let go of the target if nothing uses it any more."""
        super().__exit__(kind, error, trace)
        if not self._thread.is_alive():
            self._close()

    def work(self) -> float:
        """Run what is due, and return in how many seconds to do it again."""
        if self._round is None:
            self._round = TaskRound(self._spec, self._sink)
        try:
            if self._runs is None:
                self._runs = open_tasks(self._spec, self._sink)
            next_ = self._round.run(self._runs, time.monotonic())
            return max(0.0, next_ - time.monotonic())
        except PenstockError:
            self._close()
            raise

    def tell_failure(self, error: PenstockError, failures: int) -> None:
        """See `BackgroundThread`; `penstock status` is told too, if its database can be."""
        super().tell_failure(error, failures)
        if self._round is not None:
            with suppress(PenstockError):
                self._round.wait(error)

    def _close(self) -> None:
        if self._runs is not None:
            self._runs.close()
            self._runs = None
