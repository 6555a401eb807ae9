"""Tables on an object store that are committed one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from penstock.core.tables import TableId, TableSchema


class Lake(Protocol):
    """One owner's way to its tables, for one thread.

    Every commit carries a `number` of the owner's, which becomes visible in the
    same step as what the commit does, and only rises: a commit whose number is not
    above the table's has no effect, and of two at the same time that carry a
    number of this owner one fails. Every method raises SinkError or
    UnavailableError where the store or Spark fails, and ConflictError where another
    writer of the table was faster, which is worth another try.
    """

    def path(self, table: TableId, version: int | None = None) -> str:
        """How statements call the table, or an older version of it."""
        ...

    def exists(self, table: TableId) -> bool:
        """Whether there is a table."""
        ...

    def number(self, table: TableId) -> int | None:
        """The highest number that the table, which is there, was committed with; None if it is not the owner's."""
        ...

    def version(self, table: TableId) -> int:
        """The table's newest version, to read it by later."""
        ...

    def is_empty(self, table: TableId) -> bool:
        """Whether the table, which is there, has no rows."""
        ...

    def replace(self, schema: TableSchema, query: str, number: int) -> None:
        """Make the table, or give it other columns and rows: those of `query`, which may read the table itself."""
        ...

    def append(self, table: TableId, query: str, number: int) -> None:
        """Add the rows of `query`."""
        ...

    def change(self, table: TableId, statement: str, number: int) -> None:
        """Run a MERGE or a DELETE. Where there is nothing to do the number may stay as it was."""
        ...

    def amend(self, table: TableId, change: Callable[[str], str], number: int) -> None:
        """Change the log's action `metaData`, JSON, and no file."""
        ...

    def note(self, table: TableId, number: int, behind: int | None = None) -> None:
        """Commit nothing but the number; where `behind` is given, only while that is the table's."""
        ...

    def run(self, statement: str) -> None:
        """Run a statement that changes no table."""
        ...

    def count(self, query: str) -> int:
        """Return the one number that a query answers."""
        ...

    def staged(self, schema: TableSchema, rows: pa.Table) -> AbstractContextManager[str]:
        """Let queries read `rows`, laid out as files of `schema`, under the (quoted) name that is returned."""
        ...

    def remove(self, table: TableId) -> None:
        """Delete the table with its files and its log, if it is there."""
        ...

    def close(self) -> None:
        """Let go of Spark."""
        ...
