"""When files of large messages are looked for that no topic names any more."""

from __future__ import annotations

import math
import time
from contextlib import closing
from typing import TYPE_CHECKING

import structlog

from penstock.core.errors import PenstockError
from penstock.links.objects.large_retention import FILES_AT_ONCE, LargeRetention
from penstock.wiring.open import open_object_store, open_topic_log

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec

_SWEEP_SECONDS = 6 * 3600.0
"""All of these files are listed each time, and their topics asked, while the link waits."""

_log = structlog.get_logger()


class LargeSweeps:
    """Deletes old files of large messages now and then, of some topics at a time."""

    def __init__(self, spec: PipelineSpec) -> None:
        """Keep what `spec` says; begin at once."""
        self._spec = spec
        self._swept_at = -math.inf
        self._through = ""

    def sweep(self) -> None:
        """Delete some of what is old; once in six hours, or again at the next call while there is much of it.

        What cannot be deleted now waits for the next time.
        """
        keep_hours = self._spec.files_keep_hours
        if keep_hours is None or time.monotonic() - self._swept_at < _SWEEP_SECONDS:
            return
        self._swept_at = time.monotonic()
        try:
            with closing(open_topic_log(self._spec)) as log:
                objects, keep_ms = open_object_store(self._spec), int(keep_hours * 3_600_000)
                retention = LargeRetention(self._spec.pipeline, log, log, objects, keep_ms)
                swept = retention.sweep(time.time_ns() // 1_000_000, self._through)
        except PenstockError as error:
            _log.warning("old files of large messages wait", error=error.message, hint=error.hint)
            return
        self._through = swept.through
        if swept.files >= FILES_AT_ONCE:
            self._swept_at = -math.inf
        if swept.files:
            _log.info("files of large messages deleted that no topic names any more", files=swept.files)
