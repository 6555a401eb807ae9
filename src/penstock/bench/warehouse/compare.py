"""Is every row of the source in a target, and no other? A bench that loads wrong rows has measured nothing."""

from __future__ import annotations

import itertools
from contextlib import closing
from typing import TYPE_CHECKING, Final, TypeAlias

import duckdb
import psycopg
from psycopg.conninfo import make_conninfo

from penstock.adapters.mysql.connection import ask, connect
from penstock.bench.capture.workload import login
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from penstock.core.tables import TableId
    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.mariadb import MariadbServer

COLUMNS: Final = "id, customer, quantity, price, ordered_at, remark, status, details"

Rows: TypeAlias = "Sequence[tuple[object, ...]]"
Ask: TypeAlias = "Callable[[str], Rows]"
"""Runs a query."""

_AT_ONCE: Final = 50_000


def require_equal(source: MariadbServer, table: TableId, what: str, query: str, ask_target: Ask) -> None:
    """Compare all rows with those of a target, whose `query` has a WHERE at its end; PenstockError if any differ."""
    columns = f"SELECT {COLUMNS} FROM {table} WHERE"  # noqa: S608 - names of ours
    with closing(connect(login(source))) as connection:
        last = int(ask(connection, f"SELECT COALESCE(MAX(id), 0) FROM {table}")[0][0])  # noqa: S608 - as above
        for low in range(0, last + 1, _AT_ONCE):
            # Open at the end: what is in the target alone is to be found, too.
            high = "" if low + _AT_ONCE > last else f" AND id < {low + _AT_ONCE}"
            where = f" id >= {low}{high} ORDER BY id"
            _compare(ask(connection, columns + where), ask_target(f"{query}{where}"), what)


def _compare(wanted: Rows, found: Rows, what: str) -> None:
    for one, other in itertools.zip_longest(wanted, found):
        if one is None or other is None or tuple(one) != tuple(other):
            message = f"{what} loaded wrong rows: the source has {one}, the target {other}"
            raise PenstockError(message, "its figures mean nothing; report it if these rows are Penstock's")


def require_equal_duckdb(source: MariadbServer, table: TableId, what: str, file: Path, name: str) -> None:
    """Compare with table `name` of a DuckDB file that nobody else has open."""
    # Peers may take a DATETIME for an instant in UTC.
    listed = COLUMNS.replace("ordered_at", "CAST(ordered_at AT TIME ZONE 'UTC' AS TIMESTAMP)")
    with duckdb.connect(str(file), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        kind = connection.execute(f"SELECT typeof(ordered_at) FROM {name} LIMIT 1").fetchone()  # noqa: S608 - names of ours
        listed = listed if kind == ("TIMESTAMP WITH TIME ZONE",) else COLUMNS
        query = f"SELECT {listed} FROM {name} WHERE"  # noqa: S608 - as above
        require_equal(source, table, what, query, lambda sql: connection.execute(sql).fetchall())


def require_equal_postgres(source: MariadbServer, table: TableId, what: str, place: PostgresPlace) -> None:
    """Compare with a table of PostgreSQL."""
    server, database, name = place
    with connect_postgres(server, database) as connection:
        query = f"SELECT {COLUMNS} FROM {name} WHERE"  # noqa: S608 - names of ours
        # Built from names and numbers of ours.
        require_equal(source, table, what, query, lambda sql: connection.execute(sql.encode()).fetchall())


PostgresPlace: TypeAlias = "tuple[PostgresServer, str, str]"
"""A server, a database and a table in it."""


def connect_postgres(server: PostgresServer, database: str) -> psycopg.Connection:
    """Connect as the user with all rights of a bench's own server, in autocommit mode."""
    conninfo = make_conninfo(
        host=server.host, port=server.port, user=server.user, password=server.password, dbname=database
    )
    return psycopg.connect(conninfo, autocommit=True)


def create_database(server: PostgresServer, database: str) -> None:
    """Make a database; it must not be there."""
    with connect_postgres(server, server.database) as connection:
        connection.execute(f'CREATE DATABASE "{database}"'.encode())
