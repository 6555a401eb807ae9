"""A real MariaDB that compresses its binlog: the same changes as without."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.sessions import log_in
from tests.servers.source_log import address, here, read_all

from penstock.adapters.mysql.catalog import read_tables
from penstock.adapters.mysql.connection import connect
from penstock.bench.known_tables import KnownTables
from penstock.core.mysql.log.log_items import LogItem, StatementLogged, TransactionBegan, TransactionEnded
from penstock.core.mysql.rows.decode import decode_rows
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.positions import BinlogPosition
from penstock.core.schema_changes import SchemaChange
from penstock.core.tables import TableId, TableSchema
from penstock.embedded.mariadb import start_mariadb
from penstock.links.capture.collector import ChangeCollector
from penstock.links.capture.mysql import log_reading
from penstock.links.capture.mysql.log_reading import BinlogReading
from penstock.links.capture.table_catalog import TableCatalog

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pymysql

    from penstock.core.changes import RowBatch
    from penstock.core.mysql.rows.rows_block import RowsBlock
    from penstock.embedded.mariadb import MariadbServer

LONG_COMMENT = "a comment that is worth compressing " * 20


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariadbServer]:
    """A server of this module's own, whose settings may be changed."""
    home: Path = tmp_path_factory.mktemp("compressing")
    with start_mariadb(home) as server:
        yield server


@pytest.fixture
def cursor(source: MariadbServer) -> Iterator[pymysql.cursors.Cursor]:
    connection = log_in(source)
    with closing(connection), connection.cursor() as cursor:
        yield cursor
        cursor.execute("SET GLOBAL log_bin_compress = OFF, GLOBAL log_bin_compress_min_len = DEFAULT")


def event_types(cursor: pymysql.cursors.Cursor, begin: BinlogPosition) -> set[str]:
    cursor.execute(f"SHOW BINLOG EVENTS IN '{begin.file}' FROM {begin.offset}")
    return {str(row[2]) for row in cursor.fetchall()}


def work(cursor: pymysql.cursors.Cursor) -> None:
    """Every op, on rows that compress well and on others, with DDL, rollbacks and other tables."""
    cursor.execute("CREATE OR REPLACE DATABASE shop CHARACTER SET utf8mb4")
    cursor.execute("USE shop")
    cursor.execute(f"CREATE TABLE users (id INT PRIMARY KEY, name LONGTEXT COMMENT '{LONG_COMMENT}')")
    cursor.execute("CREATE TABLE secret (id INT, name LONGTEXT)")
    cursor.execute("INSERT INTO users VALUES (1, 'a'), (2, REPEAT('b', 20000)), (3, NULL)")
    cursor.execute("INSERT INTO secret VALUES (1, REPEAT('c', 20000))")
    cursor.execute("BEGIN")
    cursor.execute("UPDATE users SET name = REPEAT('d', 5000) WHERE id < 3")
    cursor.execute("SAVEPOINT `a savepoint with a name that is long enough to be compressed, as it is so long`")
    cursor.execute("INSERT INTO users SELECT seq, REPEAT('e', seq) FROM seq_100_to_2000")
    cursor.execute("DELETE FROM users WHERE id % 7 = 1")
    cursor.execute("COMMIT")
    cursor.execute(f"ALTER TABLE users ADD age INT COMMENT '{LONG_COMMENT}', ADD INDEX (age)")
    cursor.execute("REPLACE INTO users VALUES (2, REPEAT('f', 3000), 7)")
    cursor.execute("CREATE TABLE copied AS SELECT * FROM users WHERE id < 1000")
    cursor.execute("DELETE FROM users")


def what_happened(items: list[LogItem]) -> list[object]:
    """The items without what differs between two runs: places, times and GTIDs."""
    happened: list[object] = []
    for item in items:
        match item:
            case RowsLogged():
                happened.append((item.table_map.table, item.op, item.payload))
            case StatementLogged():
                happened.append((item.sql, item.default_schema))
            case TransactionBegan() | TransactionEnded():
                happened.append(type(item))
            case _:
                pass
    return happened


