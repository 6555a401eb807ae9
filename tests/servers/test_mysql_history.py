from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from tests.servers.binlogs import purge_to

from penstock.adapters.mysql.catalog import read_flavour
from penstock.adapters.mysql.connection import MysqlServer, ask, connect, server_of
from penstock.adapters.mysql.history import binlogs, gtids_at, head, start_of_log, what_log_lacks
from penstock.adapters.mysql.retention import oldest_ahead_ms
from penstock.core.errors import LogError, UnavailableError, UnfitServerError
from penstock.core.positions import BinlogPosition
from penstock.core.tables import TableId
from penstock.embedded.mariadb import start_mariadb
from penstock.embedded.mysql import start_mysql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pymysql

    from penstock.embedded.mariadb import MariadbServer


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def own_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    """A server whose log nobody else writes to."""
    home: Path = tmp_path_factory.mktemp("history")
    if request.param == "mysql":
        request.getfixturevalue("mysql_package")
    with start_mariadb(home) if request.param == "mariadb" else start_mysql(home) as server:
        yield MysqlServer(server.host, server.port, server.user, server.password)


def reset(connection: pymysql.Connection) -> None:
    """Throw the log away and begin with file 1."""
    ask(connection, "RESET MASTER" if read_flavour(connection) == "mariadb" else "RESET BINARY LOGS AND GTIDS")


def gtids_of(connection: pymysql.Connection, count: int) -> str:
    """The set of the first `count` transactions of a log."""
    if read_flavour(connection) == "mariadb":
        return f"0-1-{count}"
    return f"{ask(connection, 'SELECT @@server_uuid')[0][0]}:1-{count}"


@pytest.fixture
def connection(own_server: MysqlServer) -> Iterator[pymysql.Connection]:
    """A server with one table `a.t`, whose log begins with it."""
    with contextlib.closing(connect(own_server)) as opened:
        ask(opened, "SET SESSION sql_log_bin = 0")
        ask(opened, "DROP DATABASE IF EXISTS a")
        ask(opened, "SET SESSION sql_log_bin = 1")
        reset(opened)
        for statement in (
            "CREATE DATABASE a",
            "USE a",
            "CREATE TABLE t (a INT PRIMARY KEY)",
            "INSERT INTO t VALUES (1)",
        ):
            ask(opened, statement)
        yield opened


def wanted(table: TableId) -> bool:
    return table == TableId("a", "t")


def test_the_head_moves_with_every_transaction(connection: pymysql.Connection) -> None:
    before = head(connection)
    ask(connection, "INSERT INTO t VALUES (2)")
    after = head(connection)

    assert before.order < after.order
    assert before.gtids == gtids_of(connection, 3)
    assert after.gtids == gtids_of(connection, 4)


def test_mariadb_tells_the_gtids_of_any_place(mariadb: MariadbServer) -> None:
    server = MysqlServer(mariadb.host, mariadb.port, mariadb.user, mariadb.password)

    with contextlib.closing(connect(server)) as connection:
        end = head(connection)

        assert gtids_at(connection, end.file, end.offset) == end.gtids


def test_binlogs_are_listed_with_their_sizes(connection: pymysql.Connection) -> None:
    ask(connection, "FLUSH BINARY LOGS")

    (first, first_bytes), (second, second_bytes) = binlogs(connection)

    assert first.endswith(".000001")
    assert first_bytes > 0
    assert BinlogPosition(second, second_bytes).order == head(connection).order


def test_a_log_begins_with_nothing_before_it(connection: pymysql.Connection) -> None:
    start = start_of_log(connection)

    assert (start.file, start.offset, start.gtids) == (binlogs(connection)[0][0], 4, "")


def purge(connection: pymysql.Connection) -> None:
    """Purge all but the newest file."""
    ask(connection, "FLUSH BINARY LOGS")
    with connection.cursor() as cursor:
        purge_to(cursor, binlogs(connection)[-1][0])


def test_what_was_purged_is_before_the_start(connection: pymysql.Connection) -> None:
    purge(connection)

    start = start_of_log(connection)

    assert start.file.endswith(".000002")
    assert start.gtids == gtids_of(connection, 3)


def test_a_log_that_creates_the_table_is_whole(connection: pymysql.Connection) -> None:
    for statement in (
        "INSERT INTO t VALUES (3), (4)",
        "ALTER TABLE t ADD COLUMN b INT",
        "FLUSH BINARY LOGS",
        "CREATE USER IF NOT EXISTS somebody",
        "CREATE TABLE u SELECT * FROM t",
        "DROP TABLE u",
    ):
        ask(connection, statement)

    assert not what_log_lacks(connection, wanted)


