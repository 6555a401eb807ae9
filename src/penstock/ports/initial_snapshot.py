"""A copy of a source's tables as they were at one position of its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from penstock.core.changes import RowBatch
    from penstock.core.positions import Position
    from penstock.core.tables import TableId, TableSchema


class InitialSnapshot(Protocol):
    """Everything read from one copy is as it was at `position`."""

    @property
    def position(self) -> Position:
        """Where the log goes on from what was copied."""
        ...

    @property
    def schemas(self) -> Mapping[TableId, TableSchema]:
        """The wanted tables."""
        ...

    @property
    def creates(self) -> str:
        """Every table, wanted or not, as a dump for the schema tracker."""
        ...

    def rows(self, table: TableId, batch_rows: int) -> Generator[RowBatch]:
        """Yield a table's rows as READ batches, none if they are gone by the log; whoever stops early closes it.

        Raises TableStoppedError for a value that cannot be carried and
        UnavailableError when the table changed its shape since `position`.
        """
        ...
