"""Writes heartbeats into the sources of a running pipeline, so that positions stay fresh and can be found again.

It hinders nobody: whatever goes wrong is told, in the log and in `penstock
status`, and tried again with growing pauses.
"""

from __future__ import annotations

import threading
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final, Self

import structlog

from penstock.adapters.mysql.connection import connect
from penstock.adapters.mysql.heartbeat import HeartbeatWriter
from penstock.config.mysql_source import MysqlSourceSpec
from penstock.core.errors import FencedError, PenstockError
from penstock.core.positions import binlog_position
from penstock.core.publication import CaptureRecord
from penstock.wiring.open import committed_position, mysql_server, open_topic_log

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from penstock.config.mysql_source import HeartbeatSpec
    from penstock.config.specs import PipelineSpec, SourceSpec
    from penstock.ports.state import State

_log = structlog.get_logger()

_PAUSE_SECONDS_MAX: Final = 60.0
_CONNECT_SECONDS: Final = 5.0
_STOP_SECONDS: Final = 2.0


class Heartbeats:
    """A thread for each source that has heartbeats, while a `with` block lasts."""

    def __init__(self, spec: PipelineSpec, sources: Sequence[SourceSpec], epoch: int, state: State) -> None:
        """Write as instance `epoch` of the pipeline; `state` is told of what goes wrong."""
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(
                target=_Pulse(spec, source, source.heartbeat, epoch, state).run,
                args=(self._stop,),
                name=f"heartbeat {source.name}",
                daemon=True,
            )
            for source in sources
            if isinstance(source, MysqlSourceSpec) and source.heartbeat is not None
        ]

    def __enter__(self) -> Self:
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End. A statement that the server does not answer is not waited for."""
        self._stop.set()
        for thread in self._threads:
            thread.join(_STOP_SECONDS)


class _Pulse:
    """The heartbeats of one source."""

    def __init__(
        self, spec: PipelineSpec, source: MysqlSourceSpec, heartbeat: HeartbeatSpec, epoch: int, state: State
    ) -> None:
        self._spec = spec
        self._source = source
        self._heartbeat = heartbeat
        self._epoch = epoch
        self._state = state
        self._told = ""
        self._newest_ms = 0

    def run(self, stop: threading.Event) -> None:
        """Write until `stop`, or until a newer instance writes."""
        failures = 0
        while not stop.is_set():
            try:
                self._write(stop)
            except FencedError as error:
                _log.warning("heartbeats end", source=self._source.name, error=error.message)
                return
            except PenstockError as error:
                failures += 1
                self._tell(error)
            else:
                failures = 0
            pause = self._heartbeat.period_seconds * 2 ** min(failures, 10)
            stop.wait(min(pause, max(_PAUSE_SECONDS_MAX, self._heartbeat.period_seconds)))

    def _write(self, stop: threading.Event) -> None:
        """Write until `stop` over one connection; an error ends it."""
        with closing(connect(mysql_server(self._source), _CONNECT_SECONDS)) as connection:
            table, pipeline = self._heartbeat.table_id, self._spec.pipeline
            writer = HeartbeatWriter(connection, table, pipeline, self._epoch)
            self._look_at_clock(writer.prepare(self._published_serial()))
            self._resume()
            while not stop.wait(self._heartbeat.period_seconds):
                self._look_at_clock(writer.write())

    def _look_at_clock(self, timestamp_ms: int) -> None:
        """Note a clock of the source that went back: serials order heartbeats, so nothing else follows from it."""
        if timestamp_ms < self._newest_ms:
            back_seconds = (self._newest_ms - timestamp_ms) / 1000
            _log.warning("the source's clock went back", source=self._source.name, seconds=back_seconds)
        self._newest_ms = timestamp_ms

    def _published_serial(self) -> int:
        """The newest heartbeat that the capture has committed: a table that was made anew goes on behind it."""
        with closing(open_topic_log(self._spec)) as log:
            record = committed_position(self._spec, log, self._source.name)
        heartbeat = binlog_position(CaptureRecord.from_mapping(record).position).heartbeat if record else None
        return heartbeat.serial if heartbeat else 0

    def _tell(self, error: PenstockError) -> None:
        """Say what went wrong, once for each thing that does."""
        if error.message == self._told:
            return
        self._told = error.message
        _log.error("no heartbeats", source=self._source.name, error=error.message, hint=error.hint)
        self._note(f"no heartbeats are written: {error.message}. What to do: {error.hint}")

    def _resume(self) -> None:
        if self._told:
            self._told = ""
            _log.info("heartbeats again", source=self._source.name)
            self._note("")

    def _note(self, text: str) -> None:
        # The state database tells people only: without it the pulse goes on.
        with suppress(PenstockError):
            self._state.note_table(self._source.name, self._heartbeat.table, text)
