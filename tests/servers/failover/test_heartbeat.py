"""Heartbeats: who writes them, what a capture makes of them, and what it says when they or GTIDs go back."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.failover.pair import run, slave_status, value, wait_for
from tests.servers.source_log import address

from penstock.adapters.mysql.connection import connect
from penstock.adapters.mysql.heartbeat import HeartbeatWriter
from penstock.core.errors import FencedError, LogError, UnfitServerError
from penstock.core.tables import TableId
from penstock.embedded.mariadb import start_mariadb
from penstock.wiring.capture_mirror import SourceMirror
from penstock.wiring.heartbeat import Heartbeats
from penstock.wiring.open import open_pipeline_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pymysql
    from tests.servers.failover.conftest import Case
    from tests.servers.failover.pair import OpenPair

    from penstock.embedded.mariadb import MariadbServer

TABLE = TableId("penstock", "heartbeat")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariadbServer]:
    with start_mariadb(tmp_path_factory.mktemp("beating")) as server:
        yield server


@pytest.fixture
def case(server: MariadbServer, tracker_server: MariadbServer, make_case: Callable[..., Case]) -> Case:
    """A started pipeline with heartbeats, of which there were none yet."""
    run(server, "DROP DATABASE IF EXISTS shop", "DROP DATABASE IF EXISTS penstock")
    run(server, "CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
    case = make_case(server, tracker_server, start="snapshot", heartbeat={"period_seconds": 0.1})
    case.start()
    return case


def writer(connection: pymysql.Connection, epoch: int = 1, pipeline: str = "p") -> HeartbeatWriter:
    return HeartbeatWriter(connection, TABLE, pipeline, epoch)


def row(server: MariadbServer, pipeline: str = "p", column: str = "serial") -> int:
    return int(str(value(server, f"SELECT {column} FROM penstock.heartbeat WHERE pipeline = '{pipeline}'") or 0))


def test_serials_only_rise_and_a_newer_instance_has_the_row_to_itself(server: MariadbServer) -> None:
    run(server, "DROP DATABASE IF EXISTS penstock")
    with closing(connect(address(server))) as connection:
        older, newer = writer(connection, 3), writer(connection, 4)
        older.prepare(0)
        older.write()
        assert row(server) == 2
        newer.prepare(0)
        with pytest.raises(FencedError):
            older.write()
        assert row(server) == 3
        run(server, "DROP TABLE penstock.heartbeat")
        newer.prepare(40)
        assert row(server) == 41
        writer(connection, 1, "other").prepare(0)
        assert (row(server), row(server, "other")) == (41, 1)


def test_an_idle_sources_position_stays_fresh_and_nothing_of_it_is_published(case: Case, server: MariadbServer) -> None:
    state = open_pipeline_state(case.spec)
    begin = case.position()
    with Heartbeats(case.spec, case.spec.sources, 1, state):
        there = "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'penstock'"
        wait_for(lambda: value(server, there) is not None and row(server, case.spec.pipeline) > 4)
    case.carry()
    end = case.position()

    assert end.order > begin.order
    assert end.heartbeat is not None
    assert (end.heartbeat.serial, end.heartbeat.transactions) == (row(server, case.spec.pipeline), 0)
    assert end.heartbeat.timestamp_ms == row(server, case.spec.pipeline, "timestamp_ms")
    assert (end.heartbeat.file, end.heartbeat.offset) == (end.file, end.offset)
    assert case.read(f"penstock.{case.spec.pipeline}.schemas")
    assert b"heartbeat" not in b"".join(case.read(f"penstock.{case.spec.pipeline}.schemas"))
    with closing(SourceMirror(case.spec, case.spec.sources[0], state)) as mirror:
        mirror.refresh()
    mirrored = state.heartbeat(case.source)
    assert mirrored == (end.heartbeat.serial, end.heartbeat.timestamp_ms)


def test_what_hinders_heartbeats_is_told_and_they_go_on_when_it_is_gone(case: Case, server: MariadbServer) -> None:
    state = open_pipeline_state(case.spec)
    run(server, "SET GLOBAL read_only = 1")
    try:
        with Heartbeats(case.spec, case.spec.sources, 1, state):
            wait_for(lambda: any("is read-only" in t.hint for t in state.tables()))
            run(server, "SET GLOBAL read_only = 0")
            wait_for(lambda: all(not t.hint for t in state.tables()))
            wait_for(lambda: row(server, case.spec.pipeline) > 1)
    finally:
        run(server, "SET GLOBAL read_only = 0")
    assert all(not thread.name.startswith("heartbeat ") for thread in threading.enumerate())


def test_who_may_not_write_is_told_what_to_grant(server: MariadbServer) -> None:
    run(server, "DROP DATABASE IF EXISTS penstock", "CREATE USER IF NOT EXISTS poor@127.0.0.1 IDENTIFIED BY 'p'")
    login = address(server)
    poor = type(login)(login.host, login.port, "poor", "p")
    with closing(connect(poor)) as connection:
        with pytest.raises(
            UnfitServerError, match=r"penstock.heartbeat is not there, or the user may not see it"
        ) as caught:
            writer(connection).prepare(0)
        assert "the next run makes it, if it may" in writer(connection).examine()
        assert "CREATE TABLE IF NOT EXISTS `penstock`.`heartbeat`" in caught.value.hint
    with closing(connect(login)) as connection:
        writer(connection).prepare(0)
    run(server, "GRANT SELECT ON penstock.heartbeat TO poor@127.0.0.1")
    with closing(connect(poor)) as connection:
        for ask in (lambda: writer(connection).prepare(0), writer(connection).examine):
            with pytest.raises(UnfitServerError) as caught:
                ask()
            assert caught.value.hint == "GRANT SELECT, INSERT, UPDATE ON `penstock`.`heartbeat` TO poor"
        before = row(server)
        run(server, "GRANT SELECT, INSERT, UPDATE ON penstock.heartbeat TO poor@127.0.0.1")
        assert writer(connection).examine() == "penstock.heartbeat can be written to"
        assert (row(server), row(server, "")) == (before, 0)


def test_a_replica_gets_no_heartbeat(open_pair: OpenPair) -> None:
    with open_pair() as pair:
        pair.replicate()
        pair.catch_up() if value(pair.master, "SELECT @@gtid_binlog_pos") else None
        assert slave_status(pair.replica)
        with (
            closing(connect(address(pair.replica))) as connection,
            pytest.raises(UnfitServerError, match="is a replica: a heartbeat there would be a transaction"),
        ):
            writer(connection).examine()


def test_a_server_whose_heartbeat_went_back_is_refused_at_the_start_and_gets_no_new_one(
    case: Case, server: MariadbServer
) -> None:
    for _ in range(5):
        case.beat()
    case.carry()
    before = case.position()
    assert before.heartbeat is not None
    # As a restored backup has it, which is in no log.
    run(server, "SET STATEMENT sql_log_bin = 0 FOR UPDATE penstock.heartbeat SET serial = 2")
    state = open_pipeline_state(case.spec)

    with pytest.raises(
        LogError, match=f"went back: it is 2, and what came after {before.heartbeat.serial} was"
    ) as caught:
        case.carry()
    assert "restored from a backup" in caught.value.hint
    with Heartbeats(case.spec, case.spec.sources, 9, state):
        wait_for(lambda: any("went back" in t.hint for t in state.tables()))
    assert row(server, case.spec.pipeline) == 2
    assert case.position().order == before.order


def test_heartbeats_that_go_back_in_the_log_end_the_capture(case: Case, server: MariadbServer) -> None:
    for _ in range(5):
        case.beat()
    case.carry()
    run(server, "UPDATE penstock.heartbeat SET serial = 3", "UPDATE penstock.heartbeat SET serial = 50")

    with pytest.raises(LogError, match=r"go back: 3 at .* after 5 at") as caught:
        case.carry()
    assert "give `heartbeat` another `table`" in caught.value.hint


def test_gtids_that_go_back_end_the_capture(case: Case, server: MariadbServer) -> None:
    run(server, "INSERT INTO shop.t VALUES (1)")
    case.carry()
    run(server, "INSERT INTO shop.t VALUES (2)")
    backwards = [f"SET STATEMENT gtid_seq_no = {n} FOR INSERT INTO shop.t VALUES ({n})" for n in (7, 1000)]
    run(server, "SET GLOBAL gtid_strict_mode = 0", *backwards)
    try:
        with pytest.raises(LogError, match=r"the GTIDs of .* go back: 0-1-7 at ") as caught:
            case.carry()
    finally:
        run(server, "SET GLOBAL gtid_strict_mode = 1", "INSERT INTO shop.t VALUES (4)")
    assert "restored from a backup" in caught.value.hint


def test_a_clock_that_goes_back_breaks_nothing(case: Case, server: MariadbServer) -> None:
    case.beat()
    run(server, "INSERT INTO shop.t VALUES (1)")
    case.carry()
    early = case.position().heartbeat
    with closing(connect(address(server))) as connection:
        connection.cursor().execute("SET timestamp = 1000000000")
        writer(connection, pipeline=case.spec.pipeline).write()
        connection.cursor().execute("INSERT INTO shop.t VALUES (2)")
    case.carry()
    late = case.position().heartbeat

    assert early is not None
    assert late is not None
    assert late.serial == early.serial + 1
    assert late.timestamp_ms == 1_000_000_000_000 < early.timestamp_ms
    assert [c.after for c in case.changes("shop.t")] == [{"id": 1}, {"id": 2}]
    with closing(SourceMirror(case.spec, case.spec.sources[0], open_pipeline_state(case.spec))) as mirror:
        assert mirror.refresh().is_behind is False
