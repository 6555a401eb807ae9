"""The place of a position in the log of a server that was made from a dump or a backup."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest
from tests.servers.failover.pair import copy_server, run
from tests.servers.source_log import address, read_all

from penstock.adapters.mysql.connection import connect
from penstock.adapters.mysql.history import head
from penstock.adapters.mysql.new_master import LogReading, find_by_gtids, find_by_heartbeat
from penstock.core.errors import LogPurgedError, UnfitServerError
from penstock.core.mysql.log.heartbeats import create_sql
from penstock.core.mysql.log.log_items import TransactionEnded
from penstock.core.positions import BinlogPosition, Heartbeat
from penstock.core.tables import TableId
from penstock.embedded.mariadb import start_mariadb
from penstock.embedded.mysql import start_mysql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.source_log import Source

    from penstock.embedded.debian import DebianPackage
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

OLD_MASTER: Final = "bbbbbbbb-aaaa-aaaa-aaaa-aaaaaaaaaaaa"


@pytest.fixture(scope="module")
def mysql(tmp_path_factory: pytest.TempPathFactory, mysql_package: DebianPackage) -> Iterator[OracleMysql]:
    """A server with an empty table `shop.t`."""
    del mysql_package
    with start_mysql(tmp_path_factory.mktemp("mysql")) as server:
        create_table(server)
        yield server


@pytest.fixture
def mariadb_of_backup(initialised: Path, tmp_path: Path) -> Iterator[MariadbServer]:
    """A server with an empty table `shop.t`."""
    copy_server(initialised, tmp_path)
    with start_mariadb(tmp_path, options=["--log-slave-updates=ON"]) as server:
        create_table(server)
        yield server


def create_table(server: Source) -> None:
    run(server, "CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")


def restore(server: OracleMysql) -> None:
    """Begin as a server that was told what a dump holds."""
    run(server, "TRUNCATE shop.t", "RESET BINARY LOGS AND GTIDS", f"SET GLOBAL gtid_purged = '{OLD_MASTER}:1-1000'")


def replicate(server: OracleMysql, number: int) -> None:
    """Write a transaction of the old master."""
    run(server, f"SET gtid_next = '{OLD_MASTER}:{number}'", f"INSERT INTO shop.t VALUES ({number})")


def here(server: Source) -> BinlogPosition:
    with closing(connect(address(server))) as connection:
        return head(connection)


def find(server: Source, gtids: str) -> BinlogPosition:
    """The place behind `gtids`, which were read in another log."""
    with closing(connect(address(server))) as connection:
        return find_by_gtids(
            connection, BinlogPosition("x.000001", 4, gtids=gtids), LogReading(lambda _: True, 97)
        ).position


def test_a_position_keeps_what_a_dump_brought_over_files_that_do_not_list_it(mysql: OracleMysql) -> None:
    restore(mysql)
    replicate(mysql, 1001)
    begin = here(mysql)
    replicate(mysql, 1002)
    run(mysql, "FLUSH BINARY LOGS")
    replicate(mysql, 1003)

    ends = [item.end for item in read_all(mysql, begin) if isinstance(item, TransactionEnded)]

    assert [end.gtids for end in ends] == [f"{OLD_MASTER}:1-1002", f"{OLD_MASTER}:1-1003"]
    assert ends[-1] == here(mysql)


def test_the_place_is_found_behind_what_a_dump_brought(mysql: OracleMysql) -> None:
    restore(mysql)
    begin = here(mysql)
    replicate(mysql, 1001)
    run(mysql, "FLUSH BINARY LOGS")
    replicate(mysql, 1002)
    behind = here(mysql)
    replicate(mysql, 1003)

    assert find(mysql, f"{OLD_MASTER}:1-1002") == behind
    assert find(mysql, f"{OLD_MASTER}:1-1000").order <= begin.order
    with pytest.raises(LogPurgedError, match=f"not published yet: {OLD_MASTER}:1000"):
        find(mysql, f"{OLD_MASTER}:1-999")


def test_a_place_that_is_found_by_a_heartbeat_has_what_a_dump_brought(mysql: OracleMysql) -> None:
    beats = TableId("shop", "beats")
    run(mysql, create_sql("shop.beats"), "TRUNCATE shop.beats")
    restore(mysql)
    run(mysql, "INSERT INTO shop.beats VALUES ('p', 1, 1000, 1)")
    behind = here(mysql)

    with closing(connect(address(mysql))) as connection:
        found = find_by_heartbeat(connection, Heartbeat(1, 1000), beats, "p", LogReading(lambda _: False, 97))

    assert found.position == behind


def test_a_domain_in_which_nothing_was_written_since_the_backup_is_reached(mariadb_of_backup: MariadbServer) -> None:
    server = mariadb_of_backup
    run(server, "FLUSH BINARY LOGS", "INSERT INTO shop.t VALUES (1)")
    behind = here(server)
    run(server, f"SET GLOBAL gtid_slave_pos = '{behind.gtids},5-9-7'", "INSERT INTO shop.t VALUES (2)")

    found = find(server, f"{behind.gtids},5-9-7")
    assert (found.file, found.gtids) == (behind.file, behind.gtids)
    # The backup is newer: 5-9-7 is in no log that we could read.
    with pytest.raises(UnfitServerError, match="but not logged it") as caught:
        find(server, f"{behind.gtids},5-9-6")
    assert "backup that is newer" in caught.value.hint
    # Nothing of ours is in the log: no place of it is behind ours for sure.
    with pytest.raises(UnfitServerError, match="but not logged it"):
        find(server, "5-9-7")
