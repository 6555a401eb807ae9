"""A target that comes when files are gone is filled by snapshots, and the others are not disturbed."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.servers.capture_processes import spawn_capture
from tests.servers.chain import Chain, make_chain
from tests.servers.forked import run_forked
from tests.servers.test_snapshot_keys import with_blackhole

from penstock.config.load import load
from penstock.core.batches import read_batch
from penstock.core.errors import PositionError
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.snapshots import Method, SnapshotOptions, Status, Wanted
from penstock.jobs.in_process import carry, carry_link
from penstock.links.warehouse.progress import TargetProgress
from penstock.links.warehouse.set_aside import UNFILLED
from penstock.ports.queries import ReadLimits
from penstock.wiring.files import objects_record
from penstock.wiring.health import find_problems
from penstock.wiring.open import OBJECTS_LINK, batch_topic, open_object_store, open_topic_log
from penstock.wiring.sink_kinds.table import sql_kind
from penstock.wiring.snapshots import ask_for_snapshots, read_snapshots, want_snapshots
from penstock.wiring.warehouses import open_state_database

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.batches import Batch
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer

_ROWS = "SELECT id, n FROM {}.{} ORDER BY id"


@pytest.fixture
def chain(
    mariadb: MariadbServer,
    chain_parts: tuple[KafkaBroker, str, int],
    fresh_database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Chain:
    """A pipeline of `first`, and of `log` without a key, whose files go as soon as its target has them."""
    monkeypatch.setattr("penstock.links.warehouse.filling._PERIOD_SECONDS", 0.0)
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts, "objects: {keep_hours: 0}")
    chain.write(
        "CREATE TABLE first (id INT PRIMARY KEY, n INT)",
        "CREATE TABLE log (id INT, n INT)",
        "INSERT INTO first SELECT seq, 0 FROM seq_1_to_300",
        "INSERT INTO log VALUES (1, 1), (1, 1)",
    )
    chain.start()
    chain.carry()
    chain.write("UPDATE first SET n = n + 1 WHERE id <= 200", "DELETE FROM first WHERE id > 290")
    for name in ("gone", "old"):
        chain.write(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT)", f"INSERT INTO {name} VALUES (1, 1)")
    chain.write("DROP TABLE gone", "RENAME TABLE old TO moved")
    chain.carry()
    # The next round finds that its target has all.
    chain.write("INSERT INTO log VALUES (2, 2)")
    chain.carry()
    return chain


def add_target(chain: Chain) -> str:
    """Give the pipeline a second target, and return its link."""
    config = yaml.safe_load(chain.file.read_text())
    config["sinks"].append({"name": "new", "kind": "duckdb", "path": str(chain.spec.home / "new.duckdb")})
    config["links"].append({"from": chain.source, "to": "new"})
    chain.file.write_text(yaml.safe_dump(config))
    return f"{chain.source}-to-new"


def rows(chain: Chain, sink: str, table: str) -> list[tuple[object, ...]]:
    found = sql_kind(chain.spec, chain.spec.sink(sink)).query(_ROWS.format(chain.name, table), ReadLimits()).rows
    return [tuple(row.values()) for row in found.to_pylist()]


def source_rows(chain: Chain, table: str) -> list[tuple[object, ...]]:
    with chain.cursor() as cursor:
        cursor.execute(_ROWS.format(chain.name, table))
        return [tuple(row) for row in cursor.fetchall()]


def unfilled(chain: Chain) -> set[str]:
    """The tables that the new target lacks, by its own record."""
    link = chain.spec.links[-1]
    with closing(open_state_database(chain.spec, link)) as database:
        waiting = TargetProgress(database, chain.spec.pipeline, link.source).waiting()
    return {table.name for table, offset in waiting.items() if offset == UNFILLED}


def batches(chain: Chain) -> Sequence[Batch]:
    place = (batch_topic(chain.spec), 0)
    first = objects_record(chain.spec).batches_from
    with closing(open_topic_log(chain.spec)) as log:
        found = [each for part in log.read(*place, first, log.ends([place])[place]) for each in part]
    return [read_batch(*each) for each in found]


def test_a_target_that_is_added_later_is_filled_and_the_other_one_is_never_emptied(chain: Chain) -> None:
    store = open_object_store(chain.spec)
    gone = {batch.table.name for batch in batches(chain) if batch.path and not store.exists(batch.path)}
    link = add_target(chain)
    chain.write("UPDATE first SET n = 77 WHERE id % 3 = 0", "DELETE FROM first WHERE id % 7 = 0")

    carry_link(chain.spec, link, 1)
    lacking = unfilled(chain)
    chain.write("UPDATE first SET n = 78 WHERE id % 5 = 0", "INSERT INTO first VALUES (1000, 1)")
    before = len(batches(chain))
    carry(chain.spec)

    # No snapshot brings back rows of the table without a key.
    assert gone == {"first", "gone", "old"}
    assert (lacking, unfilled(chain)) == ({"first", "moved"}, set())
    for sink in ("wh", "new"):
        for table in ("first", "log", "moved"):
            assert rows(chain, sink, table) == source_rows(chain, table), (sink, table)
    assert {each.status for each in read_snapshots(chain.spec)} == {Status.DONE}
    told = {batch.table.name: batch.begins_for for batch in batches(chain) if batch.begins_for}
    assert told == {"first": link, "moved": link}
    assert {batch.kind for batch in batches(chain)[before:]} == {SchemaChangeKind.SCHEMA}


def carry_tables(chain: Chain, *tables: str) -> None:
    """Go on with these tables of the first link."""
    config = yaml.safe_load(chain.file.read_text())
    config["links"][0]["tables"] = [f"{chain.name}.{table}" for table in tables]
    chain.file.write_text(yaml.safe_dump(config))
    chain.carry()


@pytest.mark.nightly
def test_a_table_that_its_link_left_out_for_a_while_is_filled_again_and_no_other_one_is(chain: Chain) -> None:
    carry_tables(chain, "log", "moved")
    left_out = unfilled(chain)
    chain.write("TRUNCATE first", "INSERT INTO first VALUES (1, 1)", "INSERT INTO moved VALUES (2, 2)")
    carry_tables(chain, "log", "moved")

    carry_tables(chain, "*")
    carry(chain.spec)
    carry(chain.spec)

    assert (left_out, unfilled(chain)) == ({"first"}, set())
    for table in ("first", "log", "moved"):
        assert rows(chain, "wh", table) == source_rows(chain, table), table
    assert {each.table.rpartition(".")[2] for each in read_snapshots(chain.spec)} == {"first"}


@pytest.mark.nightly
def test_a_table_that_no_snapshot_fills_is_told_with_what_to_type_and_that_fills_it(chain: Chain) -> None:
    link, table = add_target(chain), f"{chain.name}.first"
    config = yaml.safe_load(chain.file.read_text())
    config["sources"][0]["snapshot"] = "never"
    chain.file.write_text(yaml.safe_dump(config))
    carry(chain.spec)
    chain.mirror()
    never = problems(chain, link)

    ask_for_snapshots(chain.spec, [table], SnapshotOptions(full_refresh=True, link=link))
    want_snapshots(chain.spec, [table], Wanted.CANCEL)
    carry(chain.spec)
    chain.mirror()
    cancelled = problems(chain, link)
    ask_for_snapshots(chain.spec, [table], SnapshotOptions(full_refresh=True, link=link))
    carry(chain.spec)
    chain.mirror()

    way = f"penstock snapshot FILE {table} --full-refresh --link {link}"
    assert [(level, way in hint) for level, _, hint in never] == [("error", True)]
    assert "`snapshot` of its source is never: files of batches before" in never[0][1]
    assert [(level, way in hint) for level, _, hint in cancelled] == [("error", True)]
    assert "was cancelled" in cancelled[0][1]
    assert problems(chain, link) == []
    assert rows(chain, "new", "first") == rows(chain, "wh", "first") == source_rows(chain, "first")


@pytest.mark.nightly
def test_a_table_that_can_be_read_under_a_lock_alone_is_not_begun_and_its_hint_fills_it(chain: Chain) -> None:
    with_blackhole(chain)
    link, table = add_target(chain), f"{chain.name}.first"
    chain.write("ALTER TABLE first ENGINE=MyISAM")

    carry(chain.spec)
    chain.mirror()
    refused = problems(chain, link)
    begun = [batch.table.name for batch in batches(chain) if batch.begins_for]
    options = SnapshotOptions(full_refresh=True, link=link, method=Method.BLACKHOLE)
    ask_for_snapshots(chain.spec, [table], options)
    carry(chain.spec)

    way = f"penstock snapshot FILE {table} --blackhole --full-refresh --link {link}, which locks it"
    assert [(level, way in hint) for level, _, hint in refused] == [("error", True)]
    assert begun == ["moved"]
    for sink in ("wh", "new"):
        assert rows(chain, sink, "first") == source_rows(chain, "first"), sink


@pytest.mark.nightly
@pytest.mark.parametrize("ends", ["fails", "killed"])
def test_a_table_that_was_filled_in_part_begins_again_for_its_link_alone(chain: Chain, ends: str) -> None:
    link, table = add_target(chain), f"{chain.name}.first"
    carry_link(chain.spec, link, 1)
    if ends == "killed":
        want_snapshots(chain.spec, [table], Wanted.CANCEL)
        chain.carry()
        ask_for_snapshots(chain.spec, [table], SnapshotOptions(full_refresh=True, link=link, chunk_rows=20))
        died = spawn_capture(chain, 2, "snapshot.refreshed:5")
        chain.write("DELETE FROM first WHERE id < 30")
        carry(chain.spec)
        assert died == -signal.SIGKILL
    else:
        want_snapshots(chain.spec, [table], Wanted.CANCEL)
        chain.carry()
        ask_for_snapshots(chain.spec, [table], SnapshotOptions(full_refresh=True, link=link, chunk_rows=20))
        spawn_capture(chain, 2, "snapshot.refreshed:5")
        want_snapshots(chain.spec, [table], Wanted.CANCEL)
        carry(chain.spec)
        chain.mirror()
        assert [level for level, _, _ in problems(chain, link)] == ["error"]
        assert [batch.ends_for for batch in batches(chain) if batch.ends_for] == [link]
        ask_for_snapshots(chain.spec, [table], SnapshotOptions(full_refresh=True, link=link))
        carry(chain.spec)

    for sink in ("wh", "new"):
        assert rows(chain, sink, "first") == source_rows(chain, "first"), sink
    assert {batch.kind for batch in batches(chain) if batch.table.name == "first"} == {SchemaChangeKind.SCHEMA}


@pytest.mark.nightly
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_part_for_a_link_that_the_file_lost_is_told_and_one_command_fills_it(
    chain: Chain,
    is_cancelled: bool,  # noqa: FBT001 - a parameter
) -> None:
    link, table = add_target(chain), f"{chain.name}.first"
    carry_link(chain.spec, link, 1)
    want_snapshots(chain.spec, [table], Wanted.CANCEL)
    chain.capture()
    ask_for_snapshots(chain.spec, [table], SnapshotOptions(full_refresh=True, link=link, chunk_rows=20))
    spawn_capture(chain, 2, "snapshot.refreshed:5")
    carry(chain.spec, OBJECTS_LINK)
    carry(chain.spec, link)
    part = len(rows(chain, "new", "first"))
    chain.file.write_text(
        chain.file.read_text().replace("name: new\n", "name: newer\n").replace("to: new\n", "to: newer\n")
    )
    if is_cancelled:
        want_snapshots(chain.spec, [table], Wanted.CANCEL)
        carry(chain.spec, chain.source)
    chain.mirror()
    said = problems(chain, chain.source)
    ask_for_snapshots(chain.spec, [table], SnapshotOptions(full_refresh=True, link=f"{link}er"))
    chain.write("DELETE FROM first WHERE id < 30")
    carry(chain.spec)
    chain.mirror()

    assert 0 < part < 290
    assert [(level, f"{table} --full-refresh --link LINK" in hint) for level, _, hint in said] == [("warning", True)]
    assert ("was cancelled" in said[0][1]) is is_cancelled
    assert problems(chain, chain.source) == []
    for sink in ("wh", "newer"):
        assert rows(chain, sink, "first") == source_rows(chain, "first"), sink


@pytest.mark.nightly
def test_a_pipeline_that_is_killed_before_its_new_link_has_asked_asks_with_its_next_run(chain: Chain) -> None:
    link = add_target(chain)

    code = run_forked(_carry_link, str(chain.file), link, crash_at="fill.remembered")
    chain.write("UPDATE first SET n = 5 WHERE id < 9", "DELETE FROM first WHERE id BETWEEN 20 AND 40")
    before = read_snapshots(chain.spec)
    carry(chain.spec)

    assert (code, before) == (-9, [])
    for table in ("first", "log"):
        assert rows(chain, "new", table) == source_rows(chain, table)


@pytest.mark.nightly
def test_a_target_that_is_older_than_the_files_stops_and_an_empty_one_in_its_place_is_filled(chain: Chain) -> None:
    file = chain.spec.home / "wh.duckdb"
    older = file.read_bytes()
    chain.write("INSERT INTO first VALUES (2000, 1)")
    chain.carry()
    chain.write("INSERT INTO first VALUES (2001, 1)")
    chain.carry()
    file.write_bytes(older)
    chain.write("INSERT INTO first VALUES (2002, 1)")

    with pytest.raises(PositionError, match="files of batches before") as raised:
        carry(chain.spec)
    file.unlink()
    carry(chain.spec)

    assert "delete the target's file" in raised.value.hint
    for table in ("first", "log"):
        assert rows(chain, "wh", table) == source_rows(chain, table)


def problems(chain: Chain, link: str) -> list[tuple[str, str, str]]:
    """What `status` finds wrong with the table `first` at a link."""
    found = find_problems(chain.status(), "FILE")
    return [(each.level, each.text, each.hint) for each in found if each.subject == f"{link}, {chain.name}.first"]


def _carry_link(file: str, link: str) -> None:
    carry_link(load(Path(file)), link, 1)
