"""A failover between two servers of Oracle's MySQL."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.failover.load import assert_carried_once, create_tables
from tests.servers.failover.pair import copy_server, run, value, wait_for
from tests.servers.source_log import connected

from penstock.embedded.mysql import start_mysql

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.failover.conftest import Case

    from penstock.embedded.debian import DebianPackage
    from penstock.embedded.mysql import OracleMysql
    from penstock.wiring.failover import Way


def follow(replica: OracleMysql, master: OracleMysql, way: Way) -> None:
    login = f"SOURCE_HOST = '{master.host}', SOURCE_PORT = {master.port}, SOURCE_USER = '{master.user}'"
    rest = (
        f"SOURCE_PASSWORD = '{master.password}', GET_SOURCE_PUBLIC_KEY = 1, SOURCE_AUTO_POSITION = {int(way == 'gtid')}"
    )
    run(replica, f"CHANGE REPLICATION SOURCE TO {login}, {rest}", "START REPLICA")


def rows_there(server: OracleMysql) -> int:
    there = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'shop'"
    return int(str(value(server, "SELECT COUNT(*) FROM shop.journal"))) if value(server, there) == 2 else 0


def work(server: OracleMysql, worker: int, count: int) -> None:
    with closing(connected(server)) as connection, connection.cursor() as cursor:
        for n in range(count):
            cursor.execute("BEGIN")
            cursor.execute(f"INSERT INTO shop.journal VALUES ({worker}, {n}, 1)")
            cursor.execute("UPDATE shop.accounts SET v = v + 1 WHERE id = 1")
            cursor.execute("COMMIT")


@pytest.fixture(scope="module")
def initialised_mysql(tmp_path_factory: pytest.TempPathFactory, mysql_package: DebianPackage) -> Path:
    """The home of a server that was started once, is stopped, and holds nothing."""
    del mysql_package
    with start_mysql(tmp_path_factory.mktemp("initialised")) as server:
        return server.home


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
