"""What the demo shows while it runs, gathered from the workload, the watcher and the pipeline's own state."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError
from penstock.demo.latency import Latency
from penstock.demo.workload import WorkloadProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.ports.state import LinkProgress, State, TableProgress

_RATE_WINDOW_SECONDS: Final = 4.0
_READ_STATE_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class TableFigures:
    """One table. `lag_seconds` is how much newer the source's newest change is; None while nothing has arrived."""

    table: str
    source_changes: int
    arrived: int
    arrived_per_second: float
    lag_seconds: float | None
    error: str


@dataclass(frozen=True, slots=True)
class Figures:
    """One look at everything. `notes` are the last things worth telling, oldest first."""

    phase: str
    phase_seconds: float
    detail: str = ""
    workload: WorkloadProgress = field(default_factory=WorkloadProgress)
    latency: Latency = field(default_factory=Latency)
    tables: tuple[TableFigures, ...] = ()
    links: tuple[LinkProgress, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def arrived_per_second(self) -> float:
        """Changes that reach the warehouse per second, all tables together."""
        return sum(table.arrived_per_second for table in self.tables)


class WarehouseMeter:
    """Reads what a link has carried, at most twice a second, and makes rates of it.

    `open_state` is called when figures are first asked for, and again until it
    succeeds. While the state cannot be read the last figures stay.
    """

    def __init__(self, open_state: Callable[[], State], schema: str, carried_by: Callable[[str], bool]) -> None:
        """Count what links whose name is `carried_by` carry of the tables of `schema`."""
        self._open_state = open_state
        self._prefix = f"{schema}."
        self._carried_by = carried_by
        self._state: State | None = None
        self._links: tuple[LinkProgress, ...] = ()
        self._tables: dict[str, TableProgress] = {}
        self._history: deque[tuple[float, dict[str, int]]] = deque()
        self._read_at = -_READ_STATE_SECONDS

    def links(self) -> tuple[LinkProgress, ...]:
        """Every link of the pipeline."""
        self._read()
        return self._links

    def arrived(self) -> int:
        """Changes that have reached the warehouse, of all tables."""
        self._read()
        return sum(progress.rows for progress in self._tables.values())

    def tables(self, written: Mapping[str, tuple[int, float]]) -> tuple[TableFigures, ...]:
        """Return the figures of every table, by name.

        `written` maps a table to the changes that the source says it made, and to
        the Unix time in seconds of the newest.
        """
        self._read()
        names = sorted({*written, *self._tables})
        return tuple(self._figures(name, *written.get(name, (0, 0.0))) for name in names)

    def _figures(self, name: str, changes: int, newest: float) -> TableFigures:
        progress = self._tables.get(name)
        if progress is None:
            return TableFigures(name, changes, 0, 0.0, None, "")
        # The log has whole seconds: half a second of lag on average is nothing but rounding.
        lag = max(0.0, int(newest) - progress.last_timestamp_ms / 1_000) if progress.last_timestamp_ms else None
        return TableFigures(name, changes, progress.rows, self._rate(name), lag, progress.error)

    def _rate(self, name: str) -> float:
        if len(self._history) < 2:  # noqa: PLR2004 - a rate takes two looks
            return 0.0
        (then, before), (now, after) = self._history[0], self._history[-1]
        return max(0.0, (after.get(name, 0) - before.get(name, 0)) / max(now - then, _READ_STATE_SECONDS))

    def _read(self) -> None:
        now = time.monotonic()
        if now - self._read_at < _READ_STATE_SECONDS:
            return
        self._read_at = now
        try:
            if self._state is None:
                self._state = self._open_state()
            self._links = tuple(self._state.links())
            self._tables = self._by_name(self._state.tables())
        except PenstockError:
            return
        self._history.append((now, {name: progress.rows for name, progress in self._tables.items()}))
        while now - self._history[0][0] > _RATE_WINDOW_SECONDS:
            self._history.popleft()

    def _by_name(self, tables: Sequence[TableProgress]) -> dict[str, TableProgress]:
        return {
            table.table.removeprefix(self._prefix): table
            for table in tables
            if self._carried_by(table.link) and table.table.startswith(self._prefix)
        }
