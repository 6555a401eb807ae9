"""Connections to the state database, and its errors in our words."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from penstock.adapters.state.sqlite import use_write_ahead_log
from penstock.config.database_urls import parse_database_url, pin_sessions
from penstock.core.errors import PenstockError, UnavailableError, UsageError
from penstock.core.extras import extra_of, how_to_install

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from sqlalchemy import URL, Connection

BEGIN_OPTION = "penstock_begin"
_TIMEOUT_SECONDS = 10
_ANSWER_SECONDS = 60


def open_engine(url: str) -> Engine:
    """Prepare connections to `url`, each with a timeout on connecting and on every answer.

    Nothing is connected yet, but an SQLite file gets its directory. Raises
    UsageError for a URL that is none, or of a database we do not know.
    """
    parsed = parse_database_url(url, "state database")
    match parsed.get_backend_name():
        case "sqlite":
            return _sqlite_engine(parsed)
        case "postgresql":
            options = f"-c statement_timeout={_ANSWER_SECONDS * 1000}"
            connect = {"connect_timeout": _TIMEOUT_SECONDS, "options": options}
        case _:
            connect = {
                "connect_timeout": _TIMEOUT_SECONDS,
                "read_timeout": _ANSWER_SECONDS,
                "write_timeout": _ANSWER_SECONDS,
                "charset": "utf8mb4",
            }
    try:
        engine = create_engine(parsed, connect_args=connect, pool_pre_ping=True, pool_size=2, max_overflow=2)
    except ModuleNotFoundError as error:
        message = f"the driver for a state database at {parsed.drivername} is not installed: {error.name}"
        extra = extra_of(error.name)
        hint = f"type: pip install {error.name}" if extra is None else how_to_install(extra)
        raise UsageError(message, hint) from error
    pin_sessions(engine)
    return engine


@contextmanager
def transaction(engine: Engine, begin: str = "BEGIN") -> Iterator[Connection]:
    """Commit at the end, roll back on any error; `begin` is SQLite's word for how to start.

    Raises UnavailableError when the database is away, busy or full, PenstockError
    when it refuses a statement.
    """
    try:
        with engine.connect().execution_options(**{BEGIN_OPTION: begin}) as connection, connection.begin():
            yield connection
    except DBAPIError as error:
        raise explain(error, engine) from error


def explain(error: DBAPIError, engine: Engine) -> PenstockError:
    """Turn a driver's error into ours, with the URL but without its password."""
    where = engine.url.render_as_string(hide_password=True)
    cause = str(error.orig).strip()
    if isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated:
        hint = "check that the database runs, takes the login, and has room on its disk"
        return UnavailableError(f"the state database {where} failed: {cause}", hint)
    return PenstockError(
        f"the state database {where} refused a statement: {cause}",
        "check the grants of its user (CREATE, ALTER, SELECT, INSERT, UPDATE, DELETE)",
    )


def _sqlite_engine(url: URL) -> Engine:
    if url.database:
        directory = Path(url.database).parent
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"cannot make the directory {directory}: {error.strerror}"
            raise UsageError(
                message, "check the config's home: it must be a directory that this user may write to"
            ) from error
    engine = create_engine(url, connect_args={"timeout": _TIMEOUT_SECONDS})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    """Without this, Python's driver commits before DDL and decides for itself when to begin."""
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {_TIMEOUT_SECONDS * 1000}")
    use_write_ahead_log(connection, _TIMEOUT_SECONDS)


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get(BEGIN_OPTION, "BEGIN"))
