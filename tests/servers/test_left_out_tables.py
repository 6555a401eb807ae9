"""A table that `tables` leaves out for a while: the others go on, and it comes back with a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.chain import make_chain

from penstock.core.snapshots import SnapshotOptions
from penstock.wiring.snapshots import ask_for_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.chain import Chain
    from tests.servers.postgres_chain import PostgresChain

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer


@pytest.fixture
def chain(
    mariadb: MariadbServer, chain_parts: tuple[KafkaBroker, str, int], fresh_database: str, tmp_path: Path
) -> Chain:
    """A pipeline with two tables of a row each."""
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    chain.write("CREATE TABLE orders (id INT PRIMARY KEY)", "INSERT INTO orders VALUES (1)")
    chain.write("CREATE TABLE users (id INT PRIMARY KEY)", "INSERT INTO users VALUES (1)")
    chain.start()
    chain.carry()
    return chain


def carry(chain: Chain, epoch: int) -> list[str]:
    """Bring all into the target; return what is told of stopped tables."""
    chain.capture(epoch=epoch)
    chain.write_objects()
    chain.load()
    chain.mirror("stopped")
    return [f"{table.error} {table.hint}" for table in chain.status().tables if table.error]


@pytest.mark.parametrize("change", ["ALTER TABLE orders ADD COLUMN n INT", "INSERT INTO orders VALUES (7)"])
def test_it_comes_back_stopped_alone_and_a_snapshot_brings_its_changes(chain: Chain, change: str) -> None:
    every, all_tables = chain.file.read_text(), f'tables: ["{chain.name}.*"]'
    chain.file.write_text(every.replace(all_tables, f'tables: ["{chain.name}.*", "!{chain.name}.orders"]'))
    chain.capture(epoch=2)
    chain.write(change, "INSERT INTO orders (id) VALUES (2)", "INSERT INTO users VALUES (2)")
    without = carry(chain, 2)
    chain.file.write_text(every)

    (told,) = carry(chain, 3)

    assert without == []
    assert "was left out of `tables` at" in told
    assert chain.query("SELECT id FROM {schema}.users ORDER BY id") == [(1,), (2,)]
    assert chain.query("SELECT id FROM {schema}.orders") == [(1,)]
    ask_for_snapshots(chain.spec, [f"{chain.name}.orders"], SnapshotOptions())
    assert carry(chain, 3) == []
    kept = [(1,), (2,), (7,)] if change.startswith("INSERT") else [(1,), (2,)]
    assert chain.query("SELECT id FROM {schema}.orders ORDER BY id") == kept


@pytest.mark.nightly
def test_when_needed_reads_it_again_by_itself(chain: Chain) -> None:
    every = chain.file.read_text().replace("    start: snapshot", "    start: snapshot\n    snapshot: when-needed")
    chain.file.write_text(every.replace(f'["{chain.name}.*"]', f'["{chain.name}.*", "!{chain.name}.orders"]'))
    chain.capture(epoch=2)
    chain.write("INSERT INTO orders VALUES (2)")
    chain.capture(epoch=2)
    chain.file.write_text(every)

    told = carry(chain, 3)

    assert told == []
    assert chain.query("SELECT id FROM {schema}.orders ORDER BY id") == [(1,), (2,)]


@pytest.mark.nightly
def test_a_table_of_postgresql_comes_back_the_same_way(make_postgres: Callable[..., PostgresChain]) -> None:
    chain = make_postgres(
        "CREATE TABLE orders (id int PRIMARY KEY)",
        "CREATE TABLE users (id int PRIMARY KEY)",
        "INSERT INTO orders VALUES (1)",
        "INSERT INTO users VALUES (1)",
    )
    chain.carry()
    every = chain.file.read_text()
    chain.file.write_text(every.replace('tables: ["public.*"]', 'tables: ["public.*", "!public.orders"]'))
    chain.carry()
    chain.write("ALTER TABLE orders ADD COLUMN n int", "INSERT INTO orders (id) VALUES (2)")
    chain.write("INSERT INTO users VALUES (2)")
    chain.carry()
    chain.file.write_text(every)

    chain.carry()

    stopped = chain.stopped()
    assert list(stopped) == ["public.orders"]
    assert "table public.orders was left out of `tables` at" in stopped["public.orders"]
    assert chain.rows("SELECT id FROM public.users ORDER BY id") == [(1,), (2,)]
    ask_for_snapshots(chain.spec, ["public.orders"], SnapshotOptions())
    chain.carry()
    assert chain.stopped() == {}
    assert chain.rows("SELECT id FROM public.orders ORDER BY id") == [(1,), (2,)]
