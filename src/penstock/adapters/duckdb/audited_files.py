"""Tables that are Parquet files, read by an audit through a DuckDB without a file of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import duckdb

from penstock.adapters.duckdb.texts import texts_of
from penstock.core.audit.table_files import plan_view
from penstock.core.errors import SinkError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from penstock.core.audit.dialects import AuditDialect
    from penstock.core.audit.table_files import TableFiles
    from penstock.core.tables import TableId

T = TypeVar("T")
_MEMORY_MB: Final = 512
_THREADS: Final = 2


class AuditedFiles:
    """One table at a time, by its name. It implements the port `AuditedDatabase`.

    Files are never written to, so that all queries from one `renew` to the next see one version of the table: the
    newest when the first of them is asked. A table that is turned away from is not read again.
    """

    def __init__(self, dialect: AuditDialect, find: Callable[[TableId], TableFiles | None], folder: str) -> None:
        """`find` says what a table's newest version is, None for no table; what needs more memory goes to `folder`."""
        self._dialect = dialect
        self._find = find
        limits: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{_MEMORY_MB}MB",
            "threads": _THREADS,
            "temp_directory": folder,
        }
        self._connection = duckdb.connect(config=limits)
        self._connection.execute("SET TimeZone = 'UTC'")
        self._table: TableId | None = None
        self._is_renewed = False

    @property
    def dialect(self) -> AuditDialect:
        """See `AuditedDatabase`."""
        return self._dialect

    def look(self, table: TableId) -> TableFiles | None:
        """Let queries read this table, as it is now; return what it is, None for no table."""
        self._table, self._is_renewed = None, False
        files = self._find(table)
        if files is not None:
            for statement in plan_view(table, files):
                self.fetch(statement)
            self._table = table
        return files

    def renew(self) -> None:
        """See `AuditedDatabase`."""
        self._is_renewed = True

    def fetch(self, query: str) -> Sequence[Sequence[Any]]:
        """See `AuditedDatabase`."""
        return self._read(lambda: self._connection.execute(query).fetchall())

    def fetch_texts(self, query: str) -> pa.Table:
        """See `AuditedDatabase`."""
        return self._read(lambda: texts_of(self._connection.sql(query)))

    def _read(self, ask: Callable[[], T]) -> T:
        if self._is_renewed and self._table is not None:
            self.look(self._table)
        try:
            return ask()
        except duckdb.IOException as error:
            message = f"files of {self._table} cannot be read: {error}"
            raise UnavailableError(message, "audit again: files of an older version may be gone meanwhile") from error
        except duckdb.Error as error:
            message = f"DuckDB refused an audit's query of files: {error}"
            raise SinkError(message, "check that they are Parquet files of one table; report it if they are") from error

    def close(self) -> None:
        """See `AuditedDatabase`."""
        self._connection.close()
