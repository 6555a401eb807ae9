"""The registry's database: connections, transactions and the upgrade at start."""

from __future__ import annotations

import sqlite3
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.orm import Session

from penstock.core.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy.engine import Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry

T = TypeVar("T")

_BUSY_TIMEOUT_SECONDS = 30.0
_WRITE_ATTEMPTS = 5
_EXAMPLE = "write it like sqlite:////var/lib/penstock/schematizer.db"
_FOR_WRITING = "penstock_for_writing"


@dataclass(frozen=True, slots=True)
class Database:
    """Runs pieces of work, each in one transaction of its own."""

    engine: Engine

    def read(self, work: Callable[[Session], T]) -> T:
        """Run `work` on a consistent view; it must not write."""
        with Session(self.engine) as session:
            return work(session)

    def write(self, work: Callable[[Session], T]) -> T:
        """Run `work` and commit it.

        `work` may run several times: whoever loses a race for a unique name is
        rolled back, and finds the winner's row when it runs again. Raises
        UnavailableError when it loses every time.
        """
        for _ in range(_WRITE_ATTEMPTS):
            try:
                with self.engine.connect().execution_options(**{_FOR_WRITING: True}) as connection:
                    with Session(connection) as session:
                        answer = work(session)
                        session.commit()
                    return answer
            except IntegrityError as error:
                lost = error
        message = f"other writers were first {_WRITE_ATTEMPTS} times: {lost.orig}"
        raise UnavailableError(message, "try again") from lost

    def close(self) -> None:
        """Let go of every connection."""
        self.engine.dispose()


def open_database(url: str) -> Database:
    """Connect to the database at `url` (SQLAlchemy's notation) and bring its tables up to date.

    Raises UsageError for a URL that cannot work and UnavailableError when the
    database does not answer.
    """
    database = Database(_open_engine(url))
    try:
        _upgrade(database.engine)
    except DBAPIError as error:
        database.close()
        message = f"the registry's database {database.engine.url!r} cannot be used: {error.orig}"
        raise UnavailableError(
            message, "check the URL, and that the server runs or the folder can be written"
        ) from error
    return database


def now_ms() -> int:
    """Return the time, in Unix milliseconds."""
    return time.time_ns() // 1_000_000


def _open_engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() != "sqlite":
            # A writer that waited for a lock must see what the winner wrote.
            return sa.create_engine(parsed, isolation_level="READ COMMITTED", pool_pre_ping=True)
        if parsed.database in {None, "", ":memory:"}:
            message = "a database in memory cannot keep a registry: every connection would see another one"
            raise UsageError(message, _EXAMPLE)
        engine = sa.create_engine(parsed, connect_args={"timeout": _BUSY_TIMEOUT_SECONDS})
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        message = f"{url.partition('://')[0]}:// is not the URL of a database: {error}"
        raise UsageError(message, _EXAMPLE) from error
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    """Let readers go on beside a writer, and leave BEGIN to us: the driver's own would come too late."""
    assert isinstance(connection, sqlite3.Connection)  # noqa: S101 - the engine was opened for sqlite3
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: Connection) -> None:
    """Take the one write lock at the start: a reader that becomes a writer later can fail at once as "locked"."""
    writing = connection.get_execution_options().get(_FOR_WRITING, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _upgrade(engine: Engine) -> None:
    """Run the migrations that are missing; of several services that start at once, one does it."""
    config = Config()
    config.set_main_option("script_location", "penstock.schematizer:migrations")
    config.set_main_option("path_separator", "os")
    with (
        engine.connect().execution_options(**{_FOR_WRITING: True}) as connection,
        connection.begin(),
        _upgrade_lock(connection),
    ):
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


@contextmanager
def _upgrade_lock(connection: Connection) -> Iterator[None]:
    """Keep others from upgrading meanwhile. SQLite's BEGIN IMMEDIATE has done so already."""
    match connection.dialect.name:
        case "postgresql":
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtext('penstock schematizer'))")
            yield
        case "mysql" | "mariadb":
            # Each statement that makes a table commits there, so the lock cannot be the transaction's.
            connection.exec_driver_sql("SELECT GET_LOCK('penstock schematizer', 60)")
            try:
                yield
            finally:
                connection.exec_driver_sql("SELECT RELEASE_LOCK('penstock schematizer')")
        case _:
            yield
