"""A Redshift database, read by an audit."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.adapters.redshift.connection import DRIVER_ERRORS, close, connect, execute, explain
from penstock.core.audit.redshift import REDSHIFT
from penstock.core.audit.text_tables import table_of_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from redshift_connector.cursor import Cursor

    from penstock.adapters.redshift.connection import RedshiftCluster
    from penstock.core.audit.dialects import AuditDialect

_QUERY_SECONDS = 3600


class AuditedRedshift:
    """A connection whose queries see one snapshot. It implements the port `AuditedDatabase`."""

    def __init__(self, cluster: RedshiftCluster, dialect: AuditDialect = REDSHIFT) -> None:
        """Connect; raises as `connect` does."""
        self._cluster = cluster
        self._dialect = dialect
        self._connection = connect(cluster)
        self._execute(f"SET statement_timeout TO {_QUERY_SECONDS * 1000}")

    @property
    def dialect(self) -> AuditDialect:
        """See `AuditedDatabase`."""
        return self._dialect

    def renew(self) -> None:
        """See `AuditedDatabase`."""
        # Outside a transaction, as at first, it only warns.
        self._execute("ROLLBACK")
        self._execute("BEGIN READ ONLY")

    def fetch(self, query: str) -> Sequence[Sequence[Any]]:
        """See `AuditedDatabase`."""
        return list(self._execute(query).fetchall())

    def fetch_texts(self, query: str) -> pa.Table:
        """See `AuditedDatabase`."""
        return table_of_rows(self.fetch(query))

    def close(self) -> None:
        """See `AuditedDatabase`."""
        close(self._connection)

    def _execute(self, statement: str) -> Cursor:
        try:
            return execute(self._connection, statement)
        except DRIVER_ERRORS as error:
            with suppress(*DRIVER_ERRORS):
                execute(self._connection, "ROLLBACK")
            raise explain(self._cluster, error) from error
