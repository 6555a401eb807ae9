"""What every table looks like at the position that a capture has reached, and what it does not see in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.core.log_items import LoggedRows
    from penstock.core.publication import StoppedTable
    from penstock.core.snapshots import Reread
    from penstock.core.tables import TableId, TableSchema


class SchemaCatalog(Protocol):
    """Knows a source's tables as they are at the place of its log that was reached: from a tracker, or from the log."""

    @property
    def connector(self) -> str:
        """What messages call the kind of source: `mysql`."""
        ...

    def require_empty(self) -> None:
        """Raise UnfitServerError if there are rows where there are to be schemas alone: it is somebody's server."""
        ...

    def describe(self, tables: Collection[TableId]) -> Mapping[TableId, TableSchema]:
        """What `tables` look like now; what is not there is left out."""
        ...

    def table_schema(self, table: TableId) -> TableSchema | None:
        """What `table` looks like now, None if there is no such table."""
        ...

    def sequences(self) -> Collection[TableId]:
        """Every sequence, which is no table, whose numbers the log has as rows."""
        ...

    def close(self) -> None:
        """Drop the connections. Safe to call twice."""
        ...


class UnloggedChanges(Protocol):
    """Rows that a source changes because others change, and that its log lacks: see links/capture/mysql/cascades.py."""

    def watches(self, table: TableId) -> bool:
        """Whether changes of `table` may change rows of tables that are wanted."""
        ...

    def effects(
        self, changed: Mapping[TableId, Sequence[LoggedRows]], position: str
    ) -> Mapping[TableId, StoppedTable | Reread]:
        """Return the wanted tables of which the log lacks rows behind these changes, which begin at `position`.

        They stop, or rows of them are read again.
        """
        ...

    def forget(self) -> None:
        """Look again: tables were changed."""
        ...


class AllLogged:
    """A source that logs every row that it changes."""

    def watches(self, table: TableId) -> bool:  # noqa: ARG002 - the port's name
        """See UnloggedChanges."""
        return False

    def effects(
        self,
        changed: Mapping[TableId, Sequence[LoggedRows]],  # noqa: ARG002 - the port's name
        position: str,  # noqa: ARG002 - the port's name
    ) -> Mapping[TableId, StoppedTable | Reread]:
        """See UnloggedChanges."""
        return {}

    def forget(self) -> None:
        """See UnloggedChanges."""
