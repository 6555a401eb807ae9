"""A target that comes when files are gone, where the source is PostgreSQL: it is filled by snapshots."""

from __future__ import annotations

import signal
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import yaml

from penstock.config.crash_points import VARIABLE
from penstock.core.batches import read_batch
from penstock.core.snapshots import SnapshotOptions, Status
from penstock.dev.postgres import PASSWORD
from penstock.faults.round import carry_apart
from penstock.jobs.in_process import carry, carry_link
from penstock.ports.queries import ReadLimits
from penstock.wiring.files import objects_record
from penstock.wiring.open import OBJECTS_LINK, batch_topic, open_pipeline_state, open_topic_log
from penstock.wiring.sink_kinds.table import sql_kind
from penstock.wiring.snapshots import ask_for_snapshots, read_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.postgres_chain import PostgresChain

_LARGE = "(SELECT string_agg(md5(i::text || {0}), '') FROM generate_series(1, 200) i)"
_ALL = {
    "added": "SELECT id, n, more FROM public.added ORDER BY id",
    "big": "SELECT id, n, note FROM public.big ORDER BY id",
}


@pytest.fixture
def chain(make_postgres: Callable[..., PostgresChain], monkeypatch: pytest.MonkeyPatch) -> PostgresChain:
    """A pipeline whose files are gone: of `added`, which got a column with a default, and `big`, with large values."""
    monkeypatch.setattr("penstock.links.warehouse.filling._PERIOD_SECONDS", 0.0)
    chain = make_postgres(
        "CREATE TABLE added (id int PRIMARY KEY, n int)",
        "INSERT INTO added SELECT i, i FROM generate_series(1, 50) i",
        "CREATE TABLE big (id int PRIMARY KEY, n int, note text)",
        "ALTER TABLE big ALTER note SET STORAGE EXTERNAL",
        f"INSERT INTO big SELECT i, 0, {_LARGE.format('i')} FROM generate_series(1, 20) i",
    )
    config = yaml.safe_load(chain.file.read_text())
    config["objects"] = {"keep_hours": 0}
    chain.file.write_text(yaml.safe_dump(config))
    chain.carry()
    chain.write("ALTER TABLE added ADD COLUMN more int DEFAULT 5")
    # The next rounds find that the target has all.
    for number in (100, 101, 102):
        chain.write(f"INSERT INTO added VALUES ({number}, 0, 0)", f"UPDATE big SET n = {number} WHERE id = 1")
        chain.carry()
    return chain


def add_target(chain: PostgresChain, tables: str = "public.*") -> str:
    """Give the pipeline a second target, of these tables, and return its link."""
    config, source = yaml.safe_load(chain.file.read_text()), chain.spec.sources[0].name
    config["sinks"].append({"name": "new", "kind": "duckdb", "path": str(chain.spec.home / "new.duckdb")})
    config["links"].append({"from": source, "to": "new", "tables": [tables]})
    chain.file.write_text(yaml.safe_dump(config))
    return f"{source}-to-new"


def rows(chain: PostgresChain, sink: str, table: str) -> list[tuple[object, ...]]:
    found = sql_kind(chain.spec, chain.spec.sink(sink)).query(_ALL[table], ReadLimits()).rows
    return [tuple(row.values()) for row in found.to_pylist()]


def begun_for(chain: PostgresChain) -> dict[str, str]:
    """The tables that the batch topic lets begin for one link, and for which."""
    place = (batch_topic(chain.spec), 0)
    first = objects_record(chain.spec).batches_from
    with closing(open_topic_log(chain.spec)) as log:
        found = [read_batch(*each) for part in log.read(*place, first, log.ends([place])[place]) for each in part]
    # Of files that are gone, so are the messages.
    assert first
    return {batch.table.name: batch.begins_for for batch in found if batch.begins_for}


@pytest.mark.nightly
def test_tables_with_added_columns_and_large_values_are_filled_for_one_link(chain: PostgresChain) -> None:
    link = add_target(chain)
    carry_link(chain.spec, link, 1)
    chain.write("UPDATE big SET n = n + 1", "UPDATE added SET n = 77 WHERE id % 3 = 0", "DELETE FROM big WHERE id = 7")

    carry(chain.spec)

    assert begun_for(chain) == {"added": link, "big": link}
    assert {each.status for each in read_snapshots(chain.spec)} == {Status.DONE}
    for sink in ("wh", "new"):
        for table, sql in _ALL.items():
            assert rows(chain, sink, table) == chain.source_rows(sql), (sink, table)


@pytest.mark.nightly
def test_rows_that_are_changed_before_they_are_read_wait_until_they_come_whole(chain: PostgresChain) -> None:
    link = add_target(chain, "public.big")
    ask_for_snapshots(chain.spec, ["public.big"], SnapshotOptions(full_refresh=True, link=link, chunk_rows=2))
    carry(chain.spec, link)
    _crash_in_chunk(chain)
    # A large value that an UPDATE leaves alone is not in the log.
    chain.write("UPDATE big SET n = n + 1 WHERE id = 20")
    _crash_in_chunk(chain)

    for name in (OBJECTS_LINK, link):
        carry(chain.spec, name)
    waits = stopped(chain, link)
    carry(chain.spec)

    ((table, why),) = waits.items()
    assert (table, "does not have them yet" in why) == ("public.big", True)
    assert stopped(chain, link) == {}
    for sink in ("wh", "new"):
        assert rows(chain, sink, "big") == chain.source_rows(_ALL["big"]), sink


def stopped(chain: PostgresChain, link: str) -> dict[str, str]:
    """The tables that wait at a link, and why."""
    with closing(open_pipeline_state(chain.spec)) as state:
        return dict(state.stopped_tables(link))


def _crash_in_chunk(chain: PostgresChain) -> None:
    """Capture until the next part of a snapshot is committed."""
    log = chain.file.with_name("round.log")
    environment = {"POSTGRES_CHAIN_PASSWORD": PASSWORD, VARIABLE: "snapshot.refreshed:1"}
    assert carry_apart(chain.file, None, environment, log) == -signal.SIGKILL, log.read_text()
