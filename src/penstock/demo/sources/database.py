"""What the demo asks of its source, whatever kind of server that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from penstock.adapters.mysql.connection import MysqlServer
from penstock.adapters.postgres.connection import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from penstock.demo.rows import Row
    from penstock.demo.source_rows import SourceTable
    from penstock.demo.sources.words import SqlWords
    from penstock.embedded.server import Server

SourceServer: TypeAlias = MysqlServer | PostgresServer


class SourceConnection(Protocol):
    """A connection of a DB-API driver, without autocommit."""

    def cursor(self) -> Any:  # noqa: ANN401 - drivers have no common public type
        """Open a cursor."""
        ...

    def commit(self) -> None:
        """Commit."""
        ...

    def close(self) -> None:
        """Drop it."""
        ...


class Snapshot(Protocol):
    """All tables of one schema, as they are when the snapshot is opened."""

    def tables(self) -> Sequence[SourceTable]:
        """Every table, sorted by name."""
        ...

    def read(self, table: SourceTable) -> Iterator[Row]:
        """Yield the rows of `table`, a value per column, in key order (texts by their bytes), a few at a time."""
        ...


class SourceDatabase(Protocol):
    """One server, and how it is spoken to."""

    @property
    def words(self) -> SqlWords:
        """Its SQL."""
        ...

    @property
    def lost(self) -> tuple[type[Exception], ...]:
        """What the driver raises when the connection is lost."""
        ...

    @property
    def refused(self) -> type[Exception]:
        """What the driver raises at all."""
        ...

    def connect(self) -> SourceConnection:
        """Connect with all rights. Raises UnavailableError and UnfitServerError."""
        ...

    def explained(self) -> AbstractContextManager[None]:
        """Raise UnavailableError or UnfitServerError for what the driver raises inside."""
        ...

    def is_done_already(self, error: Exception) -> bool:
        """Whether a schema change was refused because it had been made."""
        ...

    def tables(self) -> Collection[str]:
        """The marketplace's tables that are there now."""
        ...

    def create_login(self, user: str, password: str) -> None:
        """Make the user that the pipeline logs in as, with the rights that the documentation asks for and no more."""
        ...

    def open_snapshot(self, schema: str) -> AbstractContextManager[Snapshot]:
        """Hold one consistent read of `schema`."""
        ...


class SourceKind(Protocol):
    """A kind of server that the demo starts for itself. `title` is for people, `name` what `penstock dev` calls it."""

    title: str
    name: str

    def start(self, home: Path) -> tuple[Server, SourceServer]:
        """Start it with its data below `home`; return it, and how to log in with all rights."""
        ...

    def lines(self, server: SourceServer) -> Sequence[str]:
        """Return what the pipeline's file says of the source beside its name, user and password."""
        ...
