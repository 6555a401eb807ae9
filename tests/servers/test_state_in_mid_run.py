"""A state database that goes away in mid-run: what needs it waits, what does not goes on, and nothing is lost."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from tests.servers.chain import Chain, make_chain

from penstock.core.errors import UnavailableError
from penstock.core.tables import TableId
from penstock.dev.postgres import PostgresServer, start_postgres
from penstock.links.capture.spec import CaptureSpec
from penstock.links.counts import CarriedRows
from penstock.wiring.capture import open_live
from penstock.wiring.mirror import LinkCondition, Mirror
from penstock.wiring.open import open_pipeline_state, open_tracker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer


@dataclass(slots=True)
class Database:
    """A PostgreSQL that can be killed and started again."""

    home: Path
    stack: ExitStack
    server: PostgresServer

    def kill(self) -> None:
        self.server.kill()

    def start(self) -> None:
        self.server = self.stack.enter_context(start_postgres(self.home))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with ExitStack() as stack:
        home = tmp_path / "postgres"
        yield Database(home, stack, stack.enter_context(start_postgres(home)))


@pytest.fixture
def chain(
    mariadb: MariadbServer,
    chain_parts: tuple[KafkaBroker, str, int],
    database: Database,
    fresh_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Chain:
    """A pipeline that has carried two rows, with its state in `database`."""
    monkeypatch.setenv("CHAIN_STATE_URL", str(database.server.facts()["url"]))
    chain = make_chain(tmp_path, fresh_name, mariadb, chain_parts, "state: {url_env: CHAIN_STATE_URL}")
    Chain(chain.file, "mysql", mariadb).write(
        f"CREATE DATABASE {fresh_name}",
        f"CREATE TABLE {fresh_name}.orders (id INT PRIMARY KEY)",
        f"INSERT INTO {fresh_name}.orders VALUES (1), (2)",
    )
    chain.start()
    chain.carry()
    return chain


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until it holds; TimeoutError after a minute."""
    deadline = time.monotonic() + 60.0
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.1)


def test_rows_are_carried_without_it_and_a_statement_waits_for_it(chain: Chain, database: Database) -> None:
    spec = chain.spec
    with closing(open_live(CaptureSpec(spec, chain.source, 1))) as live:
        live.run(0.3, None)
        database.kill()
        chain.write("INSERT INTO orders VALUES (3)")
        carried = live.run(2.0, None)
        chain.write("ALTER TABLE orders ADD COLUMN note TEXT", "INSERT INTO orders VALUES (4, 'four')")
        with pytest.raises(UnavailableError, match="the state database"):
            live.run(20.0, None)
    with pytest.raises(UnavailableError, match="the state database"):
        chain.status()
    database.start()
    chain.carry()

    assert carried.rows == 1
    with closing(open_tracker(spec, spec.sources[0])) as tracker:
        schema = tracker.table_schema(TableId(chain.name, "orders"))
    assert schema is not None
    assert [column.name for column in schema.columns] == ["id", "note"]
    assert chain.query("SELECT id, note FROM {schema}.orders ORDER BY id") == [
        (1, None),
        (2, None),
        (3, None),
        (4, "four"),
    ]


@pytest.mark.nightly
def test_counts_wait_until_it_is_back(chain: Chain, database: Database) -> None:
    with closing(open_pipeline_state(chain.spec)) as state:
        counts = CarriedRows("x", state)
        counts.add({"shop.orders": (1, 50)}, 7)
        database.kill()
        counts.add({"shop.orders": (2, 40)}, 8)
        counts.add({"shop.orders": (3, 60), "shop.users": (4, 70)}, 9)
        database.start()
        counts.add({})

        told = {t.table: (t.rows, t.last_timestamp_ms) for t in state.tables() if t.link == "x"}
        assert told == {"shop.orders": (6, 60), "shop.users": (4, 70)}
        assert state.place("x") == 9


@pytest.mark.nightly
def test_the_mirror_goes_on_when_it_is_back(chain: Chain, database: Database) -> None:
    with Mirror(chain.spec, {chain.source: LinkCondition("running")}):
        wait_for(lambda: any(link.link == chain.source for link in chain.status().links))
        database.kill()
        chain.write("INSERT INTO orders VALUES (3)")
        time.sleep(2.0)
        database.start()
        chain.capture()
        wait_for(lambda: 3 in {table.rows for table in chain.status().tables if table.link == chain.source})

        assert chain.status().links[-1].state == "running"
