"""XA transactions on a real MariaDB: across files, restarts, disconnects, and while a copy is made."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.binlogs import purge_to
from tests.servers.source_log import address, connected, here, read_all, wanted

from penstock.adapters.mysql.initial_snapshot import open_initial_snapshot
from penstock.core.errors import LogPurgedError, UnfitServerError
from penstock.core.mysql.log.log_items import LogItem, TransactionBegan
from penstock.core.mysql.rows.decode import decode_rows
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.positions import BinlogPosition
from penstock.embedded.mariadb import start_mariadb
from penstock.ports.log import Stop

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pymysql

    from penstock.core.changes import RowBatch
    from penstock.embedded.mariadb import MariadbServer


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariadbServer]:
    """A server of this module's own, whose binlogs may be purged."""
    home: Path = tmp_path_factory.mktemp("xa")
    with start_mariadb(home) as server:
        yield server


@pytest.fixture
def cursor(source: MariadbServer) -> Iterator[pymysql.cursors.Cursor]:
    with closing(connected(source)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE DATABASE shop CHARACTER SET utf8mb4")
        cursor.execute("USE shop")
        cursor.execute("CREATE TABLE users (id INT PRIMARY KEY, name LONGTEXT)")
        cursor.execute("CREATE TABLE secret (id INT PRIMARY KEY)")
        yield cursor


def prepare(server: MariadbServer, name: str, *statements: str) -> None:
    """Prepare on a connection that is gone afterwards."""
    with closing(connected(server)) as connection, connection.cursor() as other:
        for statement in (f"XA START '{name}'", *statements, f"XA END '{name}'", f"XA PREPARE '{name}'"):
            other.execute(statement)


def work(server: MariadbServer, cursor: pymysql.cursors.Cursor) -> None:
    """XA transactions of every kind, across three files, with others between."""
    cursor.execute("INSERT INTO users VALUES (1, 'plain')")
    prepare(server, "first", "INSERT INTO shop.users VALUES (10, 'first'), (11, REPEAT('first', 5000))")
    prepare(server, "gone", "INSERT INTO shop.users VALUES (20, 'gone')")
    prepare(server, "other", "INSERT INTO shop.secret VALUES (1)")
    cursor.execute("FLUSH BINARY LOGS")
    cursor.execute("UPDATE users SET name = 'between' WHERE id = 1")
    prepare(server, "second", "DELETE FROM shop.users WHERE id = 1", "INSERT INTO shop.users VALUES (12, 'second')")
    cursor.execute("XA ROLLBACK 'gone'")
    cursor.execute("CREATE TABLE later (id INT PRIMARY KEY)")
    cursor.execute("FLUSH BINARY LOGS")
    cursor.execute("XA COMMIT 'second'")
    cursor.execute("XA COMMIT 'other'")
    cursor.execute("XA START 'once'")
    cursor.execute("INSERT INTO users VALUES (30, 'once')")
    cursor.execute("XA END 'once'")
    cursor.execute("XA COMMIT 'once' ONE PHASE")
    cursor.execute("XA COMMIT 'first'")
    cursor.execute("INSERT INTO users VALUES (40, 'after')")


def names_in(items: list[LogItem]) -> list[bytes]:
    names = (b"plain", b"between", b"second", b"once", b"first", b"after", b"gone")
    rows = [item.payload for item in items if isinstance(item, RowsLogged)]
    return [name for payload in rows for name in names if payload.endswith(name)]


def test_rows_appear_where_they_are_committed(source: MariadbServer, cursor: pymysql.cursors.Cursor) -> None:
    begin = here(cursor)
    work(source, cursor)

    items = read_all(source, begin)

    # The deleted row of 'second' ends in its old name, and comes at its commit too.
    assert names_in(items) == [b"plain", b"between", b"between", b"second", b"once", b"first", b"first", b"after"]
    ends = [item.end for item in items if not isinstance(item, RowsLogged | TransactionBegan)]
    assert ends[-1].prepared == ()
    assert max(len(end.prepared) for end in ends) == 4


def test_from_every_position_exactly_what_is_left_comes(source: MariadbServer, cursor: pymysql.cursors.Cursor) -> None:
    begin = here(cursor)
    work(source, cursor)
    whole = read_all(source, begin)
    boundary, began = begin, None

    for index, item in enumerate(whole):
        match item:
            case TransactionBegan():
                began = item
            case RowsLogged():
                assert began is not None
                position = BinlogPosition(began.file, began.offset, item.rows_from, boundary.gtids, boundary.prepared)
                assert without_gtids(read_all(source, position)) == without_gtids([began, *whole[index:]])
            case _:
                boundary = item.end
                rest = without_gtids(read_all(source, boundary))
                assert rest == without_gtids(whole[index + 1 :] or [item])


def without_gtids(items: list[LogItem]) -> list[object]:
    return [item if isinstance(item, RowsLogged | TransactionBegan) else item.end.order for item in items]


def test_a_file_is_read_to_its_end_from_a_position_that_needs_an_earlier_one(
    source: MariadbServer, cursor: pymysql.cursors.Cursor
) -> None:
    begin = here(cursor)
    work(source, cursor)
    whole = read_all(source, begin)

    parts, position = [], begin
    while (items := read_all(source, position, Stop.END_OF_FILE)) and not isinstance(items[-1], RowsLogged):
        parts += items
        last = items[-1]
        assert not isinstance(last, TransactionBegan)
        if last.end.file == position.file:
            break
        position = last.end

    assert parts == whole


@pytest.mark.nightly
def test_a_copy_waits_for_what_is_prepared_and_names_what_stays_so(
    source: MariadbServer, cursor: pymysql.cursors.Cursor
) -> None:
    prepare(source, "stays", "INSERT INTO shop.users VALUES (1, 'stays')")
    try:
        with (
            pytest.raises(UnfitServerError, match="stay prepared: 'stays'") as caught,
            open_initial_snapshot(address(source), wanted),
        ):
            pass
    finally:
        cursor.execute("XA ROLLBACK 'stays'")

    assert "XA RECOVER" in caught.value.hint


def test_a_copy_and_the_log_behind_it_miss_no_xa_transaction(
    source: MariadbServer, cursor: pymysql.cursors.Cursor
) -> None:
    stop = threading.Event()
    writers = [threading.Thread(target=keep_preparing, args=(source, stop, number)) for number in range(4)]
    for writer in writers:
        writer.start()
    copied: list[list[int]] = []
    positions: list[BinlogPosition] = []
    try:
        for _ in range(8):
            with open_initial_snapshot(address(source), wanted) as copy:
                table = next(iter(copy.schemas))
                copied.append(keys_of(copy.rows(table, 1000)))
                positions.append(copy.position)
                schema = copy.schemas[table]
    finally:
        stop.set()
        for writer in writers:
            writer.join()

    cursor.execute("SELECT id FROM users")
    keys = sorted(key for (key,) in cursor.fetchall())
    assert any(position.prepared for position in positions)
    for position, found in zip(positions, copied, strict=True):
        logged = [item for item in read_all(source, position) if isinstance(item, RowsLogged)]
        assert sorted(found + keys_of(decode_rows(schema, [item]) for item in logged)) == keys


def test_a_copy_that_may_not_hold_xa_transactions_up_says_so(
    source: MariadbServer, cursor: pymysql.cursors.Cursor
) -> None:
    cursor.execute("CREATE OR REPLACE USER modest@'127.0.0.1' IDENTIFIED BY 'secret'")
    cursor.execute("GRANT SELECT, SHOW VIEW, TRIGGER ON *.* TO modest@'127.0.0.1'")
    cursor.execute("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO modest@'127.0.0.1'")
    modest = replace(address(source), user="modest", password="secret")
    with open_initial_snapshot(modest, wanted):
        pass
    stop = threading.Event()
    writer = threading.Thread(target=keep_preparing, args=(source, stop, 0))
    writer.start()
    try:
        with pytest.raises(UnfitServerError, match="may not") as caught, open_initial_snapshot(modest, wanted):
            pass
    finally:
        stop.set()
        writer.join()

    assert "GRANT RELOAD" in caught.value.hint


def keys_of(batches: Iterable[RowBatch]) -> list[int]:
    """The ids of rows that came to be."""
    return [int(key or 0) for batch in batches if batch.after for key in batch.after["id"].to_pylist()]


def keep_preparing(server: MariadbServer, stop: threading.Event, number: int) -> None:
    with closing(connected(server)) as connection, connection.cursor() as cursor:
        key = number
        while not stop.is_set():
            key += 10
            cursor.execute(f"XA START 'w{key}'")
            cursor.execute(f"INSERT INTO shop.users VALUES ({key}, 'x')")
            cursor.execute(f"XA END 'w{key}'")
            cursor.execute(f"XA PREPARE 'w{key}'")
            # Some commit at once, while copies begin.
            stop.wait(0.02 * (number // 2))
            cursor.execute(f"XA COMMIT 'w{key}'")


def test_what_is_prepared_in_a_log_that_was_purged_is_named(
    source: MariadbServer, cursor: pymysql.cursors.Cursor
) -> None:
    begin = here(cursor)
    prepare(source, "old", "INSERT INTO shop.users VALUES (1, 'old')")
    cursor.execute("FLUSH BINARY LOGS")
    last = read_all(source, begin)[-1]
    assert not isinstance(last, RowsLogged | TransactionBegan)
    purge_to(cursor, last.end.file)

    with pytest.raises(LogPurgedError, match="still prepared"):
        read_all(source, last.end)

    cursor.execute("XA ROLLBACK 'old'")
