"""Two servers of Oracle's MySQL: a failover from one to the other, and snapshots that wait while the other lags."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.failover.load import assert_carried_once, create_tables
from tests.servers.failover.pair import copy_server, run, value, wait_for
from tests.servers.failover.test_replica_lag import said
from tests.servers.source_log import address, connected

from penstock.adapters.mysql.connection import connect
from penstock.adapters.mysql.history import end_of_log
from penstock.adapters.mysql.replica_lag import LagLimit
from penstock.adapters.mysql.row_reader import MysqlRowReader
from penstock.core.errors import UnfitServerError
from penstock.core.snapshots import SnapshotOptions
from penstock.core.table_policy import DEFAULT_POLICY
from penstock.core.tables import TableId
from penstock.embedded.mysql import start_mysql
from penstock.ports.snapshots import ChunkOrder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.failover.conftest import Case

    from penstock.embedded.mysql import OracleMysql
    from penstock.wiring.failover import Way

_TABLES = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shop'"


def follow(replica: OracleMysql, master: OracleMysql, way: Way) -> None:
    login = f"SOURCE_HOST = '{master.host}', SOURCE_PORT = {master.port}, SOURCE_USER = '{master.user}'"
    rest = (
        f"SOURCE_PASSWORD = '{master.password}', GET_SOURCE_PUBLIC_KEY = 1, SOURCE_AUTO_POSITION = {int(way == 'gtid')}"
    )
    run(replica, f"CHANGE REPLICATION SOURCE TO {login}, {rest}", "START REPLICA")


def rows_there(server: OracleMysql) -> int:
    return int(str(value(server, "SELECT COUNT(*) FROM shop.journal"))) if value(server, _TABLES) == 2 else 0


def work(server: OracleMysql, worker: int, count: int) -> None:
    with closing(connected(server)) as connection, connection.cursor() as cursor:
        for n in range(count):
            cursor.execute("BEGIN")
            cursor.execute(f"INSERT INTO shop.journal VALUES ({worker}, {n}, 1)")
            cursor.execute("UPDATE shop.accounts SET v = v + 1 WHERE id = 1")
            cursor.execute("COMMIT")


@pytest.mark.nightly
@pytest.mark.parametrize("way", ["gtid", "heartbeat"])
def test_a_mysql_master_is_followed_by_its_replica(
    way: Way,
    tmp_path: Path,
    initialised_mysql: Path,
    mysql_tracker_server: OracleMysql,
    make_case: Callable[..., Case],
) -> None:
    gtids = [] if way == "gtid" else ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]
    options = [*gtids, "--server-id=2", "--log-bin=elsewhere"]
    for name in ("one", "two"):
        copy_server(initialised_mysql, tmp_path / name)
    with (
        start_mysql(tmp_path / "one", options=gtids) as master,
        start_mysql(tmp_path / "two", options=options) as replica,
    ):
        run(replica, *(["FLUSH BINARY LOGS"] * 3))
        follow(replica, master, way)
        create_tables(master)
        case = make_case(master, mysql_tracker_server, start="snapshot", heartbeat={})
        case.start()
        case.beat()
        work(master, 1, 300)
        case.carry()
        work(master, 2, 20)
        wait_for(lambda: rows_there(replica) == 320)
        before = case.position()
        master.kill()
        run(replica, "STOP REPLICA", "RESET REPLICA ALL")

        done = case.fail_over(replica)

        work(replica, 3, 20)
        case.carry()
        assert len(assert_carried_once(case, replica)) == 340
        assert (done.way, done.behind) == (way, 20)
        assert bool(before.gtids) is (way == "gtid")
        assert done.server.startswith("server_uuid ")


@pytest.mark.nightly
def test_a_chunk_waits_for_a_mysql_replica_that_lags_or_stands(tmp_path: Path, initialised_mysql: Path) -> None:
    for name in ("one", "two"):
        copy_server(initialised_mysql, tmp_path / name)
    with (
        start_mysql(tmp_path / "one") as master,
        start_mysql(tmp_path / "two", options=["--server-id=2", "--report-host=127.0.0.1"]) as replica,
    ):
        named, known = LagLimit(0, [(replica.host, replica.port)]), LagLimit(0)
        table = TableId("shop", "t")
        run(master, "CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)", "INSERT INTO shop.t VALUES (1)")
        assert f"{replica.port} is no replica" in said(master, named)
        follow(replica, master, "gtid")
        for limit in (named, known):
            wait_for(lambda limit=limit: said(master, limit) == "")  # type: ignore[misc]  # its default
        # A replica to which nothing has come yet calls itself no second behind.
        wait_for(lambda: value(replica, _TABLES) == 1)
        run(master, "CREATE USER 'few'@'%' IDENTIFIED BY 'few'")
        run(master, "GRANT SELECT, REPLICATION SLAVE ON *.* TO 'few'@'%'")
        few = replace(address(master), user="few", password="few")
        with closing(connect(address(master))) as connection:
            low = end_of_log(connection)

        with closing(MysqlRowReader(address(master), DEFAULT_POLICY, "0a", named)) as reader:
            schema = reader.define(table, low, SnapshotOptions()).schema
            order = ChunkOrder(schema, SnapshotOptions(), "", low, "0" * 12)
            with closing(connected(replica)) as other, other.cursor() as cursor:
                cursor.execute("LOCK TABLES shop.t READ")
                run(master, "INSERT INTO shop.t VALUES (2)")
                wait_for(lambda: "seconds behind its master" in said(master, named))
                waiting = reader.read(order)
                lagging = said(master, known), said(replica, known), said(master, LagLimit(3600))
            wait_for(lambda: said(master, named) == "")
            time.sleep(2)
            read = reader.read(order)
        run(replica, "STOP REPLICA SQL_THREAD")
        stopped = said(master, named), said(master, known)
        with (
            pytest.raises(UnfitServerError) as denied,
            closing(MysqlRowReader(few, DEFAULT_POLICY, "0a", known)) as reader,
        ):
            reader.check(table, SnapshotOptions())

    assert (waiting.rows, waiting.cursor, waiting.high) == (None, "", low)
    assert all("seconds behind its master, and a snapshot waits from 0 on" in each for each in lagging[:2])
    assert lagging[2] == ""
    assert (read.waits, read.rows and len(read.rows)) == (None, 2)
    assert all(f":{replica.port} does not replicate, so nobody knows how far it is behind" in each for each in stopped)
    assert "GRANT REPLICATION CLIENT, REPLICATION SLAVE ON *.* TO few" in denied.value.hint
