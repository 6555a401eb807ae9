"""Mirrors captures' position records into the state database, for people and `penstock status`.

Nothing that moves data reads the mirror. It also measures how far behind the
source's log each capture is, idle or not.
"""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Self

import structlog

from penstock.adapters.kafka.topics import position_topic
from penstock.core.errors import PenstockError
from penstock.core.publication import CaptureRecord
from penstock.ports.state import LinkProgress
from penstock.wiring.open import open_pipeline_state, open_topic_log
from penstock.wiring.source_log import SourceLog

if TYPE_CHECKING:
    from types import TracebackType

    from penstock.config.specs import MysqlSourceSpec, PipelineSpec
    from penstock.ports.state import State

_log = structlog.get_logger()

_PERIOD_SECONDS = 1.0
_STOP_SECONDS = 10.0


class Mirror:
    """A thread that mirrors every source of a pipeline while a `with` block lasts."""

    def __init__(self, spec: PipelineSpec) -> None:
        """Mirror the captures of `spec`."""
        self._spec = spec
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-mirror", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Mirror once more, then end."""
        self._stop.set()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        state = open_pipeline_state(self._spec)
        sources = [SourceMirror(self._spec, source, state) for source in self._spec.sources]
        stopping = False
        while not stopping:
            stopping = self._stop.wait(_PERIOD_SECONDS)
            for source in sources:
                try:
                    source.refresh()
                except PenstockError as error:
                    _log.debug("mirror waits", error=error.message)


class SourceMirror:
    """Mirrors one capture."""

    def __init__(self, spec: PipelineSpec, source: MysqlSourceSpec, state: State) -> None:
        """Go on where the mirror in `state` ends."""
        self._topic = position_topic(spec.pipeline, source.name)
        self._name = source.name
        self._state = state
        self._topics = open_topic_log(spec)
        self._source_log = SourceLog(source)
        mirrored = state.position(source.name)
        self._next = mirrored[1] if mirrored else 0
        self._stopped: set[str] = set(state.stopped_tables(source.name))
        self._record: CaptureRecord | None = None

    def refresh(self) -> None:
        """Read the newest records and measure the lag. Raises UnavailableError when a server is away."""
        self._read_records()
        if self._record is not None:
            self._save_lag(self._record)

    def _read_records(self) -> None:
        end = self._topics.ends([(self._topic, 0)]).get((self._topic, 0), 0)
        newest = self._record
        rows: dict[str, tuple[int, int]] = {}
        begin = max(self._next - 1, 0) if newest is None else self._next
        for messages in self._topics.read(self._topic, 0, begin, end):
            for offset, value in messages:
                newest = CaptureRecord.from_mapping(json.loads(value))
                if offset >= self._next:
                    rows = _added(rows, newest)
        if newest is None or end <= self._next:
            self._record = newest
            return
        self._record, self._next = newest, end
        self._state.add_rows(self._name, rows)
        self._state.save_position(self._name, newest.position, end, {})
        for table, why in newest.stopped.items():
            if table not in self._stopped:
                self._state.stop_table(self._name, table, why.error, why.hint)
                self._stopped.add(table)

    def _save_lag(self, record: CaptureRecord) -> None:
        head = self._source_log.head()
        now_ms = time.time_ns() // 1_000_000
        behind = self._source_log.bytes_between(record.position, head)
        lag = 0.0 if behind == 0 else max(0.0, (now_ms - record.timestamp_ms) / 1000)
        self._state.save_link(LinkProgress(self._name, str(record.position), "running", lag, behind, now_ms, "", ""))


def _added(rows: dict[str, tuple[int, int]], record: CaptureRecord) -> dict[str, tuple[int, int]]:
    total = dict(rows)
    for table, (count, timestamp_ms) in record.rows.items():
        before, newest = total.get(table, (0, 0))
        total[table] = (before + count, max(newest, timestamp_ms))
    return total
