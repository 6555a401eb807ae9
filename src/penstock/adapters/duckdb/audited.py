"""A DuckDB file, read by an audit, whether or not a pipeline has it open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.adapters.duckdb.query import query as ask
from penstock.core.audit.dialects import DUCKDB
from penstock.core.audit.text_tables import table_of_texts
from penstock.core.errors import SinkError, UsageError
from penstock.ports.queries import ReadLimits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

    from penstock.core.audit.dialects import AuditDialect

_LIMITS = ReadLimits(seconds_max=3600.0)
"""As for the other databases: a signature of all rows takes minutes where there are hundreds of millions."""
_ALTERED = (
    "see the message: somebody dropped or altered the table there, or the audit's `where` does not fit its columns; "
    "put the table back as it was, or correct `where`"
)


class AuditedDuckdb:
    """Asks the process that writes the file, or else the file. It implements the port `AuditedDatabase`.

    Each query sees one committed state: nobody keeps a file open that a pipeline wants to open.
    """

    def __init__(self, path: Path, run_file: Path) -> None:
        """Open nothing yet; `run_file` is where the writing process says how to ask it."""
        self._path = path
        self._run_file = run_file

    @property
    def dialect(self) -> AuditDialect:
        """See `AuditedDatabase`."""
        return DUCKDB

    def renew(self) -> None:
        """See `AuditedDatabase`: each query is by itself."""

    def fetch(self, query: str) -> Sequence[Sequence[Any]]:
        """See `AuditedDatabase`. Raises SinkError for more than 100,000 rows."""
        return list(zip(*(column.to_pylist() for column in self._ask(query).columns), strict=True))

    def fetch_texts(self, query: str) -> pa.Table:
        """See `AuditedDatabase`. Raises SinkError as `fetch` does."""
        return table_of_texts(self._ask(query).columns)

    def close(self) -> None:
        """See `AuditedDatabase`."""

    def _ask(self, query: str) -> pa.Table:
        try:
            result = ask(self._path, self._run_file, query, _LIMITS)
        except UsageError as error:
            if not self._path.exists():
                raise
            # Of a statement that nobody typed nothing can be corrected.
            raise SinkError(error.message, _ALTERED) from error
        if result.truncated:
            message = f"an audit's query of {self._path} has more than {_LIMITS.rows_max} rows"
            raise SinkError(message, "choose a larger partition_size in `audits`")
        return result.rows
