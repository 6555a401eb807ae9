"""The fault suite's pipeline from PostgreSQL."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import psycopg

from penstock.adapters.postgres.connection import PostgresServer
from penstock.dev import postgres
from penstock.embedded.ports import LOOPBACK
from penstock.faults.sources import CONNECT_SECONDS, READ_SECONDS
from penstock.faults.workload import CREATE_TABLES, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.demo.sources.database import SourceConnection, SourceServer
    from penstock.embedded.server import Server

_SETTINGS: Final = {"max_slot_wal_keep_size": "64MB", "max_wal_size": "8GB", "checkpoint_timeout": "1d"}
"""Of the log the slot may keep four files. What is over them goes with a checkpoint, and none comes by itself: the slot
is not lost."""


class PostgresSource:
    """See FaultSource. Its tables have REPLICA IDENTITY FULL, so that a deletion says which version it takes away."""

    schema: str = SCHEMA
    password: str = postgres.PASSWORD
    password_env: str = "FAULTS_POSTGRES_PASSWORD"  # noqa: S105 - the variable's name
    has_tracker: bool = False
    has_slot: bool = True
    unreached: tuple[str, ...] = ("tracker.", "statement.dumped", "statement.applied")
    refused: type[Exception] = psycopg.Error

    def start(self, folder: Path) -> Server:
        """See FaultSource."""
        return postgres.start_postgres(folder, settings=_SETTINGS)

    def create(self, port: int) -> None:
        """See FaultSource."""
        tables = ("accounts", "entries", "last_versions")
        full = (f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in tables)
        with closing(self._connect(port)) as connection:
            for statement in (f"CREATE SCHEMA {SCHEMA}", *CREATE_TABLES, *full):
                connection.execute(statement.encode())
            connection.commit()

    def connect(self, port: int) -> SourceConnection:
        """See FaultSource."""
        return self._connect(port)

    def _connect(self, port: int) -> psycopg.Connection:
        return psycopg.connect(
            host=LOOPBACK,
            port=port,
            user=postgres.USER,
            password=postgres.PASSWORD,
            dbname=postgres.DATABASE,
            connect_timeout=CONNECT_SECONDS,
            options=f"-c search_path={SCHEMA} -c statement_timeout={READ_SECONDS}s",
        )

    def server(self, port: int) -> SourceServer:
        """See FaultSource."""
        tls = {"sslmode": "disable"}
        return PostgresServer(LOOPBACK, port, postgres.DATABASE, postgres.USER, postgres.PASSWORD, tls)

    def spec(self, port: int) -> Mapping[str, Any]:
        """See FaultSource."""
        login = {"database": postgres.DATABASE, "user": postgres.USER, "password_env": self.password_env}
        return {"kind": "postgres", "host": LOOPBACK, "port": port, **login, "tables": [f"{SCHEMA}.*"]}
