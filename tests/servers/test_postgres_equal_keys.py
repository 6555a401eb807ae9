"""Listed keys that PostgreSQL takes for equal to a row's, and targets do not, are rows of targets that have to go."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.postgres_source_case import source_database

from penstock.adapters.postgres.source.publication import Publication
from penstock.adapters.postgres.source.row_reader import PostgresRowReader
from penstock.core.positions import WalPosition
from penstock.core.snapshots import SnapshotOptions
from penstock.core.tables import TableId
from penstock.ports.snapshots import ChunkOrder

if TYPE_CHECKING:
    from penstock.core.changes import RowBatch
    from penstock.dev.postgres import PostgresServer

TABLE = TableId("public", "t")


@pytest.mark.parametrize(
    ("type_", "there", "asked", "gone"),
    [
        ("text COLLATE loose", "ABC", ("ABC", "abc", "x"), ["abc", "x"]),
        ("numeric", "1.00", ("1.0", "1.00"), ["1.0"]),
        ("interval", "1 mon", ("30 days", "1 mon"), ["30 days"]),
        ("float8", "-0", ("0", "-0", "1.50"), [1.5]),
        ("float8", "NaN", ("NaN",), []),
        ("char(4)", "a", ("a", "a   ", "b"), ["b   "]),
        ("numeric(6,2)", "1", ("1", "1.0", "2"), ["2.00"]),
    ],
)
def test_a_key_is_gone_unless_a_row_has_its_very_text_or_value(
    postgres: PostgresServer, fresh_name: str, type_: str, there: str, asked: tuple[str, ...], gone: list[object]
) -> None:
    options = SnapshotOptions(keys=tuple(f'"{key}"' for key in asked))
    with source_database(postgres, fresh_name) as source:
        source.execute(
            "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
            f"CREATE TABLE t (id {type_} PRIMARY KEY, n int NOT NULL)",
            f"INSERT INTO t VALUES ('{there}', 1)",
        )
        source.publish()
        with closing(PostgresRowReader(source.login, Publication(source.name), "stop")) as reader:
            found = reader.define(TABLE, WalPosition(0), options)
            chunk = reader.read(ChunkOrder(found.schema, options, "", found.high, "0" * 12))

    assert chunk.rows is not None
    assert len(chunk.rows) == 1
    assert _keys(chunk.gone) == gone


def _keys(batch: RowBatch | None) -> list[object]:
    if batch is None:
        return []
    assert batch.before is not None
    return [each if isinstance(each, float) else str(each) for each in batch.before.column("id").to_pylist()]
