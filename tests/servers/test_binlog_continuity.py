"""What becomes of a reader when its server is restarted, its log is reset, or its position is damaged."""

from __future__ import annotations

import re
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.binlogs import purge_to
from tests.servers.source_log import address
from tests.unit.mysql_log.single_items import one_by_one

from penstock.adapters.mysql.binlog_stream import BinlogStream, open_binlog
from penstock.adapters.mysql.catalog import read_flavour
from penstock.adapters.mysql.connection import ask, connect
from penstock.adapters.mysql.history import head
from penstock.core.errors import LogError, LogPurgedError, PositionError, UnavailableError
from penstock.core.mysql.log.log_items import LogAdvanced, StatementLogged, TransactionEnded
from penstock.core.mysql.types.logged_rows import RowsLogged
from penstock.embedded.mariadb import start_mariadb
from penstock.embedded.mysql import start_mysql
from penstock.ports.log import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pymysql

    from penstock.core.positions import BinlogPosition
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

    Source = MariadbServer | OracleMysql

SERVER_ID = 905_001


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def start(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Source]]:
    """Start the module's server, again on the same port if it was stopped."""
    home: Path = tmp_path_factory.mktemp("source")
    if request.param == "mysql":
        request.getfixturevalue("mysql_package")
    started: list[Source] = []

    def start() -> Source:
        if not started or not started[-1].alive():
            started.append(start_mariadb(home) if request.param == "mariadb" else start_mysql(home))
        return started[-1]

    yield start
    started[-1].stop()


@pytest.fixture
def source(start: Callable[[], Source]) -> Source:
    """A running server with an empty table `shop.t` and a log that begins with it."""
    server = start()
    with closing(connect(address(server))) as connection:
        ask(connection, "DROP DATABASE IF EXISTS shop")
        reset(connection)
        ask(connection, "CREATE DATABASE shop")
        ask(connection, "CREATE TABLE shop.t (a INT)")
    return server


def reset(connection: pymysql.Connection) -> None:
    ask(connection, "RESET MASTER" if read_flavour(connection) == "mariadb" else "RESET BINARY LOGS AND GTIDS")


def insert(connection: pymysql.Connection, count: int) -> None:
    for _ in range(count):
        ask(connection, "INSERT INTO shop.t VALUES (1)")


def follow(server: Source, position: BinlogPosition, stop: Stop = Stop.NEVER) -> closing[BinlogStream]:
    return closing(open_binlog(address(server), position, SERVER_ID, lambda _: True, stop))


class Reader:
    """Reads on, and remembers how far that brought it."""

    def __init__(self, begin: BinlogPosition) -> None:
        self.position = begin
        self.rows = 0

    def read(self, stream: BinlogStream, until: BinlogPosition | None = None) -> None:
        """Read up to a place, or for some seconds if none is given."""
        for _ in range(100):
            for item in one_by_one(stream.read(0.2)):
                self.rows += isinstance(item, RowsLogged)
                if isinstance(item, TransactionEnded | LogAdvanced | StatementLogged):
                    self.position = item.end
            if until is not None and self.position.order >= until.order:
                break


def read_on(server: Source, position: BinlogPosition) -> None:
    """Follow the log for some seconds, or to an error."""
    with follow(server, position) as stream:
        Reader(position).read(stream)


def test_a_restart_in_mid_stream_is_gone_on_from(source: Source, start: Callable[[], Source]) -> None:
    with closing(connect(address(source))) as connection:
        begin = head(connection)
        insert(connection, 3)
        middle = head(connection)
        reader = Reader(begin)
        with follow(source, begin) as stream:
            reader.read(stream, middle)
            insert(connection, 2)
            source.stop()
            with pytest.raises(UnavailableError) as caught:
                reader.read(stream)
    again = start()
    with closing(connect(address(again))) as connection:
        insert(connection, 4)
        with follow(again, reader.position) as stream:
            reader.read(stream, head(connection))

    assert caught.value.retryable
    assert reader.position.file != begin.file
    assert reader.rows == 3 + 2 + 4


