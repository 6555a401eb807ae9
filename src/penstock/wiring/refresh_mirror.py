"""Tells the Schematizer how a pipeline's snapshots are, while it runs. It hinders nobody: what fails is tried again."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Final

import structlog

from penstock.core.errors import PenstockError, UnavailableError
from penstock.core.snapshots import Status
from penstock.wiring.background_thread import BackgroundThread
from penstock.wiring.open import open_refreshes, open_snapshot_list
from penstock.wiring.snapshots import newest_snapshots

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec
    from penstock.ports.refreshes import Refreshes
    from penstock.ports.snapshots import SnapshotList

_log = structlog.get_logger()

_PERIOD_SECONDS: Final = 2.0


class RefreshMirror(BackgroundThread):
    """Tells of snapshots."""

    waits = "the Schematizer does not get the state of snapshots"
    pause_seconds = 15.0
    stop_seconds = 5.0

    def __init__(self, spec: PipelineSpec) -> None:
        """Tell of the snapshots of `spec`."""
        super().__init__("penstock-refreshes")
        self._spec = spec
        self._began_ms = time.time_ns() // 1_000_000
        self._told: dict[str, int] = {}

    def work(self) -> float:
        """Tell until we are to stop, and once more of what ended just now."""
        with ExitStack() as stack:
            snapshots = stack.enter_context(closing(open_snapshot_list(self._spec)))
            refreshes = stack.enter_context(closing(open_refreshes(self._spec)))
            while not self._stop.wait(_PERIOD_SECONDS):
                self.tell(snapshots, refreshes)
            self.tell(snapshots, refreshes)
        return 0.0

    def tell(self, snapshots: SnapshotList, refreshes: Refreshes) -> None:
        """Tell of each snapshot that changed since it was told of; of those that ended before we began, nothing."""
        for each in newest_snapshots(snapshots):
            is_old = each.status.has_ended and each.updated_at_ms < self._began_ms and each.id not in self._told
            if is_old or each.status is Status.REQUESTED or self._told.get(each.id) == each.updated_at_ms:
                continue
            try:
                refreshes.tell(each)
            except UnavailableError:
                raise
            except PenstockError as error:
                # The schematizer takes no such refresh: it is not asked again until the snapshot goes on.
                _log.warning("the schematizer refuses a refresh", table=each.table, error=error.message)
            self._told[each.id] = each.updated_at_ms
