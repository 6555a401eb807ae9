"""A MySQL or MariaDB source, read by an audit: see ports/audited.AuditedSource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.adapters.mysql.audited import AuditedMysql
from penstock.adapters.mysql.catalog import read_table_ids, read_tables
from penstock.adapters.mysql.history import head
from penstock.wiring.open import mysql_server, mysql_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.config.specs import SourceSpec
    from penstock.core.audit.dialects import AuditDialect
    from penstock.core.positions import Position
    from penstock.core.tables import TableId, TableSchema

_PERIOD_END: Final = "ROW END) STORED"


class AuditedMysqlSource:
    """See AuditedSource."""

    def __init__(self, source: SourceSpec) -> None:
        """Connect, and see what is committed; raises as `mysql.connection.connect` does."""
        self._database = AuditedMysql(mysql_server(source))
        self._policy = mysql_source(source).policy
        self._position: Position = head(self._database.connection)

    @property
    def dialect(self) -> AuditDialect:
        """See AuditedDatabase."""
        return self._database.dialect

    @property
    def position(self) -> Position:
        """See AuditedSource."""
        return self._position

    def renew(self) -> None:
        """See AuditedDatabase."""
        self._database.renew()
        self._position = head(self._database.connection)

    def fetch(self, query: str) -> Sequence[Sequence[Any]]:
        """See AuditedDatabase."""
        return self._database.fetch(query)

    def close(self) -> None:
        """See AuditedDatabase."""
        self._database.close()

    def limit(self, query_seconds: int) -> None:
        """See AuditedSource."""
        self._database.limit(query_seconds)

    def tables(self) -> Sequence[TableId]:
        """See AuditedSource."""
        return read_table_ids(self._database.connection)

    def schema(self, table: TableId) -> TableSchema | None:
        """See AuditedSource."""
        return read_tables(self._database.connection, [table], self._policy).get(table)

    def rows_of(self, schema: TableSchema) -> str:
        """See AuditedSource: of a system-versioned table its history too."""
        has_history = any(column.declaration.endswith(_PERIOD_END) for column in schema.columns)
        quoted = self.dialect.quoted(schema.table.schema, schema.table.name)
        return f"{quoted} FOR SYSTEM_TIME ALL" if has_history else quoted