@pytest.mark.parametrize("shortest", [10, 256, 1024])
def test_a_compressed_log_holds_the_same_changes(
    source: MariadbServer, cursor: pymysql.cursors.Cursor, shortest: int
) -> None:
    begin_plain = here(cursor)
    work(cursor)
    plain = read_all(source, begin_plain)

    cursor.execute("SET GLOBAL log_bin_compress = ON, GLOBAL log_bin_compress_min_len = %s", (shortest,))
    begin = here(cursor)
    work(cursor)
    compressed = read_all(source, begin)

    assert {
        "Query_compressed",
        "Write_rows_compressed_v1",
        "Update_rows_compressed_v1",
        "Delete_rows_compressed_v1",
    } <= event_types(cursor, begin)
    assert len(plain) > 20
    assert what_happened(compressed) == what_happened(plain)


def test_every_compressed_event_is_a_place_to_go_on_from(source: MariadbServer, cursor: pymysql.cursors.Cursor) -> None:
    cursor.execute("SET GLOBAL log_bin_compress = ON, GLOBAL log_bin_compress_min_len = 10")
    begin = here(cursor)
    work(cursor)
    whole = read_all(source, begin)

    for index, item in enumerate(whole):
        if isinstance(item, RowsLogged) and index % 5 == 0:
            began = max(i for i in range(index) if isinstance(whole[i], TransactionBegan))
            start = whole[began]
            assert isinstance(start, TransactionBegan)
            rest = read_all(source, BinlogPosition(start.file, start.offset, item.offset))
            assert what_happened(rest) == what_happened([start, *whole[index:]])


@pytest.mark.parametrize(
    ("type_", "bound", "factor"),
    [("MEDIUMBLOB COMPRESSED", "_INFLATING_BYTES_MAX", 16), ("BINARY(255)", "_PADDED_BYTES_MAX", 1)],
)
def test_values_that_are_longer_than_in_the_log_are_decoded_in_parts_that_fit(
    source: MariadbServer,
    cursor: pymysql.cursors.Cursor,
    monkeypatch: pytest.MonkeyPatch,
    type_: str,
    bound: str,
    factor: int,
) -> None:
    cursor.execute("CREATE OR REPLACE DATABASE shop")
    cursor.execute("USE shop")
    cursor.execute(f"CREATE TABLE pages (id INT PRIMARY KEY, plain TEXT, body {type_})")
    begin = here(cursor)
    cursor.execute("INSERT INTO pages SELECT seq, 'p', RPAD(seq, 255, '\\0') FROM seq_1_to_3000")
    table = TableId("shop", "pages")
    with closing(connect(address(source))) as connection:
        schema = read_tables(connection, [table])[table]
    rows = [item for item in read_all(source, begin) if isinstance(item, RowsLogged)]
    monkeypatch.setattr(log_reading, bound, 10_000)
    batches: list[RowBatch] = []

    def decoded(schema: TableSchema, events: Sequence[RowsLogged | RowsBlock]) -> RowBatch:
        assert sum(event.size_bytes for event in events) <= 10_000
        batches.append(decode_rows(schema, events))
        return batches[-1]

    monkeypatch.setattr(log_reading, "decode_rows", decoded)
    gathering = ChangeCollector(catalog_of(schema), {}, BinlogReading(begin))
    for event in rows:
        gathering.add(event)
    weighed = gathering.bytes
    publication = gathering.take(begin, here(cursor))

    assert len(batches) > 2
    assert publication.rows == {"shop.pages": (3000, publication.timestamp_ms)}
    assert [row for batch in batches if batch.after for row in batch.after.to_pylist()] == [
        {"id": number, "plain": "p", "body": b"%d" % number + bytes(255 - len(f"{number}"))}
        for number in range(1, 3001)
    ]
    assert weighed == factor * sum(event.size_bytes for event in rows)


def catalog_of(schema: TableSchema) -> TableCatalog:
    known = KnownTables({schema.table: schema})
    announced = SchemaChange("bench", schema.table, "pages", "", 1, 2, 1, (0, 0, -1))
    return TableCatalog("bench", known, known, [announced], lambda table: table == schema.table)
