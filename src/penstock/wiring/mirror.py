"""Mirrors how the links stand into the state database, for people and `penstock status`.

Nothing that moves data reads the mirror. How far each link is behind is measured
by what lies ahead of it in its own log, idle or not: see `follow_lag`.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from penstock.core.lag import Lag, follow_lag, lag_seconds
from penstock.ports.history import HOUR, Sample
from penstock.ports.state import STARTING, LinkProgress
from penstock.wiring.background_thread import BackgroundThread
from penstock.wiring.capture_mirror import SourceMirror
from penstock.wiring.catalog_watch import CatalogWatch
from penstock.wiring.join_mirror import JoinMirror
from penstock.wiring.link_place import LinkPlace
from penstock.wiring.loose_columns import LooseColumns
from penstock.wiring.open import open_history, open_pipeline_state
from penstock.wiring.source_status import RetentionWatch
from penstock.wiring.spolt_mirror import SpoltMirror
from penstock.wiring.topic_mirrors import ObjectsMirror, WarehouseMirror

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from penstock.config.specs import PipelineSpec
    from penstock.core.errors import PenstockError
    from penstock.ports.state import State
    from penstock.wiring.link_place import LinkMirror


_PERIOD_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class LinkCondition:
    """How a link is: `starting`, `running`, `retrying`, `failed` or `stopped`, and why.

    `failures` counts how often it failed since the run began; the last was `failure`, at `failed_at_ms`.
    """

    state: str
    error: str = ""
    hint: str = ""
    failures: int = 0
    failed_at_ms: int = 0
    failure: str = ""

    def running(self) -> LinkCondition:
        """The same link when it has been started again."""
        return replace(self, state="running", error="", hint="")

    def failed(self, state: str, error: PenstockError) -> LinkCondition:
        """The same link after one more failure."""
        return LinkCondition(state, error.message, error.hint, self.failures + 1, _now_ms(), error.message)


Conditions: TypeAlias = dict[str, LinkCondition]
"""Every link that this run runs, by name. Written by the supervisor, read by the mirror."""


class Mirror(BackgroundThread):
    """Mirrors a pipeline. Nothing that moves data needs it: when its database is back, it goes on."""

    waits = "mirror waits"
    pause_seconds = 5.0
    stop_seconds = 10.0

    def __init__(self, spec: PipelineSpec, conditions: Conditions) -> None:
        """Mirror the links of `spec` that are in `conditions`."""
        super().__init__("penstock-mirror")
        self._spec = spec
        self._conditions = conditions
        self._began_ms = _now_ms()
        self._catalogs = {source.name: CatalogWatch(spec, source) for source in spec.sources}
        self._loose = {link.name: LooseColumns(spec, link) for link in spec.links}
        self._watches = {source.name: RetentionWatch(source) for source in spec.sources}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Mirror once more, now that nothing runs, then end."""
        for name, condition in self._conditions.items():
            if condition.state in {STARTING, "running"}:
                self._conditions[name] = replace(condition, state="stopped")
        super().__exit__(kind, error, trace)

    def work(self) -> float:
        """Mirror until we are to stop, and once more. An error ends it: what it has saved, only the database knows."""
        with ExitStack() as stack:
            state = stack.enter_context(closing(open_pipeline_state(self._spec)))
            history = stack.enter_context(closing(open_history(self._spec)))
            mirrors = [stack.enter_context(closing(mirror)) for mirror in open_mirrors(self._spec, state)]
            log = ProgressLog(state, self._began_ms)
            stopping, sample_at = False, 0.0
            while not stopping:
                stopping = self._stop.wait(_PERIOD_SECONDS)
                for mirror in mirrors:
                    self._save(mirror, log)
                # A large source takes long to tell its tables: every link has given its sign of life first.
                for loose in () if stopping else self._loose.values():
                    loose.look()
                for mirror in mirrors:
                    if isinstance(mirror, SourceMirror):
                        self._watches[mirror.name].look(mirror.position, is_snapshotting=mirror.is_snapshotting)
                        if not mirror.is_snapshotting:
                            self._catalogs[mirror.name].look(state)
                if time.monotonic() >= sample_at:
                    sample_at = time.monotonic() + HOUR.seconds
                    history.add_samples(log.samples())
        return 0.0

    def _save(self, mirror: LinkMirror, log: ProgressLog) -> None:
        condition = self._conditions.get(mirror.name)
        if condition is not None:
            if mirror.name in self._loose and not condition.error:
                condition = replace(condition, hint=self._loose[mirror.name].told)
            place = LinkPlace() if condition.state == STARTING else mirror.refresh()
            log.save(mirror.name, condition, place)


