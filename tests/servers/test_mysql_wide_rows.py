"""Listed rows of MySQL and MariaDB of which few fit into memory are read again all the same."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.sessions import log_in
from tests.servers.source_log import address

from penstock.adapters.mysql import printed_rows
from penstock.adapters.mysql.history import end_of_log
from penstock.adapters.mysql.row_reader import MysqlRowReader
from penstock.core.snapshots import SnapshotOptions
from penstock.core.table_policy import DEFAULT_POLICY
from penstock.core.tables import TableId
from penstock.ports.snapshots import Chunk, ChunkOrder

if TYPE_CHECKING:
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

ROWS = 40


@pytest.mark.parametrize("chunk_rows", [1, 4000])
@pytest.mark.parametrize(
    "any_source", ["mariadb", pytest.param("mysql_server", marks=pytest.mark.nightly)], indirect=True
)
def test_listed_keys_are_read_in_fewer_pieces_or_more_as_their_rows_fit(
    any_source: MariadbServer | OracleMysql, database: str, monkeypatch: pytest.MonkeyPatch, chunk_rows: int
) -> None:
    monkeypatch.setattr(printed_rows, "_BATCH_BYTES", 1_000_000)
    with closing(log_in(any_source, database)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
        cursor.executemany("INSERT INTO t VALUES (%s, REPEAT('x', 120000))", [(number + 1,) for number in range(ROWS)])
        low = end_of_log(connection)
    options = SnapshotOptions(keys=tuple(str(number) for number in range(ROWS, -2, -1)), chunk_rows=chunk_rows)
    chunks, place = list[Chunk](), ""

    with closing(MysqlRowReader(address(any_source), DEFAULT_POLICY, "0a")) as reader:
        schema = reader.define(TableId(database, "t"), low, options).schema
        for _ in range(2 * ROWS):
            chunks.append(reader.read(ChunkOrder(schema, options, place, low, "0" * 12)))
            place = chunks[-1].cursor or ""
            if not place:
                break

    assert sum(0 if each.rows is None else len(each.rows) for each in chunks) == ROWS
    assert sum(0 if each.gone is None else len(each.gone) for each in chunks) == 2
    assert len(chunks) == ROWS + 2 if chunk_rows == 1 else 3 < len(chunks) < ROWS
