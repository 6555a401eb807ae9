"""Large transactions of a PostgreSQL source, which the server sends while they run."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.servers.postgres_source_case import source_database

from penstock.adapters.postgres.source.slot import drop_slot
from penstock.adapters.postgres.source.stream import open_stream
from penstock.core.errors import UnavailableError
from penstock.core.postgres.log_items import RowLogged, RowsLogged, ShortTransactions, TablesTruncated, TransactionEnded
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


_SESSIONS: Final = 2
_STEPS: Final = {
    "insert": "INSERT INTO {own} (id, v) SELECT {next} + i, repeat('x', 60) FROM generate_series(1, 1500) i",
    "insert elsewhere": "INSERT INTO u SELECT {next} + i, repeat('x', 60) FROM generate_series(1, 1500) i",
    "update": "UPDATE {own} SET v = 'changed ' || id WHERE id % 3 = 0",
    "move": "UPDATE {own} SET id = -id WHERE id % 7 = 0",
    "delete": "DELETE FROM {own} WHERE id % 5 = 0",
    "large": "INSERT INTO {own} (id, v) VALUES ({next}, repeat('large', 9000))",
    "truncate": "TRUNCATE {own}",
    "add": "ALTER TABLE {own} ADD COLUMN c{next} int DEFAULT 7",
    "widen": "ALTER TABLE {own} ALTER id TYPE bigint",
    "savepoint": "SAVEPOINT s",
    "roll back": "ROLLBACK TO s",
    "release": "RELEASE s",
    "outside": "INSERT INTO u VALUES ({next}, 'small')",
}
"""What a transaction of a session with a table of its own does; the last is another session's."""


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


@st.composite
def _stories(draw: st.DrawFn) -> list[tuple[int, str]]:
    """Return which session does what, in order."""
    step = st.tuples(st.integers(0, _SESSIONS - 1), st.sampled_from(sorted(_STEPS)))
    told, depth = list[tuple[int, str]](), [0] * _SESSIONS
    for session, what in draw(st.lists(step, min_size=8, max_size=30)):
        # The session is in as many savepoints; to roll back to one keeps it.
        if what in {"roll back", "release"} and not depth[session]:
            continue
        depth[session] += {"savepoint": 1, "release": -1}.get(what, 0)
        told.append((session, what))
    return told + [(session, draw(st.sampled_from(["COMMIT", "COMMIT", "ROLLBACK"]))) for session in range(_SESSIONS)]


def _tell(source: SourceDatabase, story: list[tuple[int, str]]) -> None:
    with ExitStack() as stack:
        sessions = [stack.enter_context(closing(source.session())) for _ in range(_SESSIONS)]
        for session in sessions:
            session.execute("BEGIN")
        for number, (index, what) in enumerate(story):
            statement = _STEPS.get(what, what).format(own=f"own_{index}", next=10_000 * (number + 1))
            (source.connection if what == "outside" else sessions[index]).execute(statement.encode())


def _told(source: SourceDatabase, position: WalPosition, *, streaming: bool) -> list[object]:
    """What is in the log, row by row and commit by commit. Nothing is confirmed: the next one is sent the same."""
    stream = open_stream(source.login, source.name, [source.name], position, streaming=streaming)
    with closing(stream):
        items = source.read(stream)
    _wait_until_free(source)
    rows, ends = list[RowLogged](), list[int]()
    for item in items:
        match item:
            case RowLogged():
                rows.append(item)
            case RowsLogged():
                rows += rows_of(item)
            case ShortTransactions():
                # Those of each table come together.
                short = (row for run in item.rows for row in rows_of(run))
                rows += sorted(short, key=lambda row: row.serial)
                ends += item.ends
            case TransactionEnded():
                ends.append(item.end.lsn)
    serials = [row.serial for row in rows]
    assert serials == sorted(set(serials))
    truncated = [item for item in items if isinstance(item, TablesTruncated)]
    return [*truncated, *(replace(row, serial=0) for row in rows), *ends]


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

    streamed = _told(source, position, streaming=True)
    sent_early = _streamed_bytes(source)
    whole = _told(source, position, streaming=False)

    assert sent_early > 1 << 20
    assert streamed == whole
    assert len(whole) > 15_000


@pytest.mark.nightly
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(story=_stories())
def test_so_it_is_whatever_transactions_do(source: SourceDatabase, story: list[tuple[int, str]]) -> None:
    source.execute("TRUNCATE u", *(f"DROP TABLE IF EXISTS own_{index}" for index in range(_SESSIONS)))
    source.execute(*(f"CREATE TABLE own_{index} (id int PRIMARY KEY, v text)" for index in range(_SESSIONS)))
    drop_slot(source.login, source.name)
    with source.copy() as copy:
        position = copy.position
    _tell(source, story)

    assert _told(source, position, streaming=True) == _told(source, position, streaming=False)


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

    streamed = _told(source, position, streaming=True)
    sent_early = _streamed_bytes(source)
    whole = _told(source, position, streaming=False)

    assert sent_early > 0
    assert streamed == whole
    assert len(whole) > 6000


def test_a_disk_that_takes_nothing_is_told_with_what_to_do(source: SourceDatabase, tmp_path: Path) -> None:
    with source.copy() as copy:
        position = copy.position
    source.execute(f"INSERT INTO t {_MANY.format(0)}")

    gone = tmp_path / "gone"
    stream = open_stream(source.login, source.name, [source.name], position, folder=gone)
    with closing(stream), pytest.raises(UnavailableError, match="cannot be kept on this machine") as refused:
        source.read(stream)

    assert f"free room in {gone}; or write `streaming: false`" in refused.value.hint
