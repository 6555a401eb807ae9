"""The rows that are captured from PostgreSQL: as those of bench/capture/workload.py, made by the server itself."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

import psycopg

from penstock.bench.capture.pipeline import Origin
from penstock.core.positions import WalPosition, parse_lsn
from penstock.dev.postgres import DATABASE

if TYPE_CHECKING:
    from penstock.bench.lab import Lab
    from penstock.core.tables import TableId
    from penstock.dev.postgres import PostgresServer

PUBLICATION: Final = "bench"
_TRANSACTION_ROWS: Final = 10_000
_CREATE: Final = """\
CREATE TABLE {table} (
  id bigint PRIMARY KEY,
  customer varchar(64) NOT NULL,
  quantity int NOT NULL,
  price numeric(12,2) NOT NULL,
  ordered_at timestamp(6) NOT NULL,
  remark text NOT NULL,
  status smallint NOT NULL,
  details text
)"""
_INSERT: Final = """\
INSERT INTO {table} SELECT n, 'customer ' || md5(n::text), n % 1000, (n % 10000000) / 7.0,
  timestamp '2026-01-01' + n * interval '1371 microseconds',
  'please ring twice, order ' || md5(n::text) || left(md5((n + 1)::text), 8), n % 5,
  CASE WHEN n % 3 = 0 THEN NULL ELSE 'visits ' || n % 9973 END
FROM generate_series({first}, {last}) AS n"""


def origin(lab: Lab) -> Origin:
    """The lab's PostgreSQL source."""
    server = lab.postgres_source()
    more = {"database": DATABASE, "publication": PUBLICATION}
    return Origin("postgres", server.host, server.port, server.user, server.password, more)


def create_table(server: PostgresServer, table: TableId) -> None:
    """Create an empty table in a schema of its own, which must not exist, and publish all tables."""
    _run(server, f"CREATE SCHEMA {table.schema}", _CREATE.format(table=table))
    if not int(_ask(server, "SELECT count(*) FROM pg_publication WHERE pubname = %s", PUBLICATION)):
        _run(server, f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES WITH (publish_via_partition_root = true)")


def write_bulk(server: PostgresServer, table: TableId, rows: int) -> None:
    """Insert rows in transactions of 10,000, each one statement."""
    there = int(_ask(server, f"SELECT coalesce(max(id), 0) FROM {table}"))  # noqa: S608 - our own name
    for first in range(there + 1, there + rows + 1, _TRANSACTION_ROWS):
        last = min(first + _TRANSACTION_ROWS - 1, there + rows)
        _run(server, _INSERT.format(table=table, first=first, last=last))


def write_one_by_one(server: PostgresServer, table: TableId, rows: int) -> None:
    """Insert rows, each in a transaction of its own."""
    there = int(_ask(server, f"SELECT coalesce(max(id), 0) FROM {table}"))  # noqa: S608 - our own name
    insert = _INSERT.format(table=table, first="i", last="i")
    _run(server, f"DO $$ BEGIN FOR i IN {there + 1} .. {there + rows} LOOP {insert}; COMMIT; END LOOP; END $$")


def make_slot(server: PostgresServer, name: str) -> WalPosition:
    """Make a slot; the position at which its log begins."""
    return WalPosition(
        parse_lsn(_ask(server, "SELECT lsn FROM pg_create_logical_replication_slot(%s, 'pgoutput')", name))
    )


def drop_slots(server: PostgresServer) -> None:
    """Drop what nobody reads any more, so that the server can let go of its log."""
    _run(server, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")


def version_of(server: PostgresServer) -> str:
    """The server's version."""
    return _ask(server, "SHOW server_version")


def _run(server: PostgresServer, *statements: str) -> None:
    with closing(_connect(server)) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def _ask(server: PostgresServer, query: str, *values: str) -> str:
    with closing(_connect(server)) as connection:
        row = connection.execute(query.encode(), values).fetchone()
    return "" if row is None else str(row[0])


def _connect(server: PostgresServer) -> psycopg.Connection:
    login = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    return psycopg.connect(dbname=DATABASE, autocommit=True, connect_timeout=10, **login)  # type: ignore[arg-type]  # the names are libpq's
