"""A database of its own on a real PostgreSQL, whose log is read as a source's."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from penstock.adapters.postgres.connection import PostgresServer as Login
from penstock.adapters.postgres.source.identity import read_head
from penstock.adapters.postgres.source.initial_snapshot import open_initial_snapshot
from penstock.adapters.postgres.source.publication import Publication, ensure_publication
from penstock.adapters.postgres.source.slot import drop_slot
from penstock.adapters.postgres.source.stream import WalStream, open_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.adapters.postgres.source.initial_snapshot import PostgresInitialSnapshot
    from penstock.core.positions import WalPosition
    from penstock.core.postgres.log_items import PostgresItem
    from penstock.dev.postgres import PostgresServer

_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class SourceDatabase:
    """A database; its slot and publication have its name."""

    login: Login
    connection: psycopg.Connection

    @property
    def name(self) -> str:
        """What the database, the slot and the publication are called."""
        return self.login.database

    def execute(self, *statements: str) -> None:
        """Run statements, each in a transaction of its own."""
        for statement in statements:
            self.connection.execute(statement.encode())

    def session(self) -> psycopg.Connection:
        """Log in once more."""
        login = self.login
        conninfo = psycopg.conninfo.make_conninfo(
            host=login.host, port=login.port, dbname=login.database, user=login.user, password=login.password
        )
        session = psycopg.connect(conninfo, autocommit=True)
        # Tables change between two statements that are alike.
        session.prepare_threshold = None
        return session

    def publish(self) -> None:
        """Make the publication."""
        ensure_publication(self.connection, Publication(self.name))

    @contextmanager
    def copy(self) -> Iterator[PostgresInitialSnapshot]:
        """Make the slot, and read the tables."""
        with open_initial_snapshot(self.login, self.name, Publication(self.name), lambda _: True, "stop") as copy:
            yield copy

    def stream(self, position: WalPosition) -> WalStream:
        """Follow the log."""
        return open_stream(self.login, self.name, [self.name], position)

    def read(self, stream: WalStream) -> list[PostgresItem]:
        """Read the log up to where it ends now."""
        head, until = read_head(self.connection), time.monotonic() + _SECONDS
        items: list[PostgresItem] = []
        while time.monotonic() < until:
            items.extend(stream.read(0.2))
            ends = [item.end.lsn for item in items if hasattr(item, "end")]
            if ends and ends[-1] >= head:
                return items
        message = "the log did not come to its end"
        raise AssertionError(message)


@contextmanager
def source_database(server: PostgresServer, name: str) -> Iterator[SourceDatabase]:
    """A fresh database called `name`, dropped at the end with its slot."""
    with closing(psycopg.connect(_conninfo(server, server.database), autocommit=True)) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
        login = Login(server.host, server.port, name, server.user, server.password, {"sslmode": "disable"})
        with closing(psycopg.connect(_conninfo(server, name), autocommit=True)) as connection:
            yield SourceDatabase(login, connection)
        drop_slot(login, name)
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def _conninfo(server: PostgresServer, database: str) -> str:
    return psycopg.conninfo.make_conninfo(
        host=server.host, port=server.port, dbname=database, user=server.user, password=server.password
    )
