"""Snapshots that lock their table: through the source's own log, and until all of it is read."""

from __future__ import annotations

import signal
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.capture_processes import spawn_capture
from tests.servers.chain import Chain, make_chain
from tests.servers.test_snapshot_keys import with_blackhole
from tests.servers.test_snapshots import ask, carry_tables, source_rows, statuses, writers

from penstock.adapters.mysql.connection import MysqlServer
from penstock.adapters.mysql.row_reader import MysqlRowReader
from penstock.core.errors import UnfitServerError, UsageError
from penstock.core.positions import BinlogPosition
from penstock.core.snapshots import Method, SnapshotOptions, Status, Wanted
from penstock.core.table_policy import DEFAULT_POLICY
from penstock.core.tables import TableId
from penstock.ports.snapshots import ChunkOrder
from penstock.wiring.snapshots import read_snapshots, want_snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

_OWNER = "0000abcd"


@pytest.fixture
def chain(
    mariadb: MariadbServer,
    chain_parts: tuple[KafkaBroker, str, int],
    fresh_database: str,
    tmp_path: Path,
) -> Chain:
    """A pipeline that carries all tables of its database, on a server with the engine BLACKHOLE."""
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    carry_tables(chain, f"{chain.name}.*", "never")
    with_blackhole(chain)
    return chain


_LEFT = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'penstock' AND ENGINE = 'BLACKHOLE'"


def bring_on(chain: Chain) -> None:
    """Carry what there is, behind an instance that was killed."""
    chain.capture(3)
    chain.write_objects()
    chain.load()


@pytest.mark.nightly
def test_a_blackhole_snapshot_that_is_killed_under_writes_comes_whole_and_leaves_nothing_behind(chain: Chain) -> None:
    chain.write("CREATE TABLE first (id INT PRIMARY KEY, n INT)", "INSERT INTO first SELECT seq, 0 FROM seq_1_to_4000")
    chain.start()
    chain.carry()
    # What no log tells: the target is wrong from here on.
    chain.write("SET sql_log_bin = 0", "UPDATE first SET n = 7 WHERE id % 3 = 0")

    ask(chain, "first", method=Method.BLACKHOLE)
    with writers(chain):
        died = spawn_capture(chain, 2, "snapshot.refreshed:2")
        left = source_rows(chain, _LEFT)
        chain.capture(3)
    bring_on(chain)

    assert died == -signal.SIGKILL
    assert len(left) == 1
    assert source_rows(chain, _LEFT) == []
    assert statuses(chain) == {"first": Status.DONE}
    assert sorted(chain.query("SELECT id, n FROM {schema}.first")) == source_rows(chain, "SELECT id, n FROM first")


def test_a_blackhole_snapshot_ends_while_rows_are_added_behind_each_of_its_chunks(
    chain: Chain, mariadb: MariadbServer
) -> None:
    chain.write("CREATE TABLE first (id INT PRIMARY KEY, n INT)", "INSERT INTO first SELECT seq, 0 FROM seq_1_to_12")
    low, options = BinlogPosition("binlog.000001", 4), SnapshotOptions(chunk_rows=5, method=Method.BLACKHOLE)
    server = MysqlServer(mariadb.host, mariadb.port, mariadb.user, mariadb.password)
    copied, cursor = [], ""

    with closing(MysqlRowReader(server, DEFAULT_POLICY, _OWNER)) as reader:
        schema = reader.define(TableId(chain.name, "first"), low, SnapshotOptions()).schema
        for number in range(20, 40):
            chunk = reader.read(ChunkOrder(schema, options, cursor, low, "1" * 12))
            copied.append(chunk.copied)
            if chunk.cursor is None:
                break
            cursor = chunk.cursor
            chain.write(f"INSERT INTO first VALUES ({number}, 0)")

    # A lock that took long makes the next chunk smaller; each but the last had a row added behind it.
    assert chunk.cursor is None
    assert sum(copied) == 12 + len(copied) - 1
    assert source_rows(chain, _LEFT) == []


def test_a_table_without_a_key_comes_whole_with_a_full_lock_and_whoever_writes_goes_on_behind_it(chain: Chain) -> None:
    chain.write("CREATE TABLE first (id INT PRIMARY KEY, n INT)", "CREATE TABLE keyless (n INT) ENGINE=MyISAM")
    chain.write("INSERT INTO keyless SELECT seq FROM seq_1_to_1000", "INSERT INTO keyless VALUES (7), (7)")
    chain.start()
    chain.carry()
    chain.write("SET sql_log_bin = 0", "UPDATE keyless SET n = 5 WHERE n = 4")

    ask(chain, "keyless", method=Method.FULL_LOCK, full_refresh=True, chunk_rows=300)
    died = spawn_capture(chain, 2, "snapshot.refreshed:3")
    chain.capture(3)
    chain.write("INSERT INTO keyless VALUES (2000)")
    bring_on(chain)

    assert died == -signal.SIGKILL
    assert statuses(chain) == {"keyless": Status.DONE}
    assert sorted(chain.query("SELECT n FROM {schema}.keyless")) == source_rows(chain, "SELECT n FROM keyless")


