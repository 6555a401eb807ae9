"""Snapshots wait for replicas that are too far behind, and say for whom."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.servers.chain import make_chain
from tests.servers.failover.pair import run, wait_for
from tests.servers.source_log import connected

from penstock.adapters.mysql.connection import MysqlServer, connect
from penstock.adapters.mysql.history import end_of_log
from penstock.adapters.mysql.replica_lag import LagLimit, ReplicaWatch
from penstock.adapters.mysql.row_reader import MysqlRowReader
from penstock.config.mysql_source import MysqlSourceSpec
from penstock.core.errors import UnfitServerError
from penstock.core.snapshots import SnapshotOptions, Status
from penstock.core.table_policy import DEFAULT_POLICY
from penstock.core.tables import TableId
from penstock.jobs.in_process import carry_link
from penstock.ports.snapshots import ChunkOrder
from penstock.wiring.mysql_fitness import examine_source
from penstock.wiring.snapshots import ask_for_snapshots, read_snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.failover.pair import OpenPair
    from tests.servers.source_log import Source

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

TABLE = TableId("shop", "t")


def address(server: Source) -> MysqlServer:
    return MysqlServer(server.host, server.port, server.user, server.password)


def said(source: Source, limit: LagLimit) -> str:
    """What a snapshot of `source` waits for, "" for nothing."""
    late = ReplicaWatch(address(source), limit).look()
    return "" if late is None else late.message


@pytest.mark.nightly
def test_a_chunk_waits_for_replicas_that_lag_or_stand_and_for_no_others(open_pair: OpenPair) -> None:
    with open_pair(replica_options=["--report-host=127.0.0.1"]) as pair:
        master, replica = pair.master, pair.replica
        named = LagLimit(0, [(replica.host, replica.port)])
        run(master, "CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)", "INSERT INTO shop.t VALUES (1)")
        assert "is no replica" in said(master, named)
        pair.replicate()
        pair.catch_up()
        with closing(connect(address(master))) as connection:
            low = end_of_log(connection)
        for limit in (named, LagLimit(0)):
            wait_for(lambda limit=limit: said(master, limit) == "")  # type: ignore[misc]  # its default

        with closing(MysqlRowReader(address(master), DEFAULT_POLICY, "0a", named)) as reader:
            schema = reader.define(TABLE, low, SnapshotOptions()).schema
            order = ChunkOrder(schema, SnapshotOptions(), "", low, "0" * 12)
            with closing(connected(replica)) as other, other.cursor() as cursor:
                cursor.execute("LOCK TABLES shop.t READ")
                run(master, "INSERT INTO shop.t VALUES (2)")
                wait_for(lambda: "seconds behind its master" in said(master, named))
                waiting = reader.read(order)
                lagging = said(master, LagLimit(0)), said(replica, LagLimit(0)), said(master, LagLimit(3600))
            wait_for(lambda: said(master, named) == "")
            time.sleep(2)
            read = reader.read(order)

            run(replica, "STOP SLAVE SQL_THREAD")
            stopped = said(master, named)
            run(replica, "STOP SLAVE", "START SLAVE")
            wait_for(lambda: said(master, named) == "")

    assert (waiting.rows, waiting.cursor, waiting.high) == (None, "", low)
    assert waiting.waits is not None
    assert all("seconds behind its master, and a snapshot waits from 0 on" in each for each in lagging[:2])
    assert lagging[2] == ""
    assert (read.waits, read.rows and len(read.rows)) == (None, 2)
    assert f":{replica.port} does not replicate, so nobody knows how far it is behind" in stopped


@pytest.mark.nightly
def test_who_cannot_be_asked_is_waited_for_only_if_the_file_names_it(
    open_pair: OpenPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked(*replicas: dict[str, object]) -> tuple[str, str]:
        """What `penstock check FILE --connect` says of replicas."""
        login = {"host": pair.master.host, "port": pair.master.port, "user": pair.master.user, "password_env": "LAG"}
        more = {"name": "db", "kind": "mysql", "tables": ["shop.*"], "max_replica_lag_seconds": 5}
        source = MysqlSourceSpec.model_validate({**login, **more, "replicas": replicas})
        (found,) = [each for each in examine_source(source, "p") if each.subject == "source db, replicas"]
        return found.level, found.message

    with open_pair(replica_options=["--report-host=127.0.0.1", "--report-port=1"]) as pair:
        pair.replicate()
        pair.catch_up()
        run(
            pair.master,
            "CREATE USER 'few'@'%' IDENTIFIED BY 'few'",
            "GRANT SELECT, REPLICATION SLAVE ON *.* TO 'few'@'%'",
        )
        few = replace(address(pair.master), user="few", password="few")

        monkeypatch.setenv("LAG", pair.master.password)
        assert checked() == ("ok", "none is more than 5 seconds behind")
        assert checked({"host": "127.0.0.1", "port": 1})[0] == "warning"
        known, named = said(pair.master, LagLimit(0)), said(pair.master, LagLimit(0, [("127.0.0.1", 1)]))
        with (
            pytest.raises(UnfitServerError) as denied,
            closing(MysqlRowReader(few, DEFAULT_POLICY, "0a", LagLimit(0))) as reader,
        ):
            reader.check(TABLE, SnapshotOptions())

    assert known == ""
    assert named.startswith("nobody knows how far the replica penstock@127.0.0.1:1 is behind")
    assert "GRANT SLAVE MONITOR" in denied.value.hint


@pytest.mark.nightly
def test_a_run_that_ends_by_itself_leaves_a_snapshot_that_waits_to_the_next_one(
    mariadb: MariadbServer, chain_parts: tuple[KafkaBroker, str, int], fresh_database: str, tmp_path: Path
) -> None:
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    chain.write("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    chain.start()
    chain.carry()
    config = yaml.safe_load(chain.file.read_text())
    config["sources"][0] |= {"max_replica_lag_seconds": 5, "replicas": [{"host": "127.0.0.1", "port": 1}]}
    chain.file.write_text(yaml.safe_dump(config))
    ask_for_snapshots(chain.spec, [f"{chain.name}.t"], SnapshotOptions())
    chain.write("INSERT INTO t VALUES (3)")

    carry_link(chain.spec, chain.source, 1)
    (waiting,) = read_snapshots(chain.spec)
    chain.write_objects()
    chain.load()
    live = chain.query('SELECT id FROM "{schema}".t ORDER BY 1')
    del config["sources"][0]["replicas"]
    chain.file.write_text(yaml.safe_dump(config))
    carry_link(chain.spec, chain.source, 1)
    (done,) = read_snapshots(chain.spec)

    assert (waiting.status, waiting.rows) == (Status.RUNNING, 0)
    assert waiting.error.startswith("nobody knows how far the replica")
    assert live == [(1,), (2,), (3,)]
    assert (done.status, done.rows, done.error) == (Status.DONE, 3, "")
