"""A PostgreSQL source, read by an audit: see ports/audited.AuditedSource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from psycopg import sql

from penstock.adapters.postgres.source.catalog import read_tables, read_types
from penstock.adapters.postgres.source.connection import connect, explained
from penstock.adapters.postgres.source.identity import read_end_of_seen
from penstock.adapters.postgres.source.publication import narrowed, read_published, select_from
from penstock.core.audit.dialects import POSTGRES_SOURCE
from penstock.core.positions import WalPosition
from penstock.core.postgres.relations import table_schema
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import psycopg

    from penstock.adapters.postgres.connection import PostgresServer
    from penstock.adapters.postgres.source.catalog import SourceTable
    from penstock.adapters.postgres.source.publication import Published
    from penstock.core.audit.dialects import AuditDialect
    from penstock.core.positions import Position
    from penstock.core.postgres.types import SpecialValues
    from penstock.core.tables import TableSchema

_QUERY_SECONDS: Final = 3600


class AuditedPostgresSource:
    """See AuditedSource."""

    def __init__(self, server: PostgresServer, publication: str, special: SpecialValues) -> None:
        """Connect, and see what is committed; raises as `connect` does."""
        self._server = server
        self._publication = publication
        self._special = special
        self._connection = connect(server)
        self._tables: Mapping[TableId, tuple[SourceTable, Published | None]] = {}
        self._position = WalPosition(0)
        self.limit(_QUERY_SECONDS)
        self.renew()

    @property
    def dialect(self) -> AuditDialect:
        """See AuditedDatabase."""
        return POSTGRES_SOURCE

    @property
    def position(self) -> Position:
        """See AuditedSource."""
        return self._position

    def renew(self) -> None:
        """See AuditedDatabase."""
        self._execute("ROLLBACK")
        self._execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        with explained(self._server):
            # The first query takes the snapshot.
            published = read_published(self._connection, self._publication)
            self._position = WalPosition(read_end_of_seen(self._connection))
            found = {TableId(each.table.schema, each.table.name): each for each in read_tables(self._connection)}
        self._tables = {
            table: (narrowed(each, published.get(table)), published.get(table)) for table, each in found.items()
        }

    def fetch(self, query: str) -> Sequence[Sequence[Any]]:
        """See AuditedDatabase."""
        return self._execute(query).fetchall()

    def close(self) -> None:
        """See AuditedDatabase."""
        self._connection.close()

    def limit(self, query_seconds: int) -> None:
        """See AuditedSource. It ends the transaction, for a limit is undone with one; `renew` begins another."""
        self._execute("ROLLBACK")
        self._execute(f"SET statement_timeout = '{query_seconds}s'")

    def tables(self) -> Sequence[TableId]:
        """See AuditedSource."""
        return list(self._tables)

    def schema(self, table: TableId) -> TableSchema | None:
        """See AuditedSource."""
        if table not in self._tables:
            return None
        found, _ = self._tables[table]
        with explained(self._server):
            types = read_types(self._connection)
        return table_schema(found.relation, found.table, types, None, self._special)

    def rows_of(self, schema: TableSchema) -> str:
        """See AuditedSource."""
        found, published = self._tables[schema.table]
        source, condition = select_from(found, published)
        if not condition:
            return source.as_string(self._connection)
        return sql.SQL("(SELECT * FROM {} WHERE {}) AS published").format(source, condition).as_string(self._connection)

    def _execute(self, statement: str) -> psycopg.Cursor:
        with explained(self._server):
            return self._connection.execute(statement.encode())
