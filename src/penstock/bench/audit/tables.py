"""The tables that are compared: one in MariaDB, and its copies in PostgreSQL and DuckDB, which get other rows."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

import duckdb
import pyarrow as pa

from penstock.adapters.mysql.connection import ask, connect
from penstock.adapters.postgres.connection import PostgresServer
from penstock.adapters.postgres.connection import connect as connect_postgres
from penstock.bench.capture.workload import create_table, login, write_bulk
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import psycopg

    from penstock.bench.lab import Lab
    from penstock.dev.postgres import PostgresServer as RunningPostgres

TABLE: Final = TableId("bench_audit", "orders")
COLUMNS: Final = ("id", "customer", "quantity", "price", "ordered_at", "remark", "status", "details")
_ROWS_AT_ONCE: Final = 10_000
_DEFINITIONS: Final = (
    "id BIGINT NOT NULL PRIMARY KEY, customer VARCHAR(64), quantity INTEGER, price DECIMAL(12,2),"
    " ordered_at TIMESTAMP(6), remark TEXT, status INTEGER, details TEXT"
)


def duckdb_file(lab: Lab) -> Path:
    """Where DuckDB's copy is."""
    return lab.home / "audit.duckdb"


def make_tables(lab: Lab) -> None:
    """Write the rows into MariaDB, and copy them."""
    create_table(lab.source(), TABLE)
    write_bulk(lab.source(), TABLE, lab.settings.rows)
    with (
        closing(open_postgres(lab.postgres())) as postgres,
        closing(duckdb.connect(str(duckdb_file(lab)))) as file,
        postgres.cursor() as cursor,
    ):
        for statement in (f"CREATE SCHEMA {TABLE.schema}", f"CREATE TABLE {TABLE} ({_DEFINITIONS})"):
            postgres.execute(statement.encode())
            file.execute(statement)
        for rows in _read(lab):
            with cursor.copy(f"COPY {TABLE} FROM STDIN".encode()) as copy:
                for row in rows:
                    copy.write_row(row)
            arrived = pa.table([pa.array(column) for column in zip(*rows, strict=True)], names=list(COLUMNS))
            file.register("arrived", arrived)
            file.execute(f"INSERT INTO {TABLE} SELECT * FROM arrived")  # noqa: S608 - our own names
            file.unregister("arrived")
        postgres.execute("VACUUM ANALYZE")
    with closing(connect(login(lab.source()))) as connection:
        ask(connection, f"ANALYZE TABLE {TABLE}")


def change_rows(lab: Lab, count: int, by: int) -> None:
    """Add `by` to a value of `count` rows, which are spread over the table, in both copies."""
    step = lab.settings.rows // max(count, 1)
    change = f"UPDATE {TABLE} SET price = price + ({by}) WHERE id % {step} = 1 AND id <= {count * step}"  # noqa: S608 - our own names
    with closing(open_postgres(lab.postgres())) as postgres, closing(duckdb.connect(str(duckdb_file(lab)))) as file:
        postgres.execute(change.encode())
        postgres.execute(f"VACUUM ANALYZE {TABLE}".encode())
        file.execute(change)


def open_postgres(server: RunningPostgres) -> psycopg.Connection:
    """A connection to the target, each statement by itself."""
    return connect_postgres(PostgresServer(server.host, server.port, server.database, server.user, server.password, {}))


def _read(lab: Lab) -> Iterator[Sequence[Sequence[object]]]:
    """Yield the rows of the source, some thousands at a time."""
    with closing(connect(login(lab.source()))) as connection:
        for first in range(1, lab.settings.rows + 1, _ROWS_AT_ONCE):
            last = first + _ROWS_AT_ONCE - 1
            yield ask(connection, f"SELECT * FROM {TABLE} WHERE id BETWEEN {first} AND {last}")  # noqa: S608 - our own names