def open_mirrors(spec: PipelineSpec, state: State) -> Sequence[LinkMirror]:
    """A mirror of each link of the pipeline; whoever takes them closes them."""
    return [
        *(SourceMirror(spec, source, state) for source in spec.sources),
        ObjectsMirror(spec, state),
        *(WarehouseMirror(spec, link, state) for link in spec.links),
        *(SpoltMirror(spec, spolt, state) for spolt in spec.spolts),
        *(JoinMirror(spec, join.name, state) for join in spec.joins),
    ]


class ProgressLog:
    """Writes down how links stand, and since when they are behind."""

    def __init__(self, state: State, began_ms: int) -> None:
        """Go on from what is in `state`, in the run that began at `began_ms`."""
        self._state = state
        self._began_ms = began_ms
        self._links = {link.link: link for link in state.links()}
        self._lags = {
            (table.link, table.table): Lag(table.behind_since_ms, self._links[table.link].updated_at_ms)
            for table in state.tables()
            if table.link in self._links
        }
        self._link_lags = {name: Lag(link.behind_since_ms, link.updated_at_ms) for name, link in self._links.items()}
        self._saved: dict[tuple[str, str], int] = {}

    def save(self, name: str, condition: LinkCondition, place: LinkPlace) -> None:
        """Write down one link, which stands at `place` now."""
        now_ms = _now_ms()
        lag = self._link_lags.get(name, Lag())
        since_ms = None
        if place.is_behind is not None:
            lag = self._link_lags[name] = follow_lag(
                lag, is_behind=place.is_behind, carried_ms=place.carried_ms, now_ms=now_ms
            )
            since_ms = lag.since_ms
        before = self._links.get(name)
        if before is not None and condition.state == STARTING:
            since_ms = before.behind_since_ms
        letters = place.dead_letters
        if letters is None and before is not None:
            letters = before.dead_letters
        position = place.position or (before.position if before else "")
        begins = before is not None and before.state == STARTING and condition.state != STARTING
        moved = before is None or position != before.position or begins
        self._links[name] = LinkProgress(
            link=name,
            position=position,
            state=condition.state,
            lag_seconds=lag_seconds(since_ms, now_ms),
            lag_bytes=place.lag_bytes,
            updated_at_ms=now_ms,
            error=condition.error,
            hint=condition.hint,
            behind_since_ms=since_ms,
            lag_messages=place.lag_messages,
            moved_at_ms=now_ms if before is None or moved else before.moved_at_ms,
            running_since_ms=self._began_ms,
            failures=condition.failures,
            failed_at_ms=condition.failed_at_ms,
            failure=condition.failure,
            dead_letters=letters,
        )
        self._state.save_link(self._links[name])
        self._save_tables(name, place.tables, now_ms)

    def samples(self) -> Mapping[str, Sample]:
        """What each link has carried by now, and how far it was behind when it was last measured."""
        rows = dict.fromkeys(self._links, 0)
        for table in self._state.tables():
            rows[table.link] = rows.get(table.link, 0) + table.rows
        now_ms = _now_ms()
        return {name: Sample(now_ms, rows[name], link.lag_seconds) for name, link in self._links.items()}

    def _save_tables(self, name: str, tables: Mapping[str, tuple[bool, int]], now_ms: int) -> None:
        changed: dict[str, int] = {}
        for table, (is_behind, carried_ms) in tables.items():
            key = (name, table)
            lag = follow_lag(self._lags.get(key, Lag()), is_behind=is_behind, carried_ms=carried_ms, now_ms=now_ms)
            self._lags[key] = lag
            if lag.since_ms is not None and self._saved.get(key) != lag.since_ms:
                changed[table] = self._saved[key] = lag.since_ms
        if changed:
            self._state.save_table_lags(name, changed)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
