"""One view of a pipeline for the page, the metrics and `penstock status`: its links in the order of the data.

Pure: it is computed from a `PipelineStatus` and the file, so that all three say the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from penstock.wiring.health import Problem, find_problems, is_healthy
from penstock.wiring.open import OBJECTS_LINK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.config.specs import PipelineSpec
    from penstock.ports.history import Sample
    from penstock.ports.state import LinkProgress, TableProgress
    from penstock.ports.table_actions import TableRequest
    from penstock.wiring.pipeline_status import PipelineStatus

Kind: TypeAlias = Literal["capture", "objects", "spolt", "join", "sink"]

_BETWEEN_TOPICS: Final = frozenset({"spolt", "join"})

UP_TO_DATE: Final = "up to date"

_RATE_MS = 20_000
"""Over how long a rate is measured, at least."""

_RATE_AGE_MS = 60_000
"""Samples older than this tell nothing of now."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A link of the file between its `origin` and its `target`; `progress` is None until it first ran.

    `state` is the link's, "stopped" whatever it was when nobody runs the pipeline.
    """

    name: str
    kind: Kind
    origin: str
    target: str
    state: str
    progress: LinkProgress | None
    lag_seconds: float | None
    stuck_seconds: float | None
    rows: int
    rows_per_second: float | None


@dataclass(frozen=True, slots=True)
class Cell:
    """One table at one link."""

    progress: TableProgress
    lag_seconds: float | None
    request: TableRequest | None = None
    skipped: int = 0

    @property
    def is_stopped(self) -> bool:
        """Whether the table is not carried any more."""
        return bool(self.progress.error)

    @property
    def is_paused(self) -> bool:
        """Whether somebody lets the table wait."""
        return self.request is not None and self.request.pauses

    @property
    def is_dropped(self) -> bool:
        """Whether somebody has dropped the table from the target."""
        return self.request is not None and self.request.has_dropped

    @property
    def state(self) -> str:
        """How it is if it does not go on, in a word; else ""."""
        states = {"stopped": self.is_stopped, "dropped": self.is_dropped, "paused": self.is_paused}
        return next((word for word, is_so in states.items() if is_so), "")


@dataclass(frozen=True, slots=True)
class TableRow:
    """One table at every link that has seen it, by the link's name."""

    table: str
    cells: Mapping[str, Cell]

    @property
    def is_stopped(self) -> bool:
        """Whether any link stopped it."""
        return any(cell.is_stopped for cell in self.cells.values())

    @property
    def state(self) -> str:
        """How it is, in words."""
        states = {cell.state for cell in self.cells.values()}
        for state in ("stopped", "paused", "dropped"):
            if state in states:
                return state
        # A lag of 0 s is not the end of the log: what is ahead may be new.
        is_behind = self.lag_seconds or any(cell.progress.behind_since_ms for cell in self.cells.values())
        return "unknown" if self.lag_seconds is None else "behind" if is_behind else UP_TO_DATE

    @property
    def lag_seconds(self) -> float | None:
        """How far it is behind at the link that is farthest; None where no link knows."""
        return max((cell.lag_seconds for cell in self.cells.values() if cell.lag_seconds is not None), default=None)


@dataclass(frozen=True, slots=True)
class Overview:
    """A pipeline as people see it. `tables` has what is wrong first, then what is farthest behind."""

    pipeline: str
    status: PipelineStatus
    problems: Sequence[Problem]
    is_healthy: bool
    stages: Sequence[Stage]
    tables: Sequence[TableRow]

    @property
    def is_running(self) -> bool:
        """Whether somebody is known to run it."""
        return bool(self.status.holder) or self.status.begins_again

    @property
    def stages_of_tables(self) -> Sequence[Stage]:
        """The links that carry tables, which the columns of `tables` are."""
        return [stage for stage in self.stages if stage.kind not in _BETWEEN_TOPICS]

    @property
    def stages_between_topics(self) -> Sequence[Stage]:
        """Spolts and joins, which have dead letters."""
        return [stage for stage in self.stages if stage.kind in _BETWEEN_TOPICS]


def make_overview(spec: PipelineSpec, status: PipelineStatus, file: str) -> Overview:
    """Compute the view; `file` is the pipeline's, which commands name."""
    problems = find_problems(status, file)
    stages = [_stage(status, *shape) for shape in _shapes(spec)]
    return Overview(spec.pipeline, status, problems, is_healthy(status, problems), stages, _table_rows(status, stages))


def rate(samples: Sequence[Sample], now_ms: int) -> float | None:
    """Rows per second lately, from samples, oldest first; None where they do not tell."""
    if not samples or now_ms - samples[-1].at_ms > _RATE_AGE_MS:
        return None
    newest = samples[-1]
    earlier = [sample for sample in samples if _RATE_MS <= newest.at_ms - sample.at_ms <= _RATE_AGE_MS]
    if not earlier:
        return None
    return max(0.0, (newest.rows - earlier[-1].rows) / ((newest.at_ms - earlier[-1].at_ms) / 1000))


def _shapes(spec: PipelineSpec) -> Sequence[tuple[str, Kind, str, str]]:
    """Name, kind, origin and target of every link of the file, in the order of the data."""
    return [
        *((source.name, "capture", source.name, "topics") for source in spec.sources),
        *((spolt.name, "spolt", "topics", "topics") for spolt in spec.spolts),
        *((join.name, "join", "topics", "topics") for join in spec.joins),
        (OBJECTS_LINK, "objects", "topics", "files"),
        *((link.name, "sink", "files", link.sink) for link in spec.links),
    ]


def _stage(status: PipelineStatus, name: str, kind: Kind, origin: str, target: str) -> Stage:
    progress = next((link for link in status.links if link.link == name), None)
    rows = sum(table.rows for table in status.tables if table.link == name)
    if progress is None:
        return Stage(name, kind, origin, target, "never ran", None, None, None, rows, None)
    return Stage(
        name,
        kind,
        origin,
        target,
        progress.state if status.holder or progress.state == "failed" else "stopped",
        progress,
        status.lag_seconds(progress),
        status.stuck_seconds(progress),
        rows,
        rate(status.samples.get(name, ()), status.now_ms) if status.holder else None,
    )


def _table_rows(status: PipelineStatus, stages: Sequence[Stage]) -> Sequence[TableRow]:
    names = {stage.name for stage in stages if stage.kind not in _BETWEEN_TOPICS}
    found: dict[str, dict[str, Cell]] = {}
    for table in status.tables:
        if table.link in names:
            lag_seconds, request = status.table_lag_seconds(table), status.request(table.link, table.table)
            skipped = status.skipped.get((table.link, table.table), 0)
            found.setdefault(table.table, {})[table.link] = Cell(table, lag_seconds, request, skipped)
    rows = [TableRow(table, cells) for table, cells in found.items()]
    order = {"stopped": 0, "paused": 1, "dropped": 1}
    return sorted(rows, key=lambda row: (order.get(row.state, 2), -(row.lag_seconds or 0), row.table))
