"""A SQL database that holds a target's tables, as the warehouse spolt needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from penstock.core.batches import Batch
    from penstock.core.tables import TableId, TableSchema
    from penstock.core.warehouse.attributes import Attributes, Spread
    from penstock.core.warehouse.dialect import Dialect
    from penstock.core.warehouse.migration import Dependent
    from penstock.core.warehouse.target_table import TargetTable

Value: TypeAlias = str | int
"""What a state table's column holds."""

T = TypeVar("T")


class StateDatabase(Protocol):
    """What the tables are kept in that say how far loads are."""

    @property
    def dialect(self) -> Dialect:
        """How its SQL is written."""
        ...

    @property
    def catalog(self) -> str:
        """The database that tables are in, where the connection has several; else ""."""
        ...

    def run(self, statement: str, values: Sequence[Value] = ()) -> None:
        """Run a statement; each `?` in it takes the next of `values`, if there are any."""
        ...

    def fetch(self, statement: str, values: Sequence[Value] = ()) -> list[tuple[Value, ...]]:
        """Run a query and return its rows."""
        ...

    def has_schema(self, name: str) -> bool:
        """Whether there is a schema of this name."""
        ...

    def columns(self, table: TableId) -> Mapping[str, str]:
        """Return a table's columns, in order, and their types as the dialect writes them; none if there is no table."""
        ...


class Warehouse(StateDatabase, Protocol):
    """One connection, for one thread. Every method raises SinkError or UnavailableError where the database fails.

    RefusedStatementError is a SinkError that is about the tables of the statement,
    and TableWaitsError of a table that somebody holds just now.
    """

    def transact(self, work: Callable[[], T], tables: Sequence[TableId] = (), *, lock_seconds: float = 2.0) -> T:
        """Commit all that `work` does, or nothing of it, and return what it returns.

        Only one such transaction of a pipeline and source is open at a time; or several,
        if no two are about the same `tables`, and nothing else. Where another writer made
        it fail, `work` is done again, some times. What is about `tables` raises
        TableWaitsError for the first of them where it may succeed some time later, such as
        when somebody else holds one of them for `lock_seconds`.
        """
        ...

    def staged(self, schema: TableSchema, rows: pa.Table) -> AbstractContextManager[str]:
        """Let statements read `rows`, laid out as files of `schema`, under the (quoted) name that is returned.

        They may have `__penstock_ts_ms` too where those files have not. Raises
        TableStoppedError for a value that the database cannot hold.
        """
        ...

    def staged_files(self, schema: TableSchema, batches: Sequence[Batch]) -> AbstractContextManager[str] | None:
        """Let statements read the files of `batches` of `schema` as `staged` does, fetched by the warehouse itself.

        None where it cannot: then rows have to be staged. Raises what `staged` does.
        """
        ...

    def adding(self) -> Callable[[TargetTable, pa.Table], None] | None:
        """Return what adds rows, whose columns are all those of a table, to it; None where to stage them is as quick.

        It raises what `staged` does.
        """
        ...

    def exists(self, table: TableId) -> bool:
        """Whether there is a table of this name, upper and lower case not counted where the database does not."""
        ...

    def layout(self, schema: TableSchema) -> Spread | None:
        """Return how a table that is made is to be spread and sorted; None where there is nothing to say."""
        ...

    def attributes(self, table: TableId) -> Attributes:
        """Return what a table has beside its columns and rows."""
        ...

    def dependents(self, table: TableId) -> Sequence[Dependent]:
        """Return what would break, or hinder, if columns of a table went or got other types."""
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...
