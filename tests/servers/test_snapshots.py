"""Snapshots of a running pipeline's tables, between real servers, and killed in the middle."""

from __future__ import annotations

import signal
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import duckdb
import pytest
import yaml
from tests.servers.capture_processes import spawn_capture
from tests.servers.chain import Chain, make_chain
from tests.servers.kinds import first

from penstock.core.errors import UsageError
from penstock.core.snapshots import SnapshotOptions, Status, Wanted
from penstock.wiring.open import open_snapshot_list, open_topic_log
from penstock.wiring.snapshots import ask_for_snapshots, read_snapshots, want_snapshots

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer


@pytest.fixture
def chain(
    mariadb: MariadbServer,
    chain_parts: tuple[KafkaBroker, str, int],
    fresh_database: str,
    tmp_path: Path,
) -> Chain:
    """A pipeline that carries the table `first` alone, and is to carry no other by itself."""
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    carry_tables(chain, f"{chain.name}.first", "never")
    return chain


def carry_tables(chain: Chain, tables: str, snapshot: str) -> None:
    """Write another config."""
    config = yaml.safe_load(chain.file.read_text())
    config["sources"][0] |= {"tables": [tables], "snapshot": snapshot}
    chain.file.write_text(yaml.safe_dump(config))


def ask(chain: Chain, *tables: str, **options: object) -> None:
    names = [f"{chain.name}.{table}" for table in tables]
    ask_for_snapshots(chain.spec, names, SnapshotOptions(**options))  # type: ignore[arg-type]


def statuses(chain: Chain) -> dict[str, str]:
    return {each.table.partition(".")[2]: each.status for each in read_snapshots(chain.spec)}


def messages(chain: Chain, table: str) -> int:
    """How many messages the table's topic has."""
    place = (f"{chain.source}.{chain.name}.{table}", 0)
    with closing(open_topic_log(chain.spec)) as log:
        return sum(len(part) for part in log.read(*place, 0, log.ends([place])[place]))


def source_rows(chain: Chain, sql: str) -> list[tuple[object, ...]]:
    with chain.cursor() as cursor:
        cursor.execute(sql)
        return sorted(tuple(row) for row in cursor.fetchall())


@contextmanager
def writers(chain: Chain) -> Iterator[None]:
    """Insert, change, delete and move rows of `first` all the while."""
    stop = threading.Event()

    def write() -> None:
        number = 0
        with chain.cursor() as cursor:
            while not stop.is_set():
                number += 1
                cursor.execute(f"INSERT INTO first VALUES ({10_000 + number}, {number})")
                cursor.execute(f"UPDATE first SET n = n + 1 WHERE id % 50 = {number % 50}")
                cursor.execute(f"DELETE FROM first WHERE id = {number * 7 % 2000}")
                cursor.execute(f"UPDATE IGNORE first SET id = id + 100000 WHERE id = {number * 11 % 2000}")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("place", first(1, "snapshot.refreshed:3", "publish.messages_sent:4", "publish.sent:5"))
def test_a_snapshot_that_is_killed_under_writes_goes_on_and_doubles_nothing(chain: Chain, place: str) -> None:
    chain.write("CREATE TABLE first (id INT PRIMARY KEY, n INT)", "INSERT INTO first SELECT seq, 0 FROM seq_1_to_2000")
    chain.write("CREATE TABLE still (id INT PRIMARY KEY, n INT)", "INSERT INTO still SELECT seq, 0 FROM seq_1_to_2000")
    carry_tables(chain, f"{chain.name}.*", "never")
    chain.start()
    chain.carry()

    ask(chain, "first", "still", chunk_rows=150)
    with writers(chain):
        died = spawn_capture(chain, 2, place)
        chain.capture(3)
    chain.capture(3)
    chain.write_objects()
    chain.load()

    assert died == -signal.SIGKILL
    assert statuses(chain) == {"first": Status.DONE, "still": Status.DONE}
    assert messages(chain, "still") == 4000
    assert sorted(chain.query("SELECT id, n FROM {schema}.first")) == source_rows(chain, "SELECT id, n FROM first")


