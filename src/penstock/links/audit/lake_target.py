"""What a folder of Delta tables says of itself, read as an audit reads it: without changing anything."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from penstock.core.audit.table_plan import KnownTarget
from penstock.core.errors import PositionError
from penstock.links.warehouse.lake_state import TableProgress

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.audit.table_files import TableFiles
    from penstock.core.tables import TableId
    from penstock.links.warehouse.lake_state import LakeState

_TRIES: Final = 10
_PAUSE_SECONDS: Final = 0.2


class LakeTargetState:
    """The files of one pipeline and source beside the tables: an `AuditedState`."""

    def __init__(self, look: Callable[[TableId], TableFiles | None], lake_state: LakeState, owner: str) -> None:
        """`look` lets the audit's queries read a table, whose commits have numbers of `owner`."""
        self._look = look
        self._lake_state = lake_state
        self._owner = owner

    def batch_offset(self) -> int:
        """See `AuditedState`."""
        return self._lake_state.batch_offset()

    def waiting(self) -> frozenset[TableId]:
        """See `AuditedState`."""
        return frozenset(self._lake_state.waiting())

    def table(self, table: TableId) -> KnownTarget | None:
        """See `AuditedState`: what the newest commit of a table says of it."""
        progress = self._progress(table)
        if progress is None:
            return None
        state, treated = progress.state, progress.columns.treated if progress.columns else {}
        ended = state.ended or progress.leaving
        return KnownTarget(state.schema, state.deletes, ended, state.out_of_range, treated)

    def living(self) -> list[TableId]:
        """See `AuditedState`."""
        return self._lake_state.living()

    def _progress(self, table: TableId) -> TableProgress | None:
        for number in range(_TRIES):
            files = self._look(table)
            if files is None:
                left = self._lake_state.life(table)
                return left if isinstance(left, TableProgress) else None
            if self._owner not in files.numbers:
                return None
            try:
                return self._lake_state.read(table, files.numbers[self._owner])
            except PositionError:
                # The next commit deletes what was said of the one before it.
                if number == _TRIES - 1:
                    raise
            time.sleep(_PAUSE_SECONDS)
        return None
