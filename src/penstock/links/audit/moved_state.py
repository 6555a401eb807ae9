"""What a target says of itself that has a link's tables in another schema than the source has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.core.audit.table_plan import KnownTarget
    from penstock.core.tables import TableId
    from penstock.core.warehouse.moved_names import MovedNames
    from penstock.ports.audited import AuditedState


class MovedState:
    """An `AuditedState` whose caller knows tables by the source's names, over one that knows them by the target's."""

    def __init__(self, state: AuditedState, names: MovedNames) -> None:
        """Ask `state`."""
        self._state = state
        self._names = names

    def batch_offset(self) -> int:
        """See `AuditedState`."""
        return self._state.batch_offset()

    def waiting(self) -> frozenset[TableId]:
        """See `AuditedState`. Raises PositionError where the link had another schema before."""
        return frozenset(self._names.in_source(table) for table in self._state.waiting())

    def table(self, table: TableId) -> KnownTarget | None:
        """See `AuditedState`."""
        return self._state.table(self._names.in_target(table))

    def living(self) -> list[TableId]:
        """See `AuditedState`. What is in another schema is not the link's any more."""
        found = self._state.living()
        return [self._names.in_source(table) for table in found if table.schema == self._names.schema]