@pytest.mark.nightly
def test_a_full_lock_that_is_paused_lets_go_and_begins_again(chain: Chain) -> None:
    chain.write("CREATE TABLE keyless (n INT)", "INSERT INTO keyless VALUES (1), (2), (3)")
    chain.start()
    chain.carry()
    ask(chain, "keyless", method=Method.FULL_LOCK, full_refresh=True, chunk_rows=1)
    assert spawn_capture(chain, 2, "snapshot.refreshed:3") == -signal.SIGKILL

    want_snapshots(chain.spec, [f"{chain.name}.keyless"], Wanted.PAUSE)
    bring_on(chain)
    chain.write("INSERT INTO keyless VALUES (4)")
    want_snapshots(chain.spec, [f"{chain.name}.keyless"], Wanted.RUN)
    bring_on(chain)

    assert statuses(chain) == {"keyless": Status.DONE}
    assert sorted(chain.query("SELECT n FROM {schema}.keyless")) == [(1,), (2,), (3,), (4,)]


@pytest.mark.nightly
def test_what_a_lock_lacks_is_said_and_live_changes_go_on(chain: Chain, mariadb: MariadbServer) -> None:
    chain.write("CREATE TABLE first (id INT PRIMARY KEY, n INT)", "CREATE TABLE keyless (n INT)")
    chain.write("CREATE USER IF NOT EXISTS 'reader'@'%' IDENTIFIED BY 'reader'", "GRANT SELECT ON *.* TO 'reader'@'%'")
    table = TableId(chain.name, "first")
    server = MysqlServer(mariadb.host, mariadb.port, "reader", "reader")
    chain.start()

    with closing(MysqlRowReader(server, DEFAULT_POLICY, _OWNER)) as reader:
        with pytest.raises(UnfitServerError) as denied:
            reader.check(table, SnapshotOptions(method=Method.BLACKHOLE))
        chain.write("GRANT CREATE, DROP, LOCK TABLES ON *.* TO 'reader'@'%'")
        with pytest.raises(UnfitServerError) as without_insert:
            reader.check(table, SnapshotOptions(method=Method.BLACKHOLE))
        chain.write("REVOKE LOCK TABLES ON *.* FROM 'reader'@'%'")
        with pytest.raises(UnfitServerError) as unlocked:
            reader.check(table, SnapshotOptions(method=Method.FULL_LOCK))
    with pytest.raises(UsageError) as keyless:
        ask(chain, "keyless", method=Method.BLACKHOLE)
    chain.write("INSERT INTO first VALUES (1, 1)")
    chain.carry()

    assert "GRANT CREATE, DROP, INSERT, SELECT, LOCK TABLES ON `penstock`.*" in denied.value.hint
    assert "INSERT command denied" in without_insert.value.message
    assert "GRANT CREATE, DROP, INSERT" in without_insert.value.hint
    assert f"GRANT SELECT, LOCK TABLES ON `{chain.name}`.*" in unlocked.value.hint
    assert "--full-lock" in keyless.value.hint
    assert source_rows(chain, _LEFT) == []
    assert chain.query("SELECT id FROM {schema}.first") == [(1,)]


@pytest.mark.nightly
def test_a_copy_that_the_server_does_not_log_ends_the_snapshot(chain: Chain) -> None:
    """Its rows would be taken for published, and the table for whole."""
    chain.write("CREATE TABLE first (id INT PRIMARY KEY, n INT)", "INSERT INTO first VALUES (1, 1)")
    chain.start()
    chain.carry()
    reads = MysqlRowReader.read

    ask(chain, "first", method=Method.BLACKHOLE)
    with pytest.MonkeyPatch.context() as patch:
        # As with binlog_ignore_db, which takes a server of its own.
        patch.setattr(MysqlRowReader, "read", lambda self, order: reads(self, _of_another(order)))
        chain.capture()

    (snapshot,) = read_snapshots(chain.spec)
    assert snapshot.status is Status.FAILED
    assert "its log has none of them" in snapshot.error


def _of_another(order: ChunkOrder) -> ChunkOrder:
    return replace(order, snapshot_id="0" * 12)
