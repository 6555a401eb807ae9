"""Empty databases with a name of their own on servers that tests share."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import psycopg
from tests.servers.sessions import log_in

from penstock.dev.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pymysql

    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql


@contextlib.contextmanager
def state_database(
    server: MariadbServer | OracleMysql | PostgresServer, name: str, *, keep: bool = False
) -> Iterator[str]:
    """The URL of an empty database on `server`, dropped at the end unless the server goes away before."""
    if isinstance(server, PostgresServer):
        login = f"host={server.host} port={server.port} user={server.user} password={server.password} dbname=postgres"
        with contextlib.closing(psycopg.connect(login, autocommit=True, connect_timeout=10)) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
            yield f"postgresql://{server.user}:{server.password}@{server.host}:{server.port}/{name}"
            if not keep:
                connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
        return
    with fresh_schema(server, name, keep=keep):
        # To prepare TLS takes 50 ms of CPU for each connection.
        yield f"mysql://{server.user}:{server.password}@{server.host}:{server.port}/{name}?ssl_disabled=true"


@contextlib.contextmanager
def fresh_schema(server: MariadbServer | OracleMysql, name: str, *, keep: bool = False) -> Iterator[str]:
    """The name of an empty database on `server`, dropped at the end unless the server goes away before."""
    with _connected(server) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        yield name
        if not keep:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")


def _connected(server: MariadbServer | OracleMysql) -> contextlib.closing[pymysql.Connection]:
    """A connection that ends with its `with` block."""
    return contextlib.closing(log_in(server))