def test_a_table_that_the_config_adds_gets_a_snapshot_by_itself(chain: Chain) -> None:
    chain.write("CREATE TABLE first (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY, n INT)")
    chain.write("INSERT INTO other SELECT seq, seq FROM seq_1_to_10", "CREATE TABLE keyless (n INT)")
    chain.start()
    chain.carry()
    carry_tables(chain, f"{chain.name}.*", "initial")
    chain.write("UPDATE other SET n = 0 WHERE id = 3", "DELETE FROM other WHERE id = 4")

    chain.carry()

    assert statuses(chain) == {"other": Status.DONE, "keyless": Status.FAILED}
    assert sorted(chain.query("SELECT id, n FROM {schema}.other")) == source_rows(chain, "SELECT id, n FROM other")


@pytest.mark.nightly
def test_the_snapshot_of_a_table_that_the_config_adds_waits_for_rows_that_are_prepared(chain: Chain) -> None:
    chain.write("CREATE TABLE first (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)")
    chain.start()
    chain.carry()
    chain.write("XA START 'x'", "INSERT INTO other VALUES (1)", "XA END 'x'", "XA PREPARE 'x'")
    chain.carry()

    carry_tables(chain, f"{chain.name}.*", "when-needed")
    chain.carry()
    (waits,) = read_snapshots(chain.spec)
    chain.write("XA COMMIT 'x'", "INSERT INTO other VALUES (2)")
    # The snapshot is looked at before the commit is read, and nobody waits here until it is looked at again.
    chain.carry()
    chain.carry()

    assert waits.status == Status.RUNNING
    assert "XA transactions from before the start of the capture" in waits.error
    assert statuses(chain) == {"other": Status.DONE}
    assert sorted(chain.query("SELECT id FROM {schema}.other")) == [(1,), (2,)]


def test_a_table_that_stopped_goes_on_with_a_snapshot_and_without_what_went_meanwhile(chain: Chain) -> None:
    chain.write("CREATE TABLE first (id INT PRIMARY KEY, n INT)", "INSERT INTO first VALUES (1, 1), (2, 2), (3, 3)")
    chain.start()
    chain.carry()
    chain.write(
        "ALTER TABLE first MODIFY n SMALLINT", "DELETE FROM first WHERE id = 1", "INSERT INTO first VALUES (4, 4)"
    )
    chain.carry()
    chain.mirror()
    assert [table.table for table in chain.status().tables if table.error]

    ask(chain, "first")
    chain.carry()
    chain.write("UPDATE first SET n = 44 WHERE id = 4")
    chain.carry()
    chain.mirror()

    assert [table.error for table in chain.status().tables if table.error] == []
    assert sorted(chain.query("SELECT id, n FROM {schema}.first")) == [(2, 2), (3, 3), (4, 44)]


@pytest.mark.nightly
def test_a_table_that_its_target_refuses_goes_on_with_a_full_refresh(chain: Chain) -> None:
    chain.write("CREATE TABLE first (id INT PRIMARY KEY, n INT)", "INSERT INTO first VALUES (1, 1), (2, 2)")
    chain.start()
    chain.carry()
    with duckdb.connect(str(chain.spec.home / "wh.duckdb")) as target:
        target.execute(f"ALTER TABLE {chain.name}.first DROP COLUMN n")
    chain.write("DELETE FROM first WHERE id = 1", "INSERT INTO first VALUES (3, 3)")
    chain.carry()
    chain.mirror()
    (stopped,) = [table for table in chain.status().tables if table.error]

    ask(chain, "first", full_refresh=True)
    chain.carry()
    chain.write("UPDATE first SET n = 33 WHERE id = 3")
    chain.carry()
    chain.mirror()

    assert "penstock snapshot FILE TABLE --full-refresh" in stopped.hint
    assert [table.error for table in chain.status().tables if table.error] == []
    assert sorted(chain.query("SELECT id, n FROM {schema}.first")) == [(2, 2), (3, 33)]


