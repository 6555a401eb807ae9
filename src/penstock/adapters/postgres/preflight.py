"""Whether a PostgreSQL database can be a target."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import psycopg

from penstock.adapters.postgres.connection import connect, explain
from penstock.core.errors import UnfitServerError

if TYPE_CHECKING:
    from penstock.adapters.postgres.connection import PostgresServer

_OLDEST = 130_000
_PER_MAJOR = 10_000
_ENCODING = "UTF8"


def examine_database(server: PostgresServer) -> str:
    """Say what takes our login; nothing is changed.

    Raises UnfitServerError for a server that is too old, read-only, of another
    encoding, or that does not permit schemas to be created, and what `connect` raises.
    """
    with closing(connect(server)) as connection:
        try:
            return _examine(server, connection)
        except psycopg.Error as error:
            raise explain(server, error) from error


def _examine(server: PostgresServer, connection: psycopg.Connection) -> str:
    version = connection.info.server_version
    if version < _OLDEST:
        message = f"{server} is PostgreSQL {version // _PER_MAJOR}"
        raise UnfitServerError(message, f"use PostgreSQL {_OLDEST // _PER_MAJOR} or later")
    query = """
        SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
            has_database_privilege(current_database(), 'CREATE'), current_setting('server_encoding')"""
    for read_only, may_create, encoding in connection.execute(query).fetchall():
        if read_only:
            message = f"{server} takes no writes"
            raise UnfitServerError(message, "point the sink at the primary, or make the database writable")
        if encoding != _ENCODING:
            message = f"{server} keeps text as {encoding}, which lacks characters that sources have"
            raise UnfitServerError(message, f"use a database that was made with ENCODING '{_ENCODING}'")
        if not may_create:
            message = f"{server}: no privilege to create schemas"
            raise UnfitServerError(message, f"grant it: GRANT CREATE ON DATABASE {server.database} TO {server.user}")
    return f"PostgreSQL {version // _PER_MAJOR}.{version % _PER_MAJOR} takes the login, and creates schemas"
