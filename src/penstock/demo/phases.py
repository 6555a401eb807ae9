"""What the demo does, phase by phase: fill, catch up, change, drain, compare."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.core.errors import UnavailableError
from penstock.demo.compare import TableComparison, compare_all
from penstock.demo.figures import Figures, WarehouseMeter
from penstock.demo.latency import Latency, LatencyWatcher
from penstock.demo.marketplace import ROWS_TOTAL, SEED, Sizes, fill
from penstock.demo.marks import EndMarks, write_end_marks
from penstock.demo.pipeline import LINK, PASSWORD, USER, Audited, DemoPipeline
from penstock.demo.schema import SCHEMA
from penstock.demo.sources.pick import database_of
from penstock.demo.workload import RATE, Workload, WorkloadProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from penstock.demo.sources.database import SourceServer
    from penstock.demo.upkeep import Upkeep
    from penstock.demo.view import Page

_LOOK_SECONDS: Final = 0.1
_ASK_EVERY_LOOKS: Final = 3
_START_SECONDS_MAX: Final = 600.0
_CATCH_UP_SECONDS_MAX: Final = 600.0
_DRAIN_SECONDS_MAX: Final = 300.0
_SLOWER_THAN_PLANNED_MAX: Final = 4.0
_ATTEMPTS: Final = 20
_PAUSE_SECONDS: Final = 1.0
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How much the demo does: rows at the start, then `rate` row changes a second for `seconds`."""

    seconds: float = 60.0
    rows_total: int = ROWS_TOTAL
    rate: int = RATE
    seed: int = SEED


@dataclass(frozen=True, slots=True)
class DemoResult:
    """How it went. `first_row_seconds` counts from the pipeline's start to the first row in the warehouse."""

    compared: tuple[TableComparison, ...]
    latency: Latency
    workload: WorkloadProgress
    first_row_seconds: float
    audited: Audited

    @property
    def is_equal(self) -> bool:
        """Whether the warehouse holds what the source holds, and the workload did all that it was to do."""
        differ = any(one.differences for one in self.compared)
        return bool(self.compared) and self.audited.is_equal and not self.workload.error and not differ


