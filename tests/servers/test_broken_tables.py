"""A server whose data directory has what is no table, and tables that it cannot open itself."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from tests.servers.source_log import Source, address

from penstock.adapters.mysql.connection import ask, connect
from penstock.adapters.mysql.initial_snapshot import open_initial_snapshot
from penstock.adapters.mysql.tracker import MysqlTracker, read_source_defaults
from penstock.core.errors import UnfitServerError
from penstock.core.tables import TableId
from penstock.embedded.mariadb import MariadbServer, start_mariadb
from penstock.embedded.mysql import start_mysql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WHOLE, BROKEN = TableId("shop", "whole"), TableId("shop", "broken")


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """A server that has lost the file of a table, and whose data directory is a file system of its own."""
    home: Path = tmp_path_factory.mktemp("broken")
    if request.param == "mysql":
        request.getfixturevalue("mysql_package")
    start = start_mariadb if request.param == "mariadb" else start_mysql
    with start(home) as server, contextlib.closing(connect(address(server))) as connection:
        ask(connection, "CREATE DATABASE shop")
        ask(connection, "CREATE TABLE shop.whole (a INT PRIMARY KEY)")
        ask(connection, "INSERT INTO shop.whole VALUES (7)")
        ask(connection, "CREATE TABLE shop.broken (a INT PRIMARY KEY)")
    (home / "data" / "shop" / "broken.ibd").unlink()
    (home / "data" / "lost+found").mkdir()
    with start(home) as server:
        yield server


def test_what_is_no_table_or_broken_hinders_no_copy_of_others(request: pytest.FixtureRequest, source: Source) -> None:
    is_mariadb = isinstance(source, MariadbServer)
    tracker_server = request.getfixturevalue("tracker_server" if is_mariadb else "mysql_tracker_server")
    with connect(address(source)) as connection:
        defaults = read_source_defaults(connection)

    with open_initial_snapshot(address(source), lambda table: table == WHOLE) as copy:
        rows = [row for batch in copy.rows(WHOLE, 10) if batch.after for row in batch.after.to_pylist()]
        with contextlib.closing(MysqlTracker(address(tracker_server), defaults)) as tracker:
            tracker.restore(copy.creates)
            tables = tracker.tables()

    assert rows == [{"a": 7}]
    assert tables == [WHOLE]


def test_a_broken_table_that_is_wanted_is_named(source: Source) -> None:
    with (
        pytest.raises(UnfitServerError, match=r"cannot open its own table shop\.broken") as caught,
        open_initial_snapshot(address(source), lambda table: table == BROKEN),
    ):
        pass

    assert '"!shop.broken"' in caught.value.hint
