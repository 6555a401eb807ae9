"""The marketplace in PostgreSQL."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import errors
from psycopg.types.array import ListDumper

from penstock.adapters.postgres.connection import PostgresServer
from penstock.adapters.postgres.source.connection import connect, connected, explained
from penstock.adapters.postgres.source.ddl_trigger import ensure_ddl_trigger
from penstock.demo.schema import SCHEMA
from penstock.demo.sources.postgres_rows import PostgresSnapshot
from penstock.demo.sources.postgres_schema import WORDS
from penstock.dev.postgres import start_postgres

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from penstock.demo.sources.database import Snapshot, SourceConnection, SourceServer
    from penstock.demo.sources.words import SqlWords
    from penstock.embedded.server import Server

PUBLICATION: Final = "penstock_demo"
_ALREADY_DONE: Final = (errors.DuplicateColumn, errors.DuplicateTable)


class PostgresDatabase:
    """See SourceDatabase."""

    words: SqlWords = WORDS
    lost: tuple[type[Exception], ...] = (psycopg.OperationalError, psycopg.InterfaceError)
    refused: type[Exception] = psycopg.Error

    def __init__(self, server: PostgresServer) -> None:
        """Connect when asked."""
        self._server = server

    def connect(self) -> SourceConnection:
        """See SourceDatabase."""
        connection = connect(self._server)
        connection.autocommit = False
        # A tuple is a list of values, as other drivers take it.
        connection.adapters.register_dumper(tuple, ListDumper)
        return connection

    def explained(self) -> AbstractContextManager[None]:
        """See SourceDatabase."""
        return explained(self._server)

    def is_done_already(self, error: Exception) -> bool:
        """See SourceDatabase."""
        return isinstance(error, _ALREADY_DONE)

    def tables(self) -> Collection[str]:
        """See SourceDatabase."""
        with connected(self._server) as connection:
            rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (SCHEMA,)).fetchall()
        return {str(name) for (name,) in rows}

    def create_login(self, user: str, password: str) -> None:
        """See SourceDatabase: with a publication of all tables and event triggers, which only a superuser makes."""
        with connected(self._server) as connection:
            for statement in (
                f"DROP PUBLICATION IF EXISTS {PUBLICATION}",
                f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES WITH (publish_via_partition_root = true)",
                f"CREATE ROLE {user} LOGIN REPLICATION PASSWORD '{password}'",
                f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}",
                f"GRANT USAGE ON SCHEMA {SCHEMA} TO {user}",
                f"GRANT SELECT ON ALL TABLES IN SCHEMA {SCHEMA} TO {user}",
                f"ALTER DEFAULT PRIVILEGES IN SCHEMA {SCHEMA} GRANT SELECT ON TABLES TO {user}",
            ):
                connection.execute(statement.encode())
            ensure_ddl_trigger(connection, PUBLICATION)

    @contextmanager
    def open_snapshot(self, schema: str) -> Iterator[Snapshot]:
        """See SourceDatabase."""
        with closing(connect(self._server)) as connection, self.explained():
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield PostgresSnapshot(connection, schema)


class PostgresKind:
    """See SourceKind."""

    title: str = "PostgreSQL"
    name: str = "postgres"

    def start(self, home: Path) -> tuple[Server, SourceServer]:
        """See SourceKind."""
        source = start_postgres(home)
        tls = {"sslmode": "disable"}
        return source, PostgresServer(source.host, source.port, source.database, source.user, source.password, tls)

    def lines(self, server: SourceServer) -> Sequence[str]:
        """See SourceKind."""
        database = server.database if isinstance(server, PostgresServer) else ""
        where = (f"host: {server.host}", f"port: {server.port}", f"database: {database}")
        return ("kind: postgres", *where, f"publication: {PUBLICATION}", "ddl_trigger: true")
