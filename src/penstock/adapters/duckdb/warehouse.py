"""A DuckDB file as a warehouse."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

import duckdb

from penstock.adapters.duckdb.catalog import find_dependents, read_attributes, read_columns
from penstock.adapters.duckdb.database import (
    CATALOG,
    DuckdbLimits,
    explained,
    is_short_of_memory,
    open_database,
    write_lock,
)
from penstock.adapters.duckdb.query_server import QueryServer
from penstock.core.errors import LargeTransactionError, RefusedStatementError
from penstock.core.warehouse.dialect import DUCKDB, Dialect, quote_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pyarrow as pa

    from penstock.core.batches import Batch
    from penstock.core.tables import TableId, TableSchema
    from penstock.core.warehouse.attributes import Attributes
    from penstock.core.warehouse.migration import Dependent
    from penstock.core.warehouse.target_table import TargetTable
    from penstock.ports.warehouse import Value

T = TypeVar("T")

_DEFAULTS = DuckdbLimits()
_STAGED = "__penstock_staged"


class DuckdbWarehouse:
    """A connection to a DuckDB file. It implements the port `Warehouse`.

    Only one process can have the file open; in it, several connections may, and
    their transactions take turns. The queries it serves run in other threads.
    """

    def __init__(self, path: Path, limits: DuckdbLimits = _DEFAULTS, *, read_only: bool = False) -> None:
        """Open the file, made if it is missing unless it is `read_only`.

        Raises UnavailableError while another process has it, and SinkError if it
        cannot be opened.
        """
        self._path = path
        self._server: QueryServer | None = None
        self._connection = open_database(path, limits, read_only=read_only)

    @property
    def dialect(self) -> Dialect:
        """See `Warehouse`."""
        return DUCKDB

    @property
    def catalog(self) -> str:
        """See `Warehouse`."""
        return CATALOG

    def transact(self, work: Callable[[], T], tables: Sequence[TableId] = (), *, lock_seconds: float = 2.0) -> T:  # noqa: ARG002 - nobody else has locks
        """See `Warehouse`. Nobody else writes the file, so nothing is done twice; queries may leave little memory."""
        try:
            return self._transact(work)
        except RefusedStatementError as error:
            if not tables or not is_short_of_memory(error.__cause__):
                raise
        # What is in memory until it is in the file may be all that there is.
        with suppress(duckdb.Error):
            self._connection.execute(f"CHECKPOINT {quote_name(DUCKDB, CATALOG)}")
        try:
            return self._transact(work)
        except RefusedStatementError as error:
            if not is_short_of_memory(error.__cause__):
                raise
            raise LargeTransactionError(str(tables[0]), "", "the target's table", error.message, error.hint) from error

    def _transact(self, work: Callable[[], T]) -> T:
        with write_lock(self._path), explained(self._path):
            self._connection.execute("BEGIN TRANSACTION")
            done = False
            try:
                result = work()
                self._connection.execute("COMMIT")
                done = True
            finally:
                if not done:
                    # After some failures DuckDB has rolled back already, or cannot be asked any more.
                    with suppress(duckdb.Error):
                        self._connection.execute("ROLLBACK")
        return result

    def run(self, statement: str, values: Sequence[Value] = ()) -> None:
        """See `Warehouse`."""
        with explained(self._path):
            self._connection.execute(statement, list(values))

    def fetch(self, statement: str, values: Sequence[Value] = ()) -> list[tuple[Value, ...]]:
        """See `Warehouse`. A result is fetched to its end, as DuckDB wants before it runs the next statement."""
        with explained(self._path):
            return self._connection.execute(statement, list(values)).fetchall()

    def staged(self, schema: TableSchema, rows: pa.Table) -> AbstractContextManager[str]:  # noqa: ARG002 - the rows say it all
        """See `Warehouse`. The rows are read where they are, without a copy."""
        return self._registered(rows)

    @contextmanager
    def _registered(self, rows: pa.Table) -> Iterator[str]:
        with explained(self._path):
            self._connection.register(_STAGED, rows)
        try:
            yield quote_name(DUCKDB, _STAGED)
        finally:
            # What failed inside is what the caller should hear of, and not that this fails too.
            with suppress(duckdb.Error):
                self._connection.unregister(_STAGED)

    def staged_files(self, schema: TableSchema, batches: Sequence[Batch]) -> None:
        """See `Warehouse`: rows are read where they are."""

    def adding(self) -> Callable[[TargetTable, pa.Table], None]:
        """See `Warehouse`. Rows of which each key is there once need not be sorted again."""
        return self._add

    def _add(self, target: TargetTable, rows: pa.Table) -> None:
        names = ", ".join(quote_name(DUCKDB, name) for name in rows.column_names)
        with self._registered(rows) as added:
            self.run(f"INSERT INTO {target.path(DUCKDB)} ({names}) SELECT {names} FROM {added}")  # noqa: S608 - names are quoted

    def exists(self, table: TableId) -> bool:
        """See `Warehouse`. DuckDB does not count upper and lower case."""
        query = (
            "SELECT 1 FROM duckdb_tables() WHERE database_name = ? "
            "AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?)"
        )
        return bool(self.fetch(query, [CATALOG, table.schema, table.name]))

    def has_schema(self, name: str) -> bool:
        """See `Warehouse`."""
        query = "SELECT 1 FROM duckdb_schemas() WHERE database_name = ? AND lower(schema_name) = lower(?)"
        return bool(self.fetch(query, [CATALOG, name]))

    def columns(self, table: TableId) -> Mapping[str, str]:
        """See `Warehouse`."""
        return read_columns(self.fetch, table)

    def layout(self, schema: TableSchema) -> None:
        """See `Warehouse`: there is one file."""

    def attributes(self, table: TableId) -> Attributes:
        """See `Warehouse`. A file has no owners and grants."""
        return read_attributes(self.fetch, table)

    def dependents(self, table: TableId) -> Sequence[Dependent]:
        """See `Warehouse`."""
        return find_dependents(self.fetch, self._connection.get_table_names, table)

    def serve_queries(self, run_file: Path) -> None:
        """Answer `penstock sql` of other processes from now on; `run_file` tells them how to reach us."""
        self._server = QueryServer(self._connection, run_file)

    def close(self) -> None:
        """See `Warehouse`. Queries under way end in an error."""
        if self._server:
            self._server.close()
            self._server = None
        with explained(self._path):
            self._connection.close()
