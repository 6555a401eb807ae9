"""The registry's database: connections, transactions and the upgrade at start."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, IntegrityError, NoSuchModuleError, OperationalError
from sqlalchemy.orm import Session
from sqlalchemy.orm.exc import StaleDataError

from penstock.config.database_urls import parse_database_url, pin_sessions
from penstock.core.errors import UnavailableError, UsageError
from penstock.core.extras import extra_of, how_to_install
from penstock.schematizer.storage.execution_options import FOR_WRITING
from penstock.wiring.databases import use_write_ahead_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import URL, Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry

T = TypeVar("T")

_BUSY_TIMEOUT_SECONDS = 30.0
_CONNECT_SECONDS = 10
_ANSWER_SECONDS = 60
_WRITE_ATTEMPTS = 5
_WRITERS_MAX = 8
_DEADLOCKS = frozenset({"40P01", "40001", (1213,)})
_EXAMPLE = "write it like sqlite:////var/lib/penstock/schematizer.db"
_MIGRATIONS = Path(__file__).parent / "migrations" / "versions"
_VERSION = sa.table("alembic_version", sa.column("version_num"))


@dataclass(frozen=True, slots=True)
class Database:
    """Runs pieces of work, each in one transaction of its own."""

    engine: Engine

    @property
    def writers_max(self) -> int:
        """How many may well write at once: SQLite has one lock, the others a connection for each."""
        return 2 if self.engine.dialect.name == "sqlite" else _WRITERS_MAX

    def read(self, work: Callable[[Session], T]) -> T:
        """Run `work` on a consistent view; it must not write."""
        with Session(self.engine) as session:
            return work(session)

    def write(self, work: Callable[[Session], T]) -> T:
        """Run `work` and commit it.

        `work` may run several times: whoever loses a race for a unique name is
        rolled back, and finds the winner's row when it runs again; so is whom the
        database chose to end a deadlock. Raises UnavailableError when it loses
        every time, and IntegrityError when a constraint refuses it every time:
        then nobody else was first.
        """
        lost: DBAPIError | StaleDataError
        for _ in range(_WRITE_ATTEMPTS):
            try:
                with self.engine.connect().execution_options(**{FOR_WRITING: True}) as connection:
                    with Session(connection) as session:
                        answer = work(session)
                        session.commit()
                    return answer
            except (IntegrityError, StaleDataError) as error:
                lost = error
            except OperationalError as error:
                if not _is_deadlock(error):
                    raise
                lost = error
        if isinstance(lost, IntegrityError):
            raise lost
        cause = lost.orig if isinstance(lost, DBAPIError) else lost
        message = f"other writers were first {_WRITE_ATTEMPTS} times: {cause}"
        raise UnavailableError(message, "try again") from lost

    def close(self) -> None:
        """Let go of every connection."""
        self.engine.dispose()


@dataclass(frozen=True, slots=True)
class UnitOfWork:
    """One transaction that changes what people said, and its `author`, "" for nobody."""

    session: Session
    author: str


@dataclass(frozen=True, slots=True)
class AuthoredDatabase:
    """A database as one author writes to it."""

    database: Database
    author: str = ""

    def write(self, work: Callable[[UnitOfWork], T]) -> T:
        """Run `work` and commit it; see `Database.write`."""
        return self.database.write(lambda session: work(UnitOfWork(session, self.author)))


def open_database(url: str) -> Database:
    """Connect to the database at `url` (SQLAlchemy's notation) and bring its tables up to date.

    Raises UsageError for a URL that cannot work and UnavailableError when the
    database does not answer.
    """
    database = Database(open_engine(url, create=True))
    try:
        if not _is_current(database.engine):
            # What runs migrations takes a fifth of a second to import, which most starts need not wait for.
            from penstock.schematizer.storage.upgrade import upgrade  # noqa: PLC0415

            upgrade(database.engine, newest_revision())
    except DBAPIError as error:
        database.close()
        message = f"the registry's database {database.engine.url!r} cannot be used: {error.orig}"
        raise UnavailableError(
            message, "check the URL, and that the server runs or the folder can be written"
        ) from error
    return database


def _is_deadlock(error: OperationalError) -> bool:
    """Tell whether a transaction was given up for others: SQLSTATE in PostgreSQL, an error number in MySQL."""
    code = getattr(error.orig, "sqlstate", None) or (error.orig.args[:1] if error.orig else ())
    return code in _DEADLOCKS


def now_ms() -> int:
    """Return the time, in Unix milliseconds."""
    return time.time_ns() // 1_000_000


def open_engine(url: str, *, create: bool = False) -> Engine:
    """Prepare connections to `url`; nothing is connected yet. Raises UsageError for a URL that cannot work.

    `create` says that a file's folder is made if it is missing.
    """
    parsed = parse_database_url(url, "registry's database")
    if parsed.get_backend_name() == "sqlite":
        return _open_sqlite(parsed, create=create)
    connect: dict[str, object] = {"connect_timeout": _CONNECT_SECONDS}
    if parsed.get_backend_name() == "postgresql":
        connect["options"] = f"-c statement_timeout={_ANSWER_SECONDS * 1000}"
        # A server that is gone without a word is noticed by the kernel.
        connect |= {"keepalives_idle": _CONNECT_SECONDS, "tcp_user_timeout": _ANSWER_SECONDS * 1000}
    else:
        connect |= {"read_timeout": _ANSWER_SECONDS, "write_timeout": _ANSWER_SECONDS, "charset": "utf8mb4"}
    try:
        # A writer that waited for a lock must see what the winner wrote.
        engine = sa.create_engine(parsed, isolation_level="READ COMMITTED", pool_pre_ping=True, connect_args=connect)
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        message = f"the driver for a registry's database at {parsed.drivername} is not installed"
        extra = extra_of(error.name) if isinstance(error, ModuleNotFoundError) else None
        raise UsageError(message, _EXAMPLE if extra is None else how_to_install(extra)) from error
    pin_sessions(engine)
    return engine


def _open_sqlite(url: URL, *, create: bool) -> Engine:
    if not url.database or url.database == ":memory:":
        message = "a database in memory cannot keep a registry: every connection would see another one"
        raise UsageError(message, _EXAMPLE)
    if create:
        folder = Path(url.database).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"the registry's folder {folder} cannot be made: {error.strerror}"
            raise UsageError(message, "give another --url, or correct the rights") from error
    engine = sa.create_engine(url, connect_args={"timeout": _BUSY_TIMEOUT_SECONDS})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    """Let readers go on beside a writer, and leave BEGIN to us: the driver's own would come too late."""
    assert isinstance(connection, sqlite3.Connection)  # noqa: S101 - the engine was opened for sqlite3
    connection.isolation_level = None
    use_write_ahead_log(connection, _BUSY_TIMEOUT_SECONDS)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: Connection) -> None:
    """Take the one write lock at the start: a reader that becomes a writer later can fail at once as "locked"."""
    writing = connection.get_execution_options().get(FOR_WRITING, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _is_current(engine: Engine) -> bool:
    """Tell whether every migration was run; those of a file `rNAME.py` are called NAME, and run by name."""
    with engine.connect() as connection:
        if not sa.inspect(connection).has_table(_VERSION.name):
            return False
        return list(connection.scalars(sa.select(_VERSION.c.version_num))) == [newest_revision()]


def newest_revision() -> str:
    """Return what a database that is up to date says of itself, without loading the migrations."""
    return max(file.stem for file in _MIGRATIONS.glob("r*.py")).removeprefix("r")