@pytest.mark.nightly
def test_when_needed_a_table_that_stopped_gets_one_at_the_next_start_but_not_again_where_that_failed(
    chain: Chain,
) -> None:
    chain.write("CREATE TABLE first (id INT PRIMARY KEY, n INT)", "INSERT INTO first VALUES (1, 1), (2, 2)")
    carry_tables(chain, f"{chain.name}.first", "when-needed")
    chain.start()
    chain.write("ALTER TABLE first MODIFY n SMALLINT", "DELETE FROM first WHERE id = 1")
    chain.carry()
    assert statuses(chain) == {}

    chain.carry()
    assert statuses(chain) == {"first": Status.DONE}
    assert chain.query("SELECT id, n FROM {schema}.first") == [(2, 2)]
    chain.write("ALTER TABLE first MODIFY n TINYINT", "ALTER TABLE first DROP PRIMARY KEY")
    for _ in range(3):
        chain.capture()

    assert statuses(chain) == {"first": Status.FAILED}
    with closing(open_snapshot_list(chain.spec)) as snapshots:
        assert [each.status for each in snapshots.all()] == [Status.DONE, Status.FAILED]


def test_listed_keys_are_read_again_and_those_that_are_gone_are_deleted(chain: Chain) -> None:
    chain.write("CREATE TABLE first (id INT PRIMARY KEY, n INT NOT NULL)", "INSERT INTO first VALUES (1, 1), (2, 2)")
    chain.start()
    chain.carry()
    # What no log tells: the target is wrong from here on.
    chain.write("SET sql_log_bin = 0", "DELETE FROM first WHERE id = 1", "UPDATE first SET n = 22 WHERE id = 2")

    ask(chain, "first", keys=('{"id": 1}', "2"))
    chain.carry()

    assert chain.query("SELECT id, n FROM {schema}.first") == [(2, 22)]


def test_what_cannot_be_is_said_and_live_changes_go_on(chain: Chain) -> None:
    chain.write("CREATE TABLE first (id INT PRIMARY KEY, n INT)", "INSERT INTO first SELECT seq, 0 FROM seq_1_to_100")
    chain.write("CREATE TABLE keyless (n INT)")
    carry_tables(chain, f"{chain.name}.*", "never")
    chain.start()
    chain.carry()

    with pytest.raises(UsageError, match="no source of the file carries"):
        ask_for_snapshots(chain.spec, ["elsewhere.t"], SnapshotOptions())
    with pytest.raises(UsageError, match="has no table"):
        ask(chain, "nothing")
    with pytest.raises(UsageError, match="has no primary key"):
        ask(chain, "keyless")
    with pytest.raises(UsageError, match="the server refused the condition"):
        ask(chain, "first", where="id >")
    with pytest.raises(UsageError, match="is no primary key of"):
        ask(chain, "first", keys=('{"n": 1}',))
    ask(chain, "first", where="id <= 10", chunk_rows=3)
    with pytest.raises(UsageError, match="under way already"):
        ask(chain, "first")
    want_snapshots(chain.spec, [f"{chain.name}.first"], Wanted.PAUSE)
    chain.write("DROP TABLE first", "CREATE TABLE second (id INT PRIMARY KEY)", "INSERT INTO second VALUES (1)")
    chain.carry()
    want_snapshots(chain.spec, [f"{chain.name}.first"], Wanted.RUN)
    chain.carry()

    assert statuses(chain) == {"first": Status.FAILED}
    (snapshot,) = read_snapshots(chain.spec)
    assert "is not carried now" in snapshot.error
    assert chain.query("SELECT id FROM {schema}.second") == [(1,)]


def test_a_table_that_is_altered_in_the_middle_of_its_snapshot_comes_whole(chain: Chain) -> None:
    chain.write("CREATE TABLE first (id INT PRIMARY KEY, n INT)", "INSERT INTO first SELECT seq, 0 FROM seq_1_to_900")
    chain.start()
    chain.carry()
    ask(chain, "first", chunk_rows=100)

    assert spawn_capture(chain, 2, "snapshot.refreshed:3") == -signal.SIGKILL
    chain.write("ALTER TABLE first ADD m INT DEFAULT 5", "UPDATE first SET m = id")
    chain.capture(3)
    chain.write_objects()
    chain.load()

    assert statuses(chain) == {"first": Status.DONE}
    assert sorted(chain.query("SELECT id, m FROM {schema}.first")) == [(n, n) for n in range(1, 901)]
