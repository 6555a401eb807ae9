"""A real server's binlog, followed to its ends, resumed everywhere, and cut off in every way."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.binlogs import purge_to
from tests.servers.source_log import address, connected, read_all, wanted
from tests.unit.mysql_log.single_items import one_by_one

from penstock.adapters.mysql.binlog_stream import BinlogStream, open_binlog
from penstock.adapters.mysql.connection import MysqlServer, connect
from penstock.adapters.mysql.history import head
from penstock.core.errors import LogError, LogPurgedError, UnavailableError, UnfitServerError
from penstock.core.mysql.log.log_items import LogAdvanced, LogItem, StatementLogged, TransactionBegan, TransactionEnded
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.core.positions import BinlogPosition, file_number
from penstock.embedded.mariadb import start_mariadb
from penstock.embedded.mysql import start_mysql
from penstock.ports.log import Stop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pymysql

    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

    Source = MariadbServer | OracleMysql

SERVER_ID = 902_001


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """A server of this module's own, whose binlogs may be purged."""
    home: Path = tmp_path_factory.mktemp("source")
    if request.param == "mysql":
        request.getfixturevalue("mysql_package")
    with start_mariadb(home) if request.param == "mariadb" else start_mysql(home) as server:
        yield server


@pytest.fixture
def cursor(source: Source) -> Iterator[pymysql.cursors.Cursor]:
    with closing(connected(source)) as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS shop")
        cursor.execute("CREATE DATABASE shop CHARACTER SET utf8mb4")
        cursor.execute("USE shop")
        cursor.execute("CREATE TABLE users (id INT PRIMARY KEY, name LONGTEXT)")
        cursor.execute("CREATE TABLE secret (id INT)")
        yield cursor


def follow(server: Source, begin: BinlogPosition, stop: Stop = Stop.NEVER, server_id: int = SERVER_ID) -> BinlogStream:
    return open_binlog(address(server), begin, server_id, wanted, stop)


def read_for_seconds(stream: BinlogStream) -> None:
    for _ in range(50):
        stream.read(0.2)


def here(source: Source) -> BinlogPosition:
    with closing(connect(address(source))) as connection:
        return head(connection)


def work(cursor: pymysql.cursors.Cursor) -> None:
    """Transactions of every kind: one row, many rows, other tables, DDL, rollbacks, a new file."""
    cursor.execute("INSERT INTO users VALUES (1, 'one')")
    cursor.execute("INSERT INTO secret VALUES (1)")
    cursor.execute("BEGIN")
    cursor.executemany("INSERT INTO users VALUES (%s, REPEAT('x', 3000))", [(key,) for key in range(10, 30)])
    cursor.execute("DELETE FROM users WHERE id = 11")
    cursor.execute("COMMIT")
    cursor.execute("ALTER TABLE users ADD age INT")
    cursor.execute("BEGIN")
    cursor.execute("UPDATE users SET age = 7 WHERE id < 15")
    cursor.execute("INSERT INTO secret VALUES (2)")
    cursor.execute("COMMIT")
    cursor.execute("FLUSH BINARY LOGS")
    cursor.execute("CREATE TABLE copied AS SELECT * FROM users")
    cursor.execute("BEGIN")
    cursor.execute("INSERT INTO users VALUES (50, 'undone', 1)")
    cursor.execute("CREATE TEMPORARY TABLE scratch (id INT)")
    cursor.execute("ROLLBACK")
    cursor.execute("DROP TEMPORARY TABLE IF EXISTS scratch")
    cursor.execute("DROP TABLE copied")


def test_everything_that_happened_is_read_once_and_in_order(source: Source, cursor: pymysql.cursors.Cursor) -> None:
    begin = here(source)
    work(cursor)
    end = here(source)

    items = read_all(source, begin)

    statements = [item.sql for item in items if isinstance(item, StatementLogged)]
    assert [sql.split()[0] for sql in statements if "scratch" not in sql] == ["ALTER", "CREATE", "DROP"]
    places = [(file_number(item.file), item.offset) for item in items if isinstance(item, RowsLogged)]
    assert places == sorted(set(places))
    ends = [item.end for item in items if isinstance(item, TransactionEnded | LogAdvanced | StatementLogged)]
    assert ends[-1] == end
    assert [item.order for item in ends] == sorted(item.order for item in ends)
    assert all(b"undone" not in item.payload for item in items if isinstance(item, RowsLogged))


