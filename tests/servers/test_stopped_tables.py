"""A table that a narrower type has stopped: undoing the change does not help, and what its hint says does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.chain import Chain, make_chain

from penstock.embedded.mariadb import start_mariadb
from penstock.wiring.health import find_problems
from penstock.wiring.load_plans import plan_loads

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer


@pytest.fixture
def stopped(
    mariadb: MariadbServer,
    chain_parts: tuple[KafkaBroker, str, int],
    fresh_database: str,
    tmp_path: Path,
) -> Chain:
    """A pipeline with one table, which stopped as a column of it became narrower; then that was undone."""
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    chain.write("CREATE TABLE orders (id INT PRIMARY KEY, n INT)", "INSERT INTO orders VALUES (1, 1)")
    chain.start()
    chain.carry()
    chain.write("ALTER TABLE orders MODIFY n SMALLINT", "INSERT INTO orders VALUES (2, 2)")
    chain.write("ALTER TABLE orders MODIFY n INT", "INSERT INTO orders VALUES (3, 3)")
    chain.carry()
    chain.mirror("stopped")
    return chain


def told(chain: Chain) -> list[str]:
    return [f"{table.error} {table.hint}" for table in chain.status().tables if table.error]


@pytest.mark.nightly
def test_a_change_that_is_undone_leaves_its_table_stopped_and_the_hint_says_so(stopped: Chain) -> None:
    (said,) = told(stopped)

    assert "which does not hold every value it held before" in said
    assert "even if the change is undone" in said
    assert stopped.query("SELECT id FROM {schema}.orders") == [(1,)]
    (problem,) = find_problems(stopped.status(), "shop.yaml")
    assert "start a new pipeline with an initial snapshot" in problem.hint
    assert "penstock run shop.yaml" not in problem.hint
    ((table, error),) = [(plan.table, plan.error) for plan in plan_loads(stopped.spec)]
    assert table == f"{stopped.name}.orders"
    assert error == problem.text


def test_a_new_table_with_its_rows_and_its_name_goes_on(stopped: Chain) -> None:
    stopped.write("CREATE TABLE renewed LIKE orders", "INSERT INTO renewed SELECT * FROM orders")
    stopped.write("DROP TABLE orders", "RENAME TABLE renewed TO orders", "INSERT INTO orders VALUES (4, 4)")
    stopped.carry()
    stopped.mirror("stopped")

    assert stopped.query("SELECT id, n FROM {schema}.orders ORDER BY id") == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert told(stopped) == []


@pytest.mark.nightly
def test_a_column_that_one_statement_drops_and_adds_stops_its_table_though_it_looks_as_before(stopped: Chain) -> None:
    stopped.write("CREATE TABLE marks (id INT PRIMARY KEY, n INT)", "INSERT INTO marks VALUES (1, 1)")
    stopped.write("ALTER TABLE marks DROP COLUMN n, ADD COLUMN n INT", "INSERT INTO marks VALUES (2, 2)")
    stopped.carry()
    stopped.mirror("stopped")

    said = next(text for text in told(stopped) if "marks" in text)

    assert "dropped it and added it again" in said
    assert stopped.query("SELECT id, n FROM {schema}.marks") == [(1, 1)]


def test_a_table_that_the_start_of_the_log_stops_says_how_a_new_pipeline_gets_by(
    chain_parts: tuple[KafkaBroker, str, int], fresh_name: str, tmp_path: Path
) -> None:
    with start_mariadb(tmp_path / "source") as server:
        chain = make_chain(tmp_path, fresh_name, server, chain_parts)
        Chain(chain.file, "mysql", server).write(f"CREATE DATABASE {fresh_name}")
        chain.write("CREATE TABLE orders (n INT PRIMARY KEY)", "ALTER TABLE orders MODIFY n SMALLINT")
        chain.file.write_text(chain.file.read_text().replace("start: snapshot", "start: auto"))

        assert "from the start of the log" in chain.start()
        chain.carry()
        chain.mirror()

        (said,) = told(chain)
        assert "`start: snapshot`" in said
