"""Mirrors a capture from its position records, and measures how far behind the source's log it is."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import structlog

from penstock.adapters.kafka.topics import position_topic
from penstock.core.errors import PenstockError
from penstock.core.publication import CaptureRecord
from penstock.core.tables import TableId
from penstock.wiring.capture_kinds import capture_kind
from penstock.wiring.link_place import LinkPlace
from penstock.wiring.open import committed_position, open_topic_log
from penstock.wiring.table_topics import TableTopics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.config.specs import PipelineSpec, SourceSpec
    from penstock.core.positions import Position
    from penstock.ports.state import State

_log = structlog.get_logger()


class SourceMirror:
    """Mirrors one capture."""

    def __init__(self, spec: PipelineSpec, source: SourceSpec, state: State) -> None:
        """Go on where the mirror in `state` ends."""
        self._topic = position_topic(spec.pipeline, source.name)
        self.name = source.name
        self._state = state
        self._topics = open_topic_log(spec)
        self._source_log = capture_kind(source).log(source)
        mirrored = state.position(source.name)
        self._next = mirrored[1] if mirrored else 0
        # Since when each table is stopped, and why.
        self._stopped = {
            t.table: (t.stopped_at_ms, t.error) for t in state.tables() if t.link == source.name and t.error
        }
        self._record: CaptureRecord | None = None
        self._patterns = source.patterns
        self._spec = spec
        self._announced = TableTopics(spec, self._topics)

    def refresh(self) -> LinkPlace:
        """Read the newest records and measure the lag."""
        try:
            self._read_records()
        except PenstockError as error:
            _log.debug("mirror waits", error=error.message)
        record = self._record
        if record is None:
            return LinkPlace()
        try:
            behind: int | None = self._source_log.bytes_between(record.position, self._source_log.head())
        except PenstockError as error:
            _log.debug("mirror waits for the source", error=error.message)
            behind = None
        if record.is_snapshotting:
            rows = sum(count for count, _ in record.rows.values())
            text = f"initial snapshot: {rows:,} rows of {len(record.rows)} tables so far"
            return LinkPlace(text, is_behind=True, lag_bytes=behind)
        if behind is None:
            return LinkPlace(str(record.position))
        return LinkPlace(str(record.position), behind > 0, record.timestamp_ms, behind)

    @property
    def position(self) -> Position | None:
        """From where the log is needed, also while tables are copied, when last looked; None before the first start."""
        return None if self._record is None else self._record.position

    @property
    def is_snapshotting(self) -> bool:
        """Whether tables are still copied at `position`."""
        return self._record is not None and self._record.is_snapshotting

    def close(self) -> None:
        """Drop the connections to Kafka and the source."""
        self._topics.close()
        self._source_log.close()

    def _topic_ends(self, tables: Iterable[str]) -> dict[str, int]:
        """The ends of the topics of `tables`, as `topic/partition`."""
        self._announced.read()
        asked = [place for table in tables for place in self._announced.newest(self.name, table)]
        return {f"{topic}/{partition}": end for (topic, partition), end in self._topics.ends(asked).items()}

    def _read_records(self) -> None:
        end = self._topics.ends([(self._topic, 0)]).get((self._topic, 0), 0)
        rows: dict[str, tuple[int, int]] = {}
        stopped_at_ms: dict[str, int] = {}
        newest = self._record
        for messages in self._topics.read(self._topic, 0, self._next, end):
            for _, value in messages:
                newest = CaptureRecord.from_mapping(json.loads(value))
                if newest.is_snapshotting:
                    continue
                rows = _added(rows, newest)
                stopped_at_ms = {t: stopped_at_ms.get(t, newest.timestamp_ms) for t in newest.stopped}
        if newest is None:
            committed = committed_position(self._spec, self._topics, self.name)
            newest = None if committed is None else CaptureRecord.from_mapping(committed)
        self._record = newest
        if newest is None or newest.is_snapshotting or end <= self._next:
            return
        self._state.save_position(self.name, newest.position, end, self._topic_ends(rows), rows)
        self._next = end
        # A table that `tables` leaves out by now waits for nobody. The record keeps it, should it be asked for again.
        stopped = {table: why for table, why in newest.stopped.items() if self._patterns.matches(TableId.parse(table))}
        for table in self._stopped.keys() - stopped.keys():
            self._state.resume_table(self.name, table)
            del self._stopped[table]
        for table, why in stopped.items():
            before_ms, error = self._stopped.get(table, (0, ""))
            if error != why.error:
                since_ms = before_ms or stopped_at_ms.get(table) or _now_ms()
                self._state.stop_table(self.name, table, why.error, why.hint, since_ms)
                self._stopped[table] = since_ms, why.error
                _log.error("table stopped", link=self.name, table=table, error=why.error, hint=why.hint)


def _added(rows: dict[str, tuple[int, int]], record: CaptureRecord) -> dict[str, tuple[int, int]]:
    total = dict(rows)
    for table, (count, timestamp_ms) in record.rows.items():
        before, newest = total.get(table, (0, 0))
        total[table] = (before + count, max(newest, timestamp_ms))
    return total


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
