"""URLs of databases that keep our own tables, and the driver that each kind of them is reached by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from sqlalchemy import URL

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
