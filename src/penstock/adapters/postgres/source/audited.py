"""A PostgreSQL source, or a standby of it, read by an audit: see ports/audited.AuditedSource."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from psycopg import sql

from penstock.adapters.postgres.source.catalog import read_tables, read_types
from penstock.adapters.postgres.source.connection import connect, connected, explained
from penstock.adapters.postgres.source.identity import read_end_of_seen
from penstock.adapters.postgres.source.publication import narrowed, read_published, select_from
from penstock.adapters.postgres.source.standby import await_replayed, read_primary
from penstock.core.audit.dialects import POSTGRES_SOURCE
from penstock.core.audit.text_tables import table_of_rows
from penstock.core.errors import UnavailableError
from penstock.core.positions import WalPosition
from penstock.core.postgres.relations import table_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import psycopg
    import pyarrow as pa

    from penstock.adapters.postgres.connection import PostgresServer
    from penstock.adapters.postgres.source.publication import Publication, Published
    from penstock.core.audit.dialects import AuditDialect
    from penstock.core.positions import Position
    from penstock.core.postgres.catalog import SourceTable
    from penstock.core.postgres.types import SpecialValues
    from penstock.core.tables import TableId, TableSchema

_QUERY_SECONDS: Final = 3600
_ROW_BYTES: Final = """
SELECT coalesce(sum(pg_table_size(oid)) / nullif(sum(greatest(reltuples, 0)), 0), 0)
  FROM pg_class
 WHERE relkind = 'r'
   AND (oid = %s::oid OR oid IN (SELECT relid FROM pg_partition_tree(%s::oid)))
"""
"""A table without partitions is no tree; one that was never analyzed has -1 rows."""


@dataclass(frozen=True, slots=True)
class AwaitedStandby:
    """A standby that is read in place of its primary, and for how long to wait until it has what that has."""

    server: PostgresServer
    wait_seconds: float


class AuditedPostgresSource:
    """See AuditedSource.

    Where a standby is read, the source itself is only asked where its log is, over connections that end at once.
    """

    def __init__(
        self,
        source: PostgresServer,
        publication: Publication,
        special: SpecialValues,
        standby: AwaitedStandby | None = None,
    ) -> None:
        """Connect, and see what is committed; raises as `connect` does."""
        self._source = source
        self._standby = standby
        self._server = source if standby is None else standby.server
        self._publication = publication
        self._special = special
        self._query_seconds = _QUERY_SECONDS
        self._ends_at: float | None = None
        self._tables: Mapping[TableId, tuple[SourceTable, Published | None]] = {}
        self._position = WalPosition(0)
        if standby is not None:
            # Which tables there are is known before the standby is waited for.
            with connected(source) as connection:
                self._position, self._tables = WalPosition(read_end_of_seen(connection)), self._read(connection)
        self._connection = connect(self._server)
        self.limit(_QUERY_SECONDS)
        if standby is None:
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
        """See AuditedDatabase.

        A standby has replayed all that the source's log had when this was called, and the log goes on behind all
        that a snapshot of the standby has: so neither who reads the target before, nor who waits for the target
        to pass the place, sees a row differ because the standby is behind.
        """
        if self._standby is not None:
            self._await(self._standby)
        self._execute("ROLLBACK")
        self._execute(f"SET statement_timeout = '{self._query_seconds}s'")
        self._execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        with explained(self._server):
            # The first query takes the snapshot.
            self._tables = self._read(self._connection)
            if self._standby is None:
                self._position = WalPosition(read_end_of_seen(self._connection))
        if self._standby is not None:
            with connected(self._source) as connection:
                self._position = WalPosition(read_end_of_seen(connection))

    def release(self) -> None:
        """See AuditedSource."""
        # A connection that is lost holds nothing, and `renew` says so or opens another one.
        with suppress(UnavailableError):
            self._execute("ROLLBACK")

    def fetch(self, query: str) -> Sequence[Sequence[Any]]:
        """See AuditedDatabase."""
        return self._execute(query).fetchall()

    def fetch_texts(self, query: str) -> pa.Table:
        """See AuditedDatabase."""
        return table_of_rows(self.fetch(query))

    def close(self) -> None:
        """See AuditedDatabase."""
        self._connection.close()

    def limit(self, query_seconds: int, ends_at: float | None = None) -> None:
        """See AuditedSource; it counts from the next `renew` on, for a limit is undone with a transaction."""
        self._query_seconds, self._ends_at = query_seconds, ends_at

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

    def row_bytes(self, table: TableId) -> int:
        """See AuditedSource."""
        if table not in self._tables:
            return 0
        found, _ = self._tables[table]
        with explained(self._server):
            row = self._connection.execute(_ROW_BYTES, [found.relation.oid, found.relation.oid]).fetchone()
        return int(row[0]) if row else 0

    def rows_of(self, schema: TableSchema) -> str:
        """See AuditedSource."""
        found, published = self._tables[schema.table]
        source, condition = select_from(found, published)
        if not condition:
            return source.as_string(self._connection)
        return sql.SQL("(SELECT * FROM {} WHERE {}) AS published").format(source, condition).as_string(self._connection)

    def _await(self, standby: AwaitedStandby) -> None:
        try:
            self._execute("ROLLBACK")
        except UnavailableError:
            # A standby ends sessions whose snapshot holds up its replay.
            self._connection.close()
            self._connection = connect(standby.server)
        with connected(self._source) as connection:
            primary = read_primary(connection, self._source)
        left = standby.wait_seconds if self._ends_at is None else max(0.0, self._ends_at - time.monotonic())
        await_replayed(self._connection, standby.server, primary, min(standby.wait_seconds, left))

    def _read(self, connection: psycopg.Connection) -> Mapping[TableId, tuple[SourceTable, Published | None]]:
        """Every table, and how it is published. Raises psycopg.Error."""
        published = read_published(connection, self._publication.name)
        tables = read_tables(connection, self._publication.partitions)
        found = {each.table.id: each for each in tables}
        return {table: (narrowed(each, published.get(table)), published.get(table)) for table, each in found.items()}

    def _execute(self, statement: str) -> psycopg.Cursor:
        with explained(self._server):
            return self._connection.execute(statement.encode())
