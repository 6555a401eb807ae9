"""Hints are true: a stopped table whose hint is followed goes on, with all of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.chain import Chain, make_chain

from penstock.core.snapshots import SnapshotOptions
from penstock.wiring.snapshots import ask_for_snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer


@pytest.fixture
def chain(
    mariadb: MariadbServer,
    tracker_server: MariadbServer,
    kafka: KafkaBroker,
    schematizer: str,
    fresh_database: str,
    tmp_path: Path,
) -> Chain:
    return make_chain(tmp_path, fresh_database, mariadb, (kafka, schematizer, tracker_server.port))


def told(chain: Chain) -> dict[str, str]:
    """What is said of stopped tables, error and hint."""
    chain.mirror("stopped")
    return {t.table.partition(".")[2]: f"{t.error} {t.hint}" for t in chain.status().tables if t.error}


def follow(chain: Chain, table: str, mended: str) -> None:
    """Do what a hint says: remove the cause, and have the rows read again."""
    chain.write(mended)
    ask_for_snapshots(chain.spec, [f"{chain.name}.{table}"], SnapshotOptions())
    chain.carry()


def test_a_table_whose_engine_knows_no_snapshots_goes_on_when_its_engine_is_another(chain: Chain) -> None:
    chain.write(
        "CREATE TABLE old (id INT PRIMARY KEY, n INT) ENGINE=MyISAM",
        "INSERT INTO old VALUES (1, 1)",
        "CREATE TABLE older (id INT PRIMARY KEY) ENGINE=MyISAM",
    )
    chain.start()
    chain.carry()
    said = told(chain)
    assert f"ALTER TABLE `{chain.name}`.`old` ENGINE=InnoDB, then have the table's rows read again" in said["old"]
    assert set(said) == {"old", "older"}

    follow(chain, "old", "ALTER TABLE old ENGINE=InnoDB")
    chain.write("INSERT INTO old VALUES (2, 2)")
    text = chain.file.read_text()
    chain.file.write_text(text.replace(f'["{chain.name}.*"]', f'["{chain.name}.*", "!{chain.name}.older"]'))
    chain.carry()

    assert told(chain) == {}
    assert chain.query("SELECT id, n FROM {schema}.old ORDER BY id") == [(1, 1), (2, 2)]


@pytest.mark.nightly
def test_a_table_with_a_zero_date_goes_on_when_the_row_is_corrected(chain: Chain) -> None:
    chain.write("CREATE TABLE days (id INT PRIMARY KEY, day DATE)", "INSERT INTO days VALUES (1, '2026-01-02')")
    chain.start()
    chain.carry()
    chain.write("SET SESSION sql_mode = ''", "INSERT INTO days VALUES (2, '0000-00-00')")
    chain.carry()
    said = told(chain)["days"]
    assert "0000-00-00 is no date" in said
    assert "correct the row (UPDATE), then have the table's rows read again" in said
    assert "leave the column out" not in said

    follow(chain, "days", "UPDATE days SET day = '2026-01-03' WHERE id = 2")

    assert told(chain) == {}
    rows = chain.query("SELECT id, day::VARCHAR FROM {schema}.days ORDER BY id")
    assert rows == [(1, "2026-01-02"), (2, "2026-01-03")]


@pytest.mark.nightly
def test_a_stopped_table_that_is_renamed_goes_on_under_its_new_name_and_the_old_one_can_be_left_out(
    chain: Chain,
) -> None:
    chain.write("CREATE TABLE orders (id INT PRIMARY KEY, n INT)", "INSERT INTO orders VALUES (1, 1)")
    chain.start()
    chain.carry()
    chain.write(
        "ALTER TABLE orders MODIFY n SMALLINT", "RENAME TABLE orders TO sales", "INSERT INTO sales VALUES (2, 2)"
    )
    chain.carry()
    said = told(chain)
    assert set(said) == {"orders", "sales"}
    assert "was dropped or got another name since" in said["orders"]

    follow(chain, "sales", "INSERT INTO sales VALUES (3, 3)")
    text = chain.file.read_text()
    chain.file.write_text(text.replace(f'["{chain.name}.*"]', f'["{chain.name}.*", "!{chain.name}.orders"]'))
    chain.carry()

    assert told(chain) == {}
    assert chain.query("SELECT id, n FROM {schema}.sales ORDER BY id") == [(1, 1), (2, 2), (3, 3)]
