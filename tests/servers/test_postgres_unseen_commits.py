"""What a reader of PostgreSQL's rows knows of transactions that are in the log, and that others may not see yet."""

from __future__ import annotations

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
from penstock.links.capture.postgres.registered_catalog import RegisteredCatalog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.postgres_source_case import SourceDatabase

    from penstock.dev.postgres import PostgresServer


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
