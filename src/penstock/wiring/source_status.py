"""What a source itself says of a pipeline's standing: how far its log reaches, ahead and back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog

from penstock.core.errors import PenstockError
from penstock.ports.source_status import SourceStatus
from penstock.wiring.capture_kinds import capture_kind

if TYPE_CHECKING:
    from penstock.config.specs import SourceSpec
    from penstock.core.positions import Position

_log = structlog.get_logger()

_LOOK_SECONDS = 60.0


def ask_source(source: SourceSpec, position: Position | None, *, is_snapshotting: bool = False) -> SourceStatus:
    """Ask the source. Never raises for one that is away or refuses us.

    While `is_snapshotting`, tables are copied, and `position` is not where anybody reads from.
    """
    try:
        return capture_kind(source).status(source, position, is_snapshotting=is_snapshotting)
    except PenstockError as error:
        return SourceStatus(source.name, position, unanswered=error.message, hint=error.hint)


class RetentionWatch:
    """Looks once a minute whether the source still has the log that we need, and says so where it is not well."""

    def __init__(self, source: SourceSpec) -> None:
        """Look at once when first asked."""
        self._source = source
        self._looked_at = -_LOOK_SECONDS
        self._told = ""

    def look(self, position: Position | None, *, is_snapshotting: bool) -> None:
        """Look if it is time, whether the log is there from `position`, None before the first start.

        A log line for each change for the worse; the source being away is told elsewhere.
        """
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        retention = ask_source(self._source, position, is_snapshotting=is_snapshotting).retention
        text = "" if retention is None else retention.level + retention.needed_file
        if retention is not None and retention.level != "ok" and text != self._told:
            _log.warning("binlog retention", source=self._source.name, warning=retention.text, hint=retention.hint)
        self._told = text
