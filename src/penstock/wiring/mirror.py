"""Mirrors how the links stand into the state database, for people and `penstock status`.

Nothing that moves data reads the mirror. Captures are mirrored from their
position records; how far behind the source's log they are is measured, idle or
not. The other links' lag is how much older their newest row is than the newest
one captured.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias

import structlog

from penstock.adapters.kafka.topics import position_topic
from penstock.core.announcements import Announcement
from penstock.core.errors import PenstockError
from penstock.core.publication import CaptureRecord
from penstock.ports.state import LinkProgress
from penstock.wiring.open import announcements_topic, committed_position, open_pipeline_state, open_topic_log
from penstock.wiring.source_log import SourceLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

    from penstock.config.specs import MysqlSourceSpec, PipelineSpec
    from penstock.ports.state import State, TableProgress

_log = structlog.get_logger()

_PERIOD_SECONDS = 1.0
_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class LinkCondition:
    """How a link is: `running`, `retrying`, `failed` or `stopped`, and why."""

    state: str
    error: str = ""
    hint: str = ""


Conditions: TypeAlias = dict[str, LinkCondition]
"""Every link that was started, by name. Written by the supervisor, read by the mirror."""


class Mirror:
    """A thread that mirrors a pipeline while a `with` block lasts."""

    def __init__(self, spec: PipelineSpec, conditions: Conditions) -> None:
        """Mirror the links of `spec` that are in `conditions`."""
        self._spec = spec
        self._conditions = conditions
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-mirror", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Mirror once more, now that nothing runs, then end."""
        for name, condition in self._conditions.items():
            if condition.state == "running":
                self._conditions[name] = LinkCondition("stopped")
        self._stop.set()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        with ExitStack() as stack:
            state = stack.enter_context(closing(open_pipeline_state(self._spec)))
            sources = [
                stack.enter_context(closing(SourceMirror(self._spec, source, state))) for source in self._spec.sources
            ]
            stopping = False
            while not stopping:
                stopping = self._stop.wait(_PERIOD_SECONDS)
                places = {source.name: source.refresh() for source in sources}
                self._save_links(state, places)

    def _save_links(self, state: State, places: Mapping[str, CapturePlace]) -> None:
        lags = _lags(state.tables(), set(places))
        for name, condition in list(self._conditions.items()):
            place = places.get(name) or CapturePlace("", lags.get(name), None)
            state.save_link(
                LinkProgress(
                    link=name,
                    position=place.position,
                    state=condition.state,
                    lag_seconds=place.lag_seconds,
                    lag_bytes=place.lag_bytes,
                    updated_at_ms=_now_ms(),
                    error=condition.error,
                    hint=condition.hint,
                )
            )


@dataclass(frozen=True, slots=True)
class CapturePlace:
    """Where a capture stands and how far behind that is; the lags are None where they cannot be measured now."""

    position: str
    lag_seconds: float | None
    lag_bytes: int | None


class SourceMirror:
    """Mirrors one capture."""

    def __init__(self, spec: PipelineSpec, source: MysqlSourceSpec, state: State) -> None:
        """Go on where the mirror in `state` ends."""
        self._topic = position_topic(spec.pipeline, source.name)
        self.name = source.name
        self._state = state
        self._topics = open_topic_log(spec)
        self._source_log = SourceLog(source)
        mirrored = state.position(source.name)
        self._next = mirrored[1] if mirrored else 0
        self._stopped: set[str] = set(state.stopped_tables(source.name))
        self._record: CaptureRecord | None = None
        self._spec = spec
        self._announced_to = 0
        self._partitions: dict[str, list[tuple[str, int]]] = {}

    def refresh(self) -> CapturePlace:
        """Read the newest records and measure the lag."""
        try:
            self._read_records()
        except PenstockError as error:
            _log.debug("mirror waits for Kafka", error=error.message)
        record = self._record
        if record is None:
            return CapturePlace("", None, None)
        try:
            behind = self._source_log.bytes_between(record.position, self._source_log.head())
        except PenstockError as error:
            _log.debug("mirror waits for the source", error=error.message)
            return CapturePlace(str(record.position), None, None)
        lag = 0.0 if behind == 0 else max(0.0, (_now_ms() - record.timestamp_ms) / 1000)
        return CapturePlace(str(record.position), lag, behind)

    def _topic_ends(self, tables: Iterable[str]) -> dict[str, int]:
        """The ends of the topics of `tables`, as `topic/partition`."""
        schemas = announcements_topic(self._spec)
        end = self._topics.ends([(schemas, 0)]).get((schemas, 0), 0)
        for messages in self._topics.read(schemas, 0, self._announced_to, end):
            for _, value in messages:
                announcement = Announcement.from_json(value)
                self._partitions[str(announcement.table)] = [
                    (announcement.topic, partition) for partition in range(announcement.partitions)
                ]
        self._announced_to = end
        asked = [place for table in tables for place in self._partitions.get(table, [])]
        return {f"{topic}/{partition}": end for (topic, partition), end in self._topics.ends(asked).items()}

    def close(self) -> None:
        """Drop the connections to Kafka and the source."""
        self._topics.close()
        self._source_log.close()

    def _read_records(self) -> None:
        end = self._topics.ends([(self._topic, 0)]).get((self._topic, 0), 0)
        rows: dict[str, tuple[int, int]] = {}
        newest = self._record
        for messages in self._topics.read(self._topic, 0, self._next, end):
            for _, value in messages:
                newest = CaptureRecord.from_mapping(json.loads(value))
                rows = _added(rows, newest)
        if newest is None:
            committed = committed_position(self._spec, self._topics, self.name)
            newest = None if committed is None else CaptureRecord.from_mapping(committed)
        self._record = newest
        if newest is None or end <= self._next:
            return
        self._next = end
        self._state.add_rows(self.name, rows)
        self._state.save_position(self.name, newest.position, end, self._topic_ends(rows))
        for table in self._stopped - set(newest.stopped):
            self._state.resume_table(self.name, table)
            self._stopped.discard(table)
        for table, why in newest.stopped.items():
            if table not in self._stopped:
                self._state.stop_table(self.name, table, why.error, why.hint)
                self._stopped.add(table)


def _added(rows: dict[str, tuple[int, int]], record: CaptureRecord) -> dict[str, tuple[int, int]]:
    total = dict(rows)
    for table, (count, timestamp_ms) in record.rows.items():
        before, newest = total.get(table, (0, 0))
        total[table] = (before + count, max(newest, timestamp_ms))
    return total


def _lags(tables: Sequence[TableProgress], sources: set[str]) -> dict[str, float]:
    """For each link that is not a capture: how much older its newest rows are than those captured, at most."""
    captured = {t.table: t.last_timestamp_ms for t in tables if t.link in sources}
    lags: dict[str, float] = {}
    for progress in tables:
        if progress.link not in sources and progress.last_timestamp_ms:
            behind = max(0, captured.get(progress.table, 0) - progress.last_timestamp_ms) / 1000
            lags[progress.link] = max(behind, lags.get(progress.link, 0.0))
    return lags


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
