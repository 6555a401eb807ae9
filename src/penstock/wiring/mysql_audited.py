"""A MySQL or MariaDB source, or a replica of it, read by an audit: see ports/audited.AuditedSource."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.adapters.mysql.audited import AuditedMysql
from penstock.adapters.mysql.catalog import read_table_ids, read_tables
from penstock.adapters.mysql.connection import connect
from penstock.adapters.mysql.history import head
from penstock.adapters.mysql.replica_wait import await_applied, read_master
from penstock.core.errors import UnfitServerError
from penstock.links.audit.pace import Pace
from penstock.wiring.open import mysql_server, mysql_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.config.audits import AuditSpec
    from penstock.config.specs import SourceSpec
    from penstock.core.audit.dialects import AuditDialect
    from penstock.core.positions import Position
    from penstock.core.tables import TableId, TableSchema

_PERIOD_END: Final = "ROW END) STORED"


class AuditedMysqlSource:
    """See AuditedSource.

    Of a replica rows and schemas are read. The source itself is asked which tables
    it has and where its log is, over connections that end at once: it would end them while a long query runs.
    """

    def __init__(self, source: SourceSpec, audit: AuditSpec) -> None:
        """Connect, and see what is committed; raises as `mysql.connection.connect` does."""
        self._source = mysql_server(source)
        self._read = self._source
        if audit.replica is not None:
            self._read = replace(self._source, host=audit.replica.host, port=audit.replica.port or self._source.port)
        self._is_replica, self._wait_seconds = audit.replica is not None, audit.wait_seconds
        self._pace = Pace()
        self._policy = mysql_source(source).policy
        self._database = AuditedMysql(self._read)
        self._position: Position = self._head()

    @property
    def dialect(self) -> AuditDialect:
        """See AuditedDatabase."""
        return self._database.dialect

    @property
    def position(self) -> Position:
        """See AuditedSource."""
        return self._position

    def renew(self) -> None:
        """See AuditedDatabase.

        A replica has applied all that the source's log had when this was called, and the log goes on behind all
        that a snapshot of the replica has: so neither who reads the target before, nor who waits for the target
        to pass the place, sees a row differ because the replica is behind.
        """
        if self._is_replica:
            with closing(connect(self._source)) as connection:
                master = read_master(connection)
            await_applied(self._database.connection, master, self._pace.at_most(self._wait_seconds))
        self._database.renew()
        self._position = self._head()

    def release(self) -> None:
        """See AuditedSource."""
        self._database.release()

    def fetch(self, query: str) -> Sequence[Sequence[Any]]:
        """See AuditedDatabase."""
        return self._database.fetch(query)

    def fetch_texts(self, query: str) -> pa.Table:
        """See AuditedDatabase."""
        return self._database.fetch_texts(query)

    def close(self) -> None:
        """See AuditedDatabase."""
        self._database.close()

    def limit(self, query_seconds: int, ends_at: float | None = None) -> None:
        """See AuditedSource."""
        self._pace = Pace(ends_at)
        self._database.limit(query_seconds)

    def tables(self) -> Sequence[TableId]:
        """See AuditedSource."""
        if not self._is_replica:
            return read_table_ids(self._database.connection)
        with closing(connect(self._source)) as connection:
            return read_table_ids(connection)

    def schema(self, table: TableId) -> TableSchema | None:
        """See AuditedSource. Raises UnfitServerError for a table that the source has and its replica has not."""
        found = read_tables(self._database.connection, [table], self._policy).get(table)
        if found is None and self._is_replica:
            with closing(connect(self._source)) as connection:
                if read_tables(connection, [table], self._policy):
                    message = f"{self._read} has no table {table}, or does not show it, and {self._source} has it"
                    hint = f"GRANT SELECT ON {table} TO {self._read.user} there, or see what leaves it out"
                    raise UnfitServerError(message, hint)
        return found

    def row_bytes(self, table: TableId) -> int:
        """See AuditedSource."""
        return self._database.row_bytes(table)

    def rows_of(self, schema: TableSchema) -> str:
        """See AuditedSource: of a system-versioned table its history too."""
        has_history = any(column.declaration.endswith(_PERIOD_END) for column in schema.columns)
        quoted = self.dialect.quoted(schema.table.schema, schema.table.name)
        return f"{quoted} FOR SYSTEM_TIME ALL" if has_history else quoted

    def _head(self) -> Position:
        if not self._is_replica:
            return head(self._database.connection)
        with closing(connect(self._source)) as connection:
            return head(connection)