class Phases:
    """One run. Every wait keeps the processes up and the page fresh, and has an end."""

    def __init__(self, pipeline: DemoPipeline, options: DemoOptions, page: Page, upkeep: Upkeep) -> None:
        """Nothing happens before `run`."""
        self._pipeline = pipeline
        self._options = options
        self._page = page
        self._upkeep = upkeep
        self._meter = WarehouseMeter(pipeline.open_state, SCHEMA, lambda link: link == LINK)
        self._phase = ""
        self._detail = ""
        self._phase_began = time.monotonic()
        self._filled: dict[str, tuple[int, float]] = {}
        self._workload: Workload | None = None
        self._watcher: LatencyWatcher | None = None
        self._schema_changes_told = 0
        self._marks_written = 0

    def run(self) -> DemoResult:
        """Run all phases; raises PenstockError when one of them cannot be ended."""
        title = self._pipeline.source_kind.title
        self._enter(f"starting {title}")
        server = self._upkeep.start_source()
        self._insist(lambda: database_of(server).create_login(USER, PASSWORD))
        self._pipeline.write_file(server)
        self._tell(f"{title} runs on {server.host}:{server.port}")
        sizes = self._fill(server)
        first_row_seconds = self._start()
        self._catch_up(server)
        workload = Workload(server, sizes, self._options.seconds, self._options.seed, self._options.rate)
        with self._watched(workload) as watcher:
            self._change(workload)
            self._drain(server)
        self._enter("auditing the warehouse")
        audited = self._insist(self._pipeline.audit)
        self._enter("stopping the pipeline")
        self._upkeep.stop_pipeline()
        self._enter("comparing source and warehouse row by row")
        compared = self._insist(lambda: compare_all(server, self._pipeline.query, SCHEMA))
        return DemoResult(compared, watcher.latency(), workload.progress(), first_row_seconds, audited)

    def _fill(self, server: SourceServer) -> Sizes:
        self._enter("filling the marketplace")
        sizes = self._insist(lambda: fill(server, self._options.rows_total, self._options.seed, self._show_filled))
        now = time.time()
        self._filled = {table: (rows, now) for table, rows in asdict(sizes).items()}
        self._tell(f"the marketplace has {sizes.total:,} rows")
        return sizes

    def _start(self) -> float:
        self._enter("starting the pipeline and its servers")
        self._upkeep.start_pipeline()
        self._wait_until(lambda: self._meter.arrived() > 0, _START_SECONDS_MAX)
        self._tell("first rows in the warehouse")
        return self._phase_seconds()

    def _catch_up(self, server: SourceServer) -> None:
        self._enter("catching up with the source's log")
        self._wait_for(self._mark(server), _CATCH_UP_SECONDS_MAX)
        self._tell("the warehouse has all of the marketplace")

    def _change(self, workload: Workload) -> None:
        self._enter("row changes and schema changes, while the pipeline runs")
        workload.start()
        seconds_max = self._options.seconds * _SLOWER_THAN_PLANNED_MAX + _DRAIN_SECONDS_MAX
        self._wait_until(lambda: workload.progress().ended, seconds_max)
        progress = workload.progress()
        self._tell(progress.error or f"{progress.changes_total:,} row changes, {progress.rate:,.0f} a second")

    def _drain(self, server: SourceServer) -> None:
        """Wait for the rest. What does not come in time is found by the comparison."""
        self._enter("draining: waiting for the last changes to arrive")
        marks = self._mark(server)
        try:
            self._wait_for(marks, _DRAIN_SECONDS_MAX)
        except UnavailableError as error:
            self._tell(error.message)
        else:
            self._tell("the last changes have arrived")

    @contextmanager
    def _watched(self, workload: Workload) -> Iterator[LatencyWatcher]:
        watcher = LatencyWatcher(self._pipeline.query_running, SCHEMA, workload.take_samples)
        self._workload, self._watcher = workload, watcher
        watcher.start()
        try:
            yield watcher
        finally:
            workload.stop()
            watcher.stop()

    def _mark(self, server: SourceServer) -> EndMarks:
        def write() -> EndMarks:
            self._marks_written += 1
            return write_end_marks(server, self._marks_written)

        return self._insist(write)

    def _wait_for(self, marks: EndMarks, seconds_max: float) -> None:
        looks = 0

        def is_there() -> bool:
            nonlocal looks
            looks += 1
            return looks % _ASK_EVERY_LOOKS == 0 and not marks.missing(self._pipeline.query_running)

        self._wait_until(is_there, seconds_max)

    def _wait_until(self, done: Callable[[], bool], seconds_max: float) -> None:
        """Look after everything until `done`; UnavailableError after `seconds_max`."""
        deadline = time.monotonic() + seconds_max
        while not done():
            self._upkeep.look()
            self._show()
            if time.monotonic() > deadline:
                message = f"{self._phase}: not done after {seconds_max:.0f} s"
                raise UnavailableError(message, f"read {self._pipeline.log}")
            time.sleep(_LOOK_SECONDS)

    def _insist(self, work: Callable[[], _T]) -> _T:
        """Do `work`, and again if the source was ended meanwhile."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return work()
            except UnavailableError:
                time.sleep(_PAUSE_SECONDS)
                self._upkeep.look()
        return work()

    def _enter(self, phase: str) -> None:
        self._phase, self._detail, self._phase_began = phase, "", time.monotonic()
        self._show()

    def _phase_seconds(self) -> float:
        return time.monotonic() - self._phase_began

    def _tell(self, text: str) -> None:
        self._page.note(f"{text} ({self._phase_seconds():.0f} s)")

    def _show_filled(self, rows: int) -> None:
        self._detail = f"{rows:,} rows"
        self._show()

    def _show(self) -> None:
        progress = self._workload.progress() if self._workload else WorkloadProgress()
        for title in progress.schema_changes[self._schema_changes_told :]:
            self._tell(title)
        self._schema_changes_told = len(progress.schema_changes)
        self._page.show(
            Figures(
                self._phase,
                self._phase_seconds(),
                self._detail,
                progress,
                self._watcher.latency() if self._watcher else Latency(),
                self._meter.tables(count_written(self._filled, progress)),
                self._meter.links(),
                self._page.notes,
            )
        )


def count_written(filled: Mapping[str, tuple[int, float]], progress: WorkloadProgress) -> dict[str, tuple[int, float]]:
    """What the source has of every table, and since when: what filled it, and what the workload has changed since.

    A table whose statements have met no row yet has no newest change.
    """
    written = dict(filled)
    for table, changes in progress.changes.items():
        rows, filled_at = written.get(table, (0, 0.0))
        written[table] = (rows + changes, progress.newest.get(table, filled_at))
    return written
