"""What a reader of PostgreSQL's rows knows of transactions that are in the log, and that others may not see yet."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.postgres_source_case import source_database

from penstock.adapters.postgres.source.publication import Publication
from penstock.adapters.postgres.source.relations import PostgresRelations
from penstock.adapters.postgres.source.row_reader import PostgresRowReader
from penstock.core.errors import UnavailableError
from penstock.core.snapshots import SnapshotOptions
from penstock.core.tables import TableId
from penstock.dev.postgres import start_postgres
from penstock.links.capture.postgres.registered_catalog import RegisteredCatalog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.postgres_source_case import SourceDatabase

    from penstock.dev.postgres import PostgresServer

WAITING = b"SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture
def source(postgres: PostgresServer, fresh_name: str) -> Iterator[SourceDatabase]:
    with source_database(postgres, fresh_name) as source:
        source.execute("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
        source.publish()
        yield source


def read_chunk(source: SourceDatabase, unseen: RegisteredCatalog) -> None:
    """Do as for a chunk, up to its snapshot."""
    with closing(PostgresRowReader(source.login, Publication(source.name), "stop", unseen)) as reader:
        reader.check(TableId("public", "t"), SnapshotOptions())


def open_catalog(source: SourceDatabase) -> RegisteredCatalog:
    return RegisteredCatalog(PostgresRelations(source.login, source.name), "stop")


def test_what_a_chunk_has_seen_is_forgotten_and_what_it_has_not_is_waited_for(
    source: SourceDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.adapters.postgres.source.visibility._SECONDS", 0.2)
    unseen = open_catalog(source)
    with closing(source.session()) as other, other.transaction():
        (row,) = other.execute("SELECT pg_current_xact_id()::xid::text::bigint").fetchall()
        open_one = int(row[0])
        unseen.saw_commits([open_one - 1, open_one])

        with pytest.raises(UnavailableError, match="not to be seen by others yet"):
            read_chunk(source, unseen)

        assert unseen.committed() == (open_one,)
    read_chunk(source, unseen)
    assert unseen.committed() == ()


@pytest.mark.nightly
def test_a_commit_that_waits_for_a_standby_is_waited_for_by_who_was_not_told_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.adapters.postgres.source.visibility._SECONDS", 0.5)
    with (
        start_postgres(tmp_path / "server") as server,
        source_database(server, "shop") as source,
        closing(source.session()) as idle,
        ThreadPoolExecutor(1) as threads,
    ):
        source.execute("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
        source.publish()
        source.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
        # One that nobody commits is in no log.
        idle.execute("BEGIN")
        idle.execute("UPDATE t SET v = 3 WHERE id = 2")
        commits = threads.submit(write, source, "UPDATE t SET v = 9 WHERE id = 1")
        try:
            while source.connection.execute(WAITING).fetchall() != [(1,)]:
                assert not commits.done()
            with pytest.raises(UnavailableError, match="not to be seen by others yet"):
                read_chunk(source, open_catalog(source))
        finally:
            source.execute("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        commits.result(60)

        read_chunk(source, open_catalog(source))


def write(source: SourceDatabase, statement: str) -> None:
    with closing(source.session()) as session:
        session.execute(statement.encode())
