"""Large transactions of a PostgreSQL source, which the server sends while they run."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from tests.servers.postgres_source_case import source_database

from penstock.adapters.postgres.source.stream import open_stream
from penstock.core.errors import UnavailableError
from penstock.core.postgres.log_items import PostgresItem, RelationSeen, RowLogged, RowsLogged
from penstock.core.postgres.runs import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.postgres_source_case import SourceDatabase

    from penstock.core.positions import WalPosition
    from penstock.dev.postgres import PostgresServer

_SECONDS: Final = 60.0
_TABLES: Final = (
    "CREATE TABLE t (id int PRIMARY KEY, v text)",
    "CREATE TABLE u (id int PRIMARY KEY, v text)",
    "ALTER TABLE t ALTER v SET STORAGE EXTERNAL",
)
_MANY: Final = "SELECT i, repeat('x', 80) FROM generate_series({0}, {0} + 2999) i"


@pytest.fixture
def source(postgres: PostgresServer, fresh_name: str) -> Iterator[SourceDatabase]:
    with source_database(postgres, fresh_name) as database:
        database.execute(*_TABLES)
        database.publish()
        yield database


def _write(source: SourceDatabase) -> None:
    """Large transactions among each other and small ones: with rolled-back parts, other columns, and large values."""
    with closing(source.session()) as one, closing(source.session()) as two, closing(source.session()) as three:
        for session in (one, two, three):
            session.execute("BEGIN")
        one.execute(f"INSERT INTO t {_MANY.format(0)}".encode())
        two.execute(f"INSERT INTO u {_MANY.format(0)}".encode())
        source.execute("INSERT INTO u VALUES (-1, 'small')")
        one.execute("SAVEPOINT a")
        one.execute("ALTER TABLE t ADD COLUMN w int DEFAULT 7")
        one.execute(f"INSERT INTO t (id, v) {_MANY.format(5000)}".encode())
        one.execute("SAVEPOINT b")
        one.execute("UPDATE t SET v = 'never'")
        one.execute("ROLLBACK TO a")
        three.execute(f"INSERT INTO u {_MANY.format(10000)}".encode())
        one.execute("INSERT INTO t VALUES (-1, repeat('large', 50000))")
        one.execute("UPDATE t SET id = -2 WHERE id = -1")
        one.execute("SAVEPOINT c")
        one.execute("UPDATE t SET v = 'kept' WHERE id % 3 = 0")
        one.execute("RELEASE c")
        two.execute(f"DELETE FROM u WHERE id BETWEEN 0 AND 2000; INSERT INTO u {_MANY.format(20000)}".encode())
        three.execute("ROLLBACK")
        source.execute("UPDATE u SET v = 'small' WHERE id = -1", "CREATE TABLE x (id int PRIMARY KEY)")
        one.execute("INSERT INTO x SELECT generate_series(1, 9000); TRUNCATE x; ALTER TABLE t ADD COLUMN z text")
        one.execute("INSERT INTO t SELECT 50000 + i, 'wide', 'z' FROM generate_series(1, 3000) i")
        one.execute("COMMIT")
        two.execute("COMMIT")
    source.execute("INSERT INTO t VALUES (-9, 'last', 'z')", "DELETE FROM u WHERE id = -1")


def _items(source: SourceDatabase, position: WalPosition, *, streaming: bool) -> list[PostgresItem]:
    """What is in the log, row by row. Nothing is confirmed: the next one is sent the same."""
    stream = open_stream(source.login, source.name, [source.name], position, streaming=streaming)
    with closing(stream):
        items = source.read(stream)
    _wait_until_free(source)
    kept: list[PostgresItem] = []
    for item in items:
        kept += rows_of(item) if isinstance(item, RowsLogged) else [item]
    return [item for item in kept if not isinstance(item, RelationSeen)]


def _wait_until_free(source: SourceDatabase) -> None:
    until = time.monotonic() + _SECONDS
    query = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"
    while time.monotonic() < until and source.connection.execute(query, (source.name,)).fetchone() != (False,):
        time.sleep(0.05)


def _streamed_bytes(source: SourceDatabase) -> int:
    until, query = (
        time.monotonic() + _SECONDS,
        "SELECT stream_bytes FROM pg_stat_replication_slots WHERE slot_name = %s",
    )
    while time.monotonic() < until:
        row = source.connection.execute(query, (source.name,)).fetchone()
        if row is not None and row[0]:
            return int(row[0])
        time.sleep(0.1)
    return 0


def test_what_comes_while_it_runs_is_what_comes_at_its_commit_wherever_a_stream_begins(
    source: SourceDatabase,
) -> None:
    with source.copy() as copy:
        position = copy.position
    _write(source)

    streamed = _items(source, position, streaming=True)
    sent_early = _streamed_bytes(source)
    whole = _items(source, position, streaming=False)

    assert sent_early > 1 << 20
    assert streamed == whole
    assert len(whole) > 15_000


def test_what_the_server_cannot_tell_while_it_runs_comes_at_its_commit(source: SourceDatabase) -> None:
    with source.copy() as copy:
        position = copy.position
    source.execute("INSERT INTO t VALUES (-1, 'before')")
    with closing(source.session()) as session, session.transaction():
        session.execute(f"INSERT INTO t {_MANY.format(0)}".encode())
        session.execute(
            "SAVEPOINT a; ALTER TABLE t ADD COLUMN w int; INSERT INTO t VALUES (-2, 'never'); ROLLBACK TO a"
        )
        session.execute(f"INSERT INTO t {_MANY.format(5000)}".encode())
        session.execute("ALTER TABLE t ADD COLUMN z int; INSERT INTO t VALUES (-3, 'kept', 1)")
    source.execute("INSERT INTO t VALUES (-4, 'behind', 2)")

    streamed = _items(source, position, streaming=True)
    sent_early = _streamed_bytes(source)
    whole = _items(source, position, streaming=False)

    assert sent_early > 0
    assert [replace(item, serial=0) if isinstance(item, RowLogged) else item for item in streamed] == [
        replace(item, serial=0) if isinstance(item, RowLogged) else item for item in whole
    ]
    serials = [item.serial for item in streamed if isinstance(item, RowLogged)]
    assert serials == sorted(set(serials))
    assert len(serials) == 6003


def test_a_disk_that_takes_nothing_is_told_with_what_to_do(source: SourceDatabase, tmp_path: Path) -> None:
    with source.copy() as copy:
        position = copy.position
    source.execute(f"INSERT INTO t {_MANY.format(0)}")

    gone = tmp_path / "gone"
    stream = open_stream(source.login, source.name, [source.name], position, folder=gone)
    with closing(stream), pytest.raises(UnavailableError, match="cannot be kept on this machine") as refused:
        source.read(stream)

    assert f"free room in {gone}; or write `streaming: false`" in refused.value.hint
