"""The demo's marketplace in PostgreSQL: filled, changed, and compared."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.postgres.connection import PostgresServer
from penstock.demo.marketplace import Sizes, fill
from penstock.demo.marks import write_end_marks
from penstock.demo.sources.pick import database_of
from penstock.demo.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.dev.postgres import PostgresServer as Running

_ROWS = 3_000


@pytest.fixture
def server(postgres: Running, fresh_name: str) -> Iterator[PostgresServer]:
    """A database of its own."""
    tls = {"sslmode": "disable"}
    login = PostgresServer(postgres.host, postgres.port, postgres.database, postgres.user, postgres.password, tls)
    with closing(database_of(login).connect()) as admin:
        admin.autocommit = True  # type: ignore[attr-defined]  # psycopg's
        with admin.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {fresh_name}")
            yield PostgresServer(login.host, login.port, fresh_name, login.user, login.password, tls)
            cursor.execute(f"DROP DATABASE {fresh_name} WITH (FORCE)")


def test_the_workload_on_postgres_comes_to_its_end_and_says_what_it_did(server: PostgresServer) -> None:
    sizes = fill(server, _ROWS)
    workload = Workload(server, sizes, seconds=3.0, seed=1, rate=2_000)

    workload.start()
    workload._thread.join(60)
    workload.stop()

    progress = workload.progress()
    assert progress.error == ""
    assert progress.share_done == 1.0
    assert len(progress.schema_changes) == 4
    assert set(progress.newest) == set(progress.changes) >= {"bookings", "audit_log"}


def test_the_same_seed_fills_the_same_rows_on_postgres(server: PostgresServer) -> None:
    first, rows = fill(server, _ROWS, seed=5), _rows(server)
    fill(server, _ROWS, seed=5)
    again = _rows(server)

    assert rows == again
    assert {table: len(found) for table, found in rows.items()} == {
        name: getattr(first, name) for name in Sizes.__dataclass_fields__
    }


def test_end_marks_on_postgres_are_in_every_table(server: PostgresServer) -> None:
    fill(server, _ROWS)

    marks = write_end_marks(server, 3)

    assert set(marks.conditions) == {"ad_packages", "audit_log", "businesses", "reviews", "users"}
    with closing(database_of(server).connect()) as connection, connection.cursor() as cursor:
        for table, condition in marks.conditions.items():
            assert cursor.execute(f"SELECT 1 FROM shop.{table} WHERE {condition}").fetchall() == [(1,)]


def _rows(server: PostgresServer) -> dict[str, list[tuple[object, ...]]]:
    with database_of(server).open_snapshot("shop") as snapshot:
        return {table.name: list(snapshot.read(table)) for table in snapshot.tables()}