def test_a_reset_in_mid_stream_ends_the_stream(source: Source) -> None:
    with closing(connect(address(source))) as connection:
        ask(connection, "FLUSH BINARY LOGS")
        insert(connection, 3)
        begin = head(connection)
        with follow(source, begin) as stream:
            stream.read(0.5)

            reset(connection)
            insert(connection, 20)

            with pytest.raises(LogError, match="log") as caught:
                Reader(begin).read(stream)

    assert "start a new pipeline with an initial snapshot" in caught.value.hint
    assert not isinstance(caught.value, LogPurgedError)
    assert not caught.value.retryable


@pytest.mark.parametrize("written_since", [0, 2, 30])
def test_a_reset_between_two_streams_is_noticed_however_far_the_new_log_is(source: Source, written_since: int) -> None:
    with closing(connect(address(source))) as connection:
        insert(connection, 10)
        position = head(connection)
        reset(connection)
        ask(connection, "CREATE TABLE IF NOT EXISTS shop.longer (name_of_a_column VARCHAR(200))")
        insert(connection, written_since)

        with pytest.raises(LogError) as caught:
            read_on(source, position)

    assert "reset" in caught.value.hint
    assert "start a new pipeline with an initial snapshot" in caught.value.hint


def test_a_reset_is_noticed_by_the_first_transaction_that_comes(source: Source) -> None:
    """The new log has an event where we stood, after fewer transactions than there were."""
    with closing(connect(address(source))) as connection:
        insert(connection, 6)
        small = head(connection)
        insert(connection, 1)
        large = head(connection)
        insert(connection, 3)
        position = replace(small, gtids=large.gtids)

        with pytest.raises(LogError, match="was among") as caught:
            read_on(source, position)

    assert "the log was reset" in caught.value.hint


def test_a_domain_that_was_deleted_and_is_used_again_is_named_as_a_cause(source: Source) -> None:
    with closing(connect(address(source))) as connection, connection.cursor() as cursor:
        if read_flavour(connection) != "mariadb":
            pytest.skip("MySQL has no domains")
        ask(connection, "SET gtid_domain_id = 1")
        insert(connection, 3)
        ask(connection, "FLUSH BINARY LOGS")
        ask(connection, "SET gtid_domain_id = 0")
        insert(connection, 1)
        ask(connection, "FLUSH BINARY LOGS")
        position = head(connection)
        with follow(source, position) as stream:
            insert(connection, 1)
            Reader(position).read(stream, head(connection))
            purge_to(cursor, position.file)
            ask(connection, "FLUSH BINARY LOGS DELETE_DOMAIN_ID = (1)")
            ask(connection, "SET gtid_domain_id = 1")
            insert(connection, 1)

            with pytest.raises(LogError, match=r"1-1-1 at .* after 1-1-3") as in_mid_stream:
                Reader(position).read(stream)
        with pytest.raises(LogError, match=r"it has executed '.*1-1-1") as later:
            read_on(source, position)

    assert "DELETE_DOMAIN_ID" in in_mid_stream.value.hint
    assert "DELETE_DOMAIN_ID" in later.value.hint


def test_a_server_that_lacks_transactions_from_before_our_position_has_another_log(source: Source) -> None:
    with closing(connect(address(source))) as connection:
        insert(connection, 2)
        here = head(connection)
        stem, dash, number = here.gtids.rpartition("-")
        position = replace(here, gtids=f"{stem}{dash}{int(number) + 40}")

    with pytest.raises(LogError, match="it has executed") as caught:
        read_on(source, position)

    assert "another server answers" in caught.value.hint


def test_a_log_that_is_newer_than_the_server_is_another_one(source: Source) -> None:
    with closing(connect(address(source))) as connection:
        position = replace(head(connection), file="binlog.000977")

    with pytest.raises(LogError, match="all of them older") as caught:
        read_on(source, position)

    assert not isinstance(caught.value, LogPurgedError)