def test_reading_on_from_any_position_gives_what_is_left(source: Source, cursor: pymysql.cursors.Cursor) -> None:
    begin = here(source)
    work(cursor)
    whole = read_all(source, begin)
    assert len(whole) > 15

    for index, item in enumerate(whole):
        match item:
            case TransactionEnded(end) | LogAdvanced(end):
                assert read_all(source, end) == whole[index + 1 :] or read_all(source, end) == [LogAdvanced(end)]
            case StatementLogged(begin=again) if again.rows_from == 0:
                assert read_all(source, again) == whole[index:]
            case RowsLogged(offset=offset):
                began = max(i for i in range(index) if isinstance(whole[i], TransactionBegan))
                start = whole[began]
                assert isinstance(start, TransactionBegan)
                gtids = gtids_before(whole, began, begin)
                position = BinlogPosition(start.file, start.offset, offset, gtids)
                assert read_all(source, position) == [start, *whole[index:]]
            case _:
                pass


def gtids_before(items: list[LogItem], index: int, begin: BinlogPosition) -> str:
    ends = [item.end for item in items[:index] if isinstance(item, TransactionEnded | LogAdvanced | StatementLogged)]
    return ends[-1].gtids if ends else begin.gtids


def test_a_file_is_read_to_its_end_and_no_further(source: Source, cursor: pymysql.cursors.Cursor) -> None:
    begin = here(source)
    work(cursor)
    whole = read_all(source, begin)
    next_file = here(source).file

    first = read_all(source, begin, Stop.END_OF_FILE)
    last = first[-1]
    assert isinstance(last, LogAdvanced)
    second = read_all(source, last.end, Stop.END_OF_FILE)

    assert (last.end.file, last.end.offset) == (next_file, 4)
    assert first + second == whole


def test_the_end_of_an_idle_log_is_said(source: Source, cursor: pymysql.cursors.Cursor) -> None:
    cursor.execute("FLUSH BINARY LOGS")
    file = here(source).file

    items = read_all(source, BinlogPosition(file, 4))

    assert items == [LogAdvanced(here(source))]


def test_a_change_arrives_within_milliseconds_and_idleness_is_heard(
    source: Source, cursor: pymysql.cursors.Cursor
) -> None:
    with closing(follow(source, here(source))) as stream:
        waits = []
        for key in range(20):
            while stream.read(0.02):
                pass
            cursor.execute("INSERT INTO users VALUES (%s, 'x')", (key,))
            committed = time.monotonic()
            items = one_by_one(stream.read(5))
            waits.append(time.monotonic() - committed)
            assert [type(item) for item in items][-1] is TransactionEnded
        began = time.monotonic()
        idle = stream.read(10)
        waited = time.monotonic() - began
        end = here(source)

    assert sorted(waits)[10] < 0.05
    assert idle == [LogAdvanced(end)]
    assert waited < 3


def test_reading_waits_no_longer_than_it_is_told(source: Source) -> None:
    with closing(follow(source, here(source))) as stream:
        stream.read(0.2)
        began = time.monotonic()
        assert stream.read(0.1) == []
        assert stream.read(0) == []
        assert time.monotonic() - began < 0.5
        assert not stream.at_end()


def test_an_event_of_many_megabytes_is_read(source: Source, cursor: pymysql.cursors.Cursor) -> None:
    cursor.execute("SET GLOBAL max_allowed_packet = 128 * 1024 * 1024")
    begin = here(source)
    with closing(connected(source)) as connection, connection.cursor() as other:
        other.execute("INSERT INTO shop.users VALUES (1, 'small'), (2, REPEAT('y', 40000000)), (3, 'small')")
        other.execute("INSERT INTO shop.users VALUES (4, 'after')")

    rows = [item for item in read_all(source, begin) if isinstance(item, RowsLogged)]

    assert sum(item.payload.count(b"y") for item in rows) == 40_000_000
    assert rows[-1].payload.endswith(b"after")