def test_reading_the_whole_log_does_not_disturb_the_connection(connection: pymysql.Connection) -> None:
    what_log_lacks(connection, wanted)

    assert ask(connection, "SELECT a FROM a.t") == [(1,)]


def before_the_log(connection: pymysql.Connection) -> None:
    reset(connection)


def altered_since(connection: pymysql.Connection) -> None:
    reset(connection)
    ask(connection, "ALTER TABLE t FORCE")


def created_if_needed(connection: pymysql.Connection) -> None:
    reset(connection)
    ask(connection, "CREATE TABLE IF NOT EXISTS t (a INT)")


def test_a_log_that_empties_drops_and_renames_what_it_created_is_whole(connection: pymysql.Connection) -> None:
    for statement in (
        "TRUNCATE TABLE t",
        "DROP TABLE t",
        "CREATE TABLE t (a INT PRIMARY KEY, b INT)",
        "ALTER TABLE t RENAME COLUMN b TO c",
        "RENAME TABLE t TO v",
        "RENAME TABLE v TO t",
    ):
        ask(connection, statement)

    assert not what_log_lacks(connection, lambda table: table.schema == "a")
    assert what_log_lacks(connection, wanted)


def renamed(connection: pymysql.Connection) -> None:
    ask(connection, "CREATE TABLE u LIKE t")
    ask(connection, "RENAME TABLE t TO v, u TO t")


def continued(connection: pymysql.Connection) -> None:
    reset(connection)
    if read_flavour(connection) == "mariadb":
        ask(connection, "SET GLOBAL gtid_binlog_state = '0-1-100'")
    else:
        ask(connection, "SET GLOBAL gtid_purged = '11111111-2222-3333-4444-555555555555:1-100'")


def cascaded(connection: pymysql.Connection) -> None:
    """Rows go that most servers do not log; a copy does not have them."""
    ask(connection, "CREATE TABLE parent (a INT PRIMARY KEY)")
    ask(connection, "INSERT INTO parent VALUES (1)")
    ask(connection, "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES parent (a) ON DELETE CASCADE")
    ask(connection, "DELETE FROM parent")
    assert ask(connection, "SELECT a FROM t") == []


STORIES = [before_the_log, altered_since, created_if_needed, purge, renamed, continued, cascaded]


@pytest.mark.parametrize("story", STORIES)
def test_a_log_that_may_lack_something_is_not_whole(
    connection: pymysql.Connection, story: Callable[[pymysql.Connection], None]
) -> None:
    story(connection)

    assert what_log_lacks(connection, wanted)


def test_a_log_too_long_to_read_is_not_whole(connection: pymysql.Connection) -> None:
    assert what_log_lacks(connection, wanted, log_bytes_max=100)


def test_a_place_that_is_none_in_the_log_is_no_matter_of_grants(connection: pymysql.Connection) -> None:
    ask(connection, "CREATE TABLE in_the_middle (a INT)")
    place = head(connection)

    with pytest.raises(LogError) as caught:
        oldest_ahead_ms(server_of(connection), BinlogPosition(place.file, place.offset - 3))

    assert "does not send its binlog from" in caught.value.message
    assert "start a new pipeline with an initial snapshot" in caught.value.hint
    assert "grants" not in caught.value.hint


@pytest.mark.parametrize("kind", ["tracker_server", "mysql_tracker_server"])
def test_a_server_without_a_log_is_named(request: pytest.FixtureRequest, kind: str) -> None:
    running = request.getfixturevalue(kind)
    server = MysqlServer(running.host, running.port, running.user, running.password)

    with contextlib.closing(connect(server)) as connection:
        with pytest.raises(UnfitServerError):
            head(connection)
        with pytest.raises(UnfitServerError):
            binlogs(connection)


def test_a_connection_that_was_lost_is_told_as_such(own_server: MysqlServer) -> None:
    with contextlib.closing(connect(own_server)) as other, contextlib.closing(connect(own_server)) as lost:
        ask(other, f"KILL {ask(lost, 'SELECT CONNECTION_ID()')[0][0]}")

        with pytest.raises(UnavailableError):
            head(lost)
        with pytest.raises(UnavailableError):
            head(lost)
        lost.connect()