def test_the_purged_files_are_named_and_the_oldest_that_is_there(source: Source) -> None:
    with closing(connect(address(source))) as connection:
        begin = head(connection)
        for _ in range(3):
            ask(connection, "FLUSH BINARY LOGS")
        with connection.cursor() as cursor:
            purge_to(cursor, "binlog.000003")

    with pytest.raises(LogPurgedError) as caught:
        read_on(source, begin)

    assert "it has binlog.000003 to binlog.000004, binlog.000001 to binlog.000002 are gone" in caught.value.message


@pytest.mark.parametrize("gtids", ["rubbish", "0-1", "3E11FA47-71CA-11E1-9E33-C80AA9429562:", "1:2:3"])
def test_a_damaged_gtid_set_in_a_position_is_an_error(source: Source, gtids: str) -> None:
    with closing(connect(address(source))) as connection:
        position = replace(head(connection), gtids=gtids)

    with pytest.raises(PositionError) as caught:
        follow(source, position)

    assert gtids in caught.value.message


def test_tagged_gtids_are_followed(source: Source) -> None:
    with closing(connect(address(source))) as connection:
        if read_flavour(connection) == "mariadb":
            pytest.skip("MariaDB has no tags")
        ask(connection, "SET gtid_next = 'AUTOMATIC:mine'")
        insert(connection, 1)
        position = head(connection)
        insert(connection, 2)
        ask(connection, "SET gtid_next = 'AUTOMATIC'")
        insert(connection, 1)
        ask(connection, "SET gtid_next = 'AUTOMATIC:yours'")
        insert(connection, 1)
        end = head(connection)

    reader = Reader(position)
    with follow(source, position) as stream:
        reader.read(stream, end)
    assert re.search(r":mine:1$", position.gtids)
    assert re.search(r":mine:1-3:yours:1$", end.gtids)
    assert (reader.rows, reader.position) == (2 + 1 + 1, end)


def test_a_position_without_gtids_is_followed_by_its_place(source: Source) -> None:
    with closing(connect(address(source))) as connection:
        begin = replace(head(connection), gtids="")
        insert(connection, 3)
        end = head(connection)

        with follow(source, begin) as stream:
            reader = Reader(begin)
            reader.read(stream, end)

    assert reader.rows == 3


def test_without_gtids_a_log_that_was_reset_and_grew_to_the_same_place_is_noticed(source: Source) -> None:
    with closing(connect(address(source))) as connection:
        begin = replace(head(connection), gtids="")
        insert(connection, 3)
        reader = Reader(begin)
        with follow(source, begin) as stream:
            reader.read(stream, head(connection))
        position = replace(reader.position, gtids="")
        ask(connection, "DROP DATABASE shop")
        # A file's time is in whole seconds.
        time.sleep(1.1)
        reset(connection)
        # The new log has the same events at the same places.
        ask(connection, "CREATE DATABASE shop")
        ask(connection, "CREATE TABLE shop.t (a INT)")
        insert(connection, 3)
        assert head(connection).order == position.order
        insert(connection, 2)

        with pytest.raises(LogError, match="was begun at") as caught:
            read_on(source, position)

    assert position.file_created
    assert "the log was reset" in caught.value.hint


@pytest.mark.nightly
def test_a_restart_of_the_server_does_not_make_its_old_files_others(
    source: Source, start: Callable[[], Source]
) -> None:
    with closing(connect(address(source))) as connection:
        begin = replace(head(connection), gtids="")
        insert(connection, 2)
        reader = Reader(begin)
        with follow(source, begin) as stream:
            reader.read(stream, head(connection))
    position = replace(reader.position, gtids="")
    source.stop()
    # A file's time is in whole seconds.
    time.sleep(1.1)
    again = start()

    with closing(connect(address(again))) as connection:
        insert(connection, 4)
        with follow(again, position) as stream:
            reader.read(stream, head(connection))

    assert reader.rows == 2 + 4
    assert reader.position.file_created > position.file_created
