"""URLs of databases that keep our own tables, and the driver that each kind of them is reached by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import event, make_url
from sqlalchemy.exc import ArgumentError

from penstock.core.errors import UnavailableError, UsageError
from penstock.core.sessions import (
    MYSQL_KEEPALIVE,
    POSTGRES_KEEPALIVE,
    POSTGRES_SESSION,
    mysql_query,
    mysql_statement,
    postgres_statement,
    require_kept,
)

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry

_DRIVERS = {"mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql", "postgresql": "postgresql+psycopg"}


def parse_database_url(url: str, what: str) -> URL:
    """Return `url` with the driver that we use where it names none; `what` is what is kept there.

    Raises UsageError for what is no URL, or of a kind of database that we do
    not know. Neither shows the URL, which may hold a password.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        message = f"the URL of the {what} is not the URL of a database"
        # The parser's own error may quote the URL.
        raise UsageError(message, "write it as postgresql://user:password@host/database") from None
    if parsed.drivername in _DRIVERS:
        return parsed.set(drivername=_DRIVERS[parsed.drivername])
    if parsed.get_backend_name() not in {"sqlite", *_DRIVERS}:
        message = f"a {what} on {parsed.get_backend_name()} is not supported"
        raise UsageError(message, "use SQLite, MySQL, MariaDB or PostgreSQL")
    return parsed


def pin_sessions(engine: Engine) -> None:
    """Have each new connection of `engine` to a server set what we depend on, and read it back.

    Connecting then raises UnfitServerError for a session that does not take it,
    and UnavailableError for a connection that breaks over it.
    """
    is_postgres = engine.dialect.name == "postgresql"
    where = engine.url.render_as_string(hide_password=True)

    def pin(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        try:
            if is_postgres:
                cursor.execute(postgres_statement(POSTGRES_SESSION))
                rows = [(name, POSTGRES_SESSION[name], found) for name, found in cursor.fetchall()]
                cursor.execute(postgres_statement(POSTGRES_KEEPALIVE))
            else:
                cursor.execute(mysql_statement())
                cursor.execute(mysql_query())
                rows = list(cursor.fetchall())
                cursor.execute(MYSQL_KEEPALIVE)
            # Settings of a transaction that is rolled back are undone.
            connection.commit()
        except engine.dialect.loaded_dbapi.Error as error:
            message = f"{where} broke a connection off: {error}"
            raise UnavailableError(message, "check that the database runs and takes the login") from error
        finally:
            cursor.close()
        require_kept(where, rows)

    event.listen(engine, "connect", pin)
