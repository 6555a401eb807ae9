"""Tells the Schematizer how a pipeline's snapshots are, while it runs. It hinders nobody: what fails is tried again."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Final, Self

import structlog

from penstock.core.errors import PenstockError, UnavailableError
from penstock.core.snapshots import Status
from penstock.wiring.open import open_refreshes, open_snapshot_list
from penstock.wiring.snapshots import newest_snapshots

if TYPE_CHECKING:
    from types import TracebackType

    from penstock.config.specs import PipelineSpec
    from penstock.ports.refreshes import Refreshes
    from penstock.ports.snapshots import SnapshotList

_log = structlog.get_logger()

_PERIOD_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 15.0
_STOP_SECONDS: Final = 5.0


class RefreshMirror:
    """A thread that tells of snapshots while a `with` block lasts."""

    def __init__(self, spec: PipelineSpec) -> None:
        """Tell of the snapshots of `spec`."""
        self._spec = spec
        self._began_ms = time.time_ns() // 1_000_000
        self._told: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-refreshes", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, and do not wait for long."""
        self._stop.set()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        said = ""
        while not self._stop.is_set():
            try:
                with ExitStack() as stack:
                    snapshots = stack.enter_context(closing(open_snapshot_list(self._spec)))
                    refreshes = stack.enter_context(closing(open_refreshes(self._spec)))
                    while not self._stop.wait(_PERIOD_SECONDS):
                        self.tell(snapshots, refreshes)
                    # What ended just now.
                    self.tell(snapshots, refreshes)
            except PenstockError as error:
                if error.message != said:
                    _log.warning("the schematizer is not told of snapshots", error=error.message, hint=error.hint)
                said = error.message
                self._stop.wait(_PAUSE_SECONDS)

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