def test_a_log_without_checksums_is_read_and_so_is_a_change_of_that(
    source: Source, cursor: pymysql.cursors.Cursor
) -> None:
    begin = here(source)
    cursor.execute("INSERT INTO users VALUES (1, 'with')")
    cursor.execute("SET GLOBAL binlog_checksum = NONE")
    try:
        cursor.execute("INSERT INTO users VALUES (2, 'without')")
        middle = here(source)
        cursor.execute("INSERT INTO users VALUES (3, 'without')")
        from_middle = read_all(source, middle)
    finally:
        cursor.execute("SET GLOBAL binlog_checksum = CRC32")
    cursor.execute("INSERT INTO users VALUES (4, 'with')")

    assert len([item for item in from_middle if isinstance(item, RowsLogged)]) == 1
    assert len([item for item in read_all(source, begin) if isinstance(item, RowsLogged)]) == 4


def test_a_purged_binlog_is_named(source: Source, cursor: pymysql.cursors.Cursor) -> None:
    begin = here(source)
    cursor.execute("FLUSH BINARY LOGS")
    purge_to(cursor, here(source).file)

    with pytest.raises(LogPurgedError, match=begin.file) as caught:
        read_all(source, begin)

    assert f"it has {here(source).file} to {here(source).file}, {begin.file} are gone" in caught.value.message
    assert "start a new pipeline with an initial snapshot" in caught.value.hint
    assert "binlog_expire_logs_seconds" in caught.value.hint


@pytest.mark.parametrize("shift", [1, 1_000_000])
def test_a_position_that_is_none_is_an_error(source: Source, cursor: pymysql.cursors.Cursor, shift: int) -> None:
    begin = here(source)
    cursor.execute("INSERT INTO users VALUES (1, 'x')")

    with pytest.raises(LogError, match=f"{begin.file}:{begin.offset + shift}") as caught:
        read_all(source, BinlogPosition(begin.file, begin.offset + shift))

    assert not isinstance(caught.value, LogPurgedError)


def test_a_position_in_the_middle_of_a_transaction_is_noticed(source: Source, cursor: pymysql.cursors.Cursor) -> None:
    begin = here(source)
    cursor.execute("INSERT INTO users VALUES (1, 'x')")
    rows = next(item for item in read_all(source, begin) if isinstance(item, RowsLogged))

    with pytest.raises(LogError, match="which nothing describes"):
        read_all(source, BinlogPosition(begin.file, rows.offset))


def test_a_second_reader_with_the_same_server_id_ends_the_first(source: Source) -> None:
    with closing(follow(source, here(source))) as first:
        first.read(0.2)
        with closing(follow(source, here(source))) as second:
            second.read(0.2)
            with pytest.raises(LogError, match="server_id") as caught:
                read_for_seconds(first)

    assert "give this pipeline a server_id" in caught.value.hint


def test_a_lost_connection_can_be_retried(source: Source, cursor: pymysql.cursors.Cursor) -> None:
    with closing(follow(source, here(source))) as stream:
        stream.read(0.2)
        cursor.execute("SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump'")
        for (thread,) in cursor.fetchall():
            cursor.execute(f"KILL {thread}")

        with pytest.raises(UnavailableError) as caught:
            read_for_seconds(stream)

    assert caught.value.retryable


def test_a_user_who_may_not_replicate_is_told_what_to_grant(source: Source, cursor: pymysql.cursors.Cursor) -> None:
    cursor.execute("DROP USER IF EXISTS weak")
    cursor.execute("CREATE USER weak IDENTIFIED BY 'weak'")
    server = MysqlServer(source.host, source.port, "weak", "weak")

    with (
        closing(open_binlog(server, here(source), SERVER_ID, wanted, Stop.NEVER)) as stream,
        pytest.raises(UnfitServerError) as caught,
    ):
        stream.read(5)

    assert "REPLICATION SLAVE" in caught.value.hint


def test_closing_twice_is_safe_and_frees_the_servers_thread(source: Source, cursor: pymysql.cursors.Cursor) -> None:
    stream = follow(source, here(source), server_id=SERVER_ID + 1)
    stream.read(0.2)

    stream.close()
    stream.close()

    for _ in range(50):
        cursor.execute("INSERT INTO secret VALUES (1)")  # The server notices when it next has something to send.
        cursor.execute("SELECT COUNT(*) FROM information_schema.processlist WHERE command = 'Binlog Dump'")
        (count,) = cursor.fetchone() or ()
        if count == 0:
            return
        time.sleep(0.2)
    pytest.fail("the server still sends")
