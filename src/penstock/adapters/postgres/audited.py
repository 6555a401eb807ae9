"""A PostgreSQL database, read by an audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from penstock.adapters.postgres.connection import PostgresServer, connect, explain
from penstock.core.audit.dialects import POSTGRES
from penstock.core.audit.text_tables import table_of_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.core.audit.dialects import AuditDialect

_QUERY_SECONDS = 3600


class AuditedPostgres:
    """A connection whose queries see one snapshot. It implements the port `AuditedDatabase`."""

    def __init__(self, server: PostgresServer) -> None:
        """Connect; raises as `connect` does."""
        self._server = server
        self._connection = connect(server)
        self._execute(f"SET statement_timeout = '{_QUERY_SECONDS}s'")

    @property
    def dialect(self) -> AuditDialect:
        """See `AuditedDatabase`."""
        return POSTGRES

    def renew(self) -> None:
        """See `AuditedDatabase`."""
        self._execute("ROLLBACK")
        self._execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def fetch(self, query: str) -> Sequence[Sequence[Any]]:
        """See `AuditedDatabase`."""
        return self._execute(query).fetchall()

    def fetch_texts(self, query: str) -> pa.Table:
        """See `AuditedDatabase`."""
        return table_of_rows(self.fetch(query))

    def close(self) -> None:
        """See `AuditedDatabase`."""
        self._connection.close()

    def _execute(self, statement: str) -> psycopg.Cursor:
        try:
            # Bytes, for psycopg's types take a statement that is put together for a mistake.
            return self._connection.execute(statement.encode())
        except psycopg.Error as error:
            raise explain(self._server, error) from error
