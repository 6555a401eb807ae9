"""Reads where a pipeline stands while it is watched, so that no request ever waits for a database or a source."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Self

import structlog

from penstock.core.errors import PenstockError
from penstock.ports.source_status import SourceStatus
from penstock.web.guard import may_act
from penstock.web.metrics import describe_metrics
from penstock.web.page import render_parts
from penstock.web.snapshot import Snapshot
from penstock.wiring.overview import make_overview
from penstock.wiring.pipeline_status import StatusReader
from penstock.wiring.zone_status import ZoneStatus, ask_zones, zone_links

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from penstock.config.specs import PipelineSpec

_log = structlog.get_logger()

_PERIOD_SECONDS = 1.0
_UNWATCHED_SECONDS = 5.0
_WATCHED_SECONDS = 3.0
"""State is read once a second for so long after somebody asked for it, and less often while nobody does."""
_SOURCES_SECONDS = 10.0
_ZONES_SECONDS = 300.0
"""A query keeps a virtual warehouse of Snowflake awake, which costs."""
_STOP_SECONDS = 2.0
_HINT = "it is tried again; what went wrong is in web.log, beside the log of the run"


class Watcher:
    """Threads for a `with` block: one reads the state database, one asks the sources, one asks Snowflake.

    A server that is away keeps whoever asks it waiting, and the state must be told meanwhile.
    """

    def __init__(self, spec: PipelineSpec, file: Path) -> None:
        """Watch the pipeline of `spec`, which `file` describes."""
        self.spec = spec
        self.file = file
        self._stop = threading.Event()
        self._sources: Sequence[SourceStatus] = ()
        self._zones: Sequence[ZoneStatus] = ()
        self._threads = [
            threading.Thread(target=self._read, name="penstock-web-state", daemon=True),
            threading.Thread(target=self._ask, name="penstock-web-sources", daemon=True),
            threading.Thread(target=self._ask_zones, name="penstock-web-zones", daemon=True),
        ]
        self._has_asked_sources = self._has_asked_zones = False
        self._snapshot: Snapshot | None = None
        self._wanted_at = 0.0
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

    def newest(self) -> Snapshot | None:
        """Return what was seen last, None before the first look; whoever asks keeps us looking for a while."""
        self._wanted_at = time.monotonic()
        return self._snapshot

    def look(self, reader: StatusReader) -> Snapshot:
        """Read once and render."""
        has_asked = self._has_asked_sources and self._has_asked_zones
        status = reader.read().with_answers(self._sources, self._zones)
        overview = make_overview(self.spec, status, str(self.file))
        to_read = render_parts(overview, acts=False)
        parts = render_parts(overview) if may_act(self.spec) else to_read
        metrics = describe_metrics(overview).encode()
        return Snapshot(overview, metrics, parts, to_read, time.monotonic(), has_asked)

    def _read(self) -> None:
        with closing(StatusReader(self.spec)) as reader:

            def read() -> None:
                self._snapshot = self.look(reader)
                self.unanswered = ""

            def tell(why: str) -> None:
                self.unanswered = why

            self._repeat(_UNWATCHED_SECONDS, read, tell, self._is_watched)

    def _ask(self) -> None:
        with closing(StatusReader(self.spec)) as reader:

            def ask() -> None:
                self._sources = reader.ask_sources()
                self._has_asked_sources = True

            def tell(why: str) -> None:
                # What they said before is old.
                self._sources = [
                    SourceStatus(each.name, None, unanswered=why, hint=_HINT) for each in self.spec.sources
                ]

            self._repeat(_SOURCES_SECONDS, ask, tell)

    def _ask_zones(self) -> None:
        def ask() -> None:
            self._zones = ask_zones(self.spec)
            self._has_asked_zones = True

        def tell(why: str) -> None:
            self._zones = [ZoneStatus(link.name, unanswered=why, hint=_HINT) for link, _ in zone_links(self.spec)]

        self._repeat(_ZONES_SECONDS, ask, tell)

    def _is_watched(self) -> bool:
        return time.monotonic() - self._wanted_at < _WATCHED_SECONDS

    def _repeat(
        self,
        seconds: float,
        work: Callable[[], None],
        tell: Callable[[str], None],
        is_urgent: Callable[[], bool] = lambda: False,
    ) -> None:
        """Work until we are to stop, so far apart, or every second while `is_urgent`.

        `tell` gets why it failed, and the log the traceback of a mistake of ours.
        """
        logged = ""
        while not self._stop.is_set():
            try:
                work()
                logged = ""
            except PenstockError as error:
                tell(error.message)
            except Exception as error:  # noqa: BLE001 - the thread must not end in silence
                tell(f"a mistake of Penstock: {error!r}")
                if repr(error) != logged:
                    _log.error("the page tries again", exc_info=error, seconds=seconds)
                logged = repr(error)
            next_at = time.monotonic() + seconds
            while not self._stop.wait(_PERIOD_SECONDS) and time.monotonic() < next_at and not is_urgent():
                pass
