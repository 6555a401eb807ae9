"""Reads where a pipeline stands once a second, so that no request ever waits for a database or a source."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Self

import structlog

from penstock.core.errors import PenstockError
from penstock.web.actions import may_act
from penstock.web.metrics import describe_metrics
from penstock.web.page import render_parts
from penstock.web.snapshot import Snapshot
from penstock.wiring.overview import make_overview
from penstock.wiring.pipeline_status import StatusReader
from penstock.wiring.zone_status import ask_zones

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from penstock.config.specs import PipelineSpec
    from penstock.ports.source_status import SourceStatus
    from penstock.wiring.zone_status import ZoneStatus

_log = structlog.get_logger()

_PERIOD_SECONDS = 1.0
_SOURCES_SECONDS = 10.0
_ZONES_SECONDS = 300.0
"""A query keeps a virtual warehouse of Snowflake awake, which costs."""
_STOP_SECONDS = 2.0


class Watcher:
    """Threads for a `with` block: one reads the state database, one asks the sources, one asks Snowflake.

    A server that is away keeps whoever asks it waiting, and the state must be told meanwhile.
    """

    def __init__(self, spec: PipelineSpec, run_command: str) -> None:
        """Watch the pipeline of `spec`, which `run_command` starts."""
        self.spec = spec
        self._run_command = run_command
        self._stop = threading.Event()
        self._sources: Sequence[SourceStatus] = ()
        self._zones: Sequence[ZoneStatus] = ()
        self._threads = [
            threading.Thread(target=self._read, name="penstock-web-state", daemon=True),
            threading.Thread(target=self._ask, name="penstock-web-sources", daemon=True),
            threading.Thread(target=self._ask_zones, name="penstock-web-zones", daemon=True),
        ]
        self._has_asked_sources = self._has_asked_zones = False
        self.snapshot: Snapshot | None = None
        self.unanswered = "the state database has not been read yet"

    def __enter__(self) -> Self:
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End; a source that does not answer is not waited for."""
        self._stop.set()
        for thread in self._threads:
            thread.join(_STOP_SECONDS)

    def look(self, reader: StatusReader) -> Snapshot:
        """Read once and render."""
        has_asked = self._has_asked_sources and self._has_asked_zones
        status = reader.read().with_answers(self._sources, self._zones)
        overview = make_overview(self.spec, status, self._run_command)
        to_read = render_parts(overview, acts=False)
        parts = render_parts(overview) if may_act(self.spec) else to_read
        metrics = describe_metrics(overview).encode()
        return Snapshot(overview, metrics, parts, to_read, time.monotonic(), has_asked)

    def _read(self) -> None:
        with closing(StatusReader(self.spec)) as reader:
            while not self._stop.is_set():
                try:
                    self.snapshot = self.look(reader)
                    self.unanswered = ""
                except PenstockError as error:
                    self.unanswered = error.message
                self._stop.wait(_PERIOD_SECONDS)

    def _ask(self) -> None:
        with closing(StatusReader(self.spec)) as reader:
            while not self._stop.is_set():
                try:
                    self._sources = reader.ask_sources()
                    self._has_asked_sources = True
                except PenstockError as error:
                    _log.debug("sources are asked later", error=error.message)
                self._stop.wait(_SOURCES_SECONDS)

    def _ask_zones(self) -> None:
        while not self._stop.is_set():
            self._zones = ask_zones(self.spec)
            self._has_asked_zones = True
            self._stop.wait(_ZONES_SECONDS)
