"""Rows of PostgreSQL of which few fit into memory at once are read again all the same."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.postgres_source_case import source_database

from penstock.adapters.postgres.source import row_reader
from penstock.adapters.postgres.source.publication import Publication
from penstock.adapters.postgres.source.row_reader import PostgresRowReader
from penstock.core.positions import WalPosition
from penstock.core.snapshots import SnapshotOptions
from penstock.core.tables import TableId
from penstock.ports.snapshots import Chunk, ChunkOrder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.dev.postgres import PostgresServer

ROWS = 40
TABLE = TableId("public", "t")


@pytest.fixture
def reader(postgres: PostgresServer, fresh_name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresRowReader]:
    """Of a table of which 9 rows fit into memory."""
    monkeypatch.setattr(row_reader, "_CHUNK_BYTES", 1_000_000)
    with source_database(postgres, fresh_name) as source:
        source.execute(
            "CREATE TABLE t (id int PRIMARY KEY, v text)",
            f"INSERT INTO t SELECT i, repeat('x', 120000) FROM generate_series(1, {ROWS}) i",
        )
        source.publish()
        with closing(PostgresRowReader(source.login, Publication(source.name), "stop")) as opened:
            yield opened


@pytest.mark.parametrize("ahead", [0, 3])
def test_a_chunk_that_does_not_fit_ends_where_it_has_to_and_the_next_one_goes_on_behind_it(
    reader: PostgresRowReader, ahead: int
) -> None:
    chunks = _read(reader, SnapshotOptions(chunk_rows=15), ahead)

    assert [_rows(each) for each in chunks] == [9, 9, 9, 9, 4]


@pytest.mark.parametrize("chunk_rows", [1, 4000])
def test_listed_keys_are_read_in_fewer_pieces_or_more_as_their_rows_fit(
    reader: PostgresRowReader, chunk_rows: int
) -> None:
    keys = tuple(str(number) for number in range(ROWS, -2, -1))

    chunks = _read(reader, SnapshotOptions(keys=keys, chunk_rows=chunk_rows))

    assert sum(map(_rows, chunks)) == ROWS
    assert sum(0 if each.gone is None else len(each.gone) for each in chunks) == 2
    # Half of what is left, and so on until no more than 9 are asked for: 5, 9, 7, 5, 8 and 8.
    assert len(chunks) == (6 if chunk_rows > 1 else ROWS + 2)


def _read(reader: PostgresRowReader, options: SnapshotOptions, ahead: int = 0) -> list[Chunk]:
    """Read the table chunk by chunk."""
    found = reader.define(TABLE, WalPosition(0), options)
    chunks, cursor = list[Chunk](), ""
    for _ in range(2 * ROWS):
        chunks.append(reader.read(ChunkOrder(found.schema, options, cursor, found.high, "0" * 12, ahead=ahead)))
        cursor = chunks[-1].cursor or ""
        if not cursor:
            break
    return chunks


def _rows(chunk: Chunk) -> int:
    return 0 if chunk.rows is None else len(chunk.rows)
