"""A source for which the case of a table's name does not count, and a tracker for which it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.chain import Chain, make_chain

from penstock.embedded.mariadb import start_mariadb

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker


@pytest.mark.nightly
def test_a_table_that_is_swapped_by_other_letters_stops(
    chain_parts: tuple[KafkaBroker, str, int], fresh_name: str, tmp_path: Path
) -> None:
    with start_mariadb(tmp_path / "source", options=["--lower-case-table-names=1"]) as server:
        chain = make_chain(tmp_path, fresh_name, server, chain_parts)
        Chain(chain.file, "mysql", server).write(f"CREATE DATABASE {fresh_name}")
        chain.write(
            "CREATE TABLE Orders (id INT PRIMARY KEY)",
            "CREATE TABLE Renewed (id INT PRIMARY KEY)",
            "CREATE TABLE others (id INT PRIMARY KEY)",
            "INSERT INTO Orders VALUES (1)",
        )
        chain.start()
        chain.write("RENAME TABLE Orders TO Old, Renewed TO Orders", "INSERT INTO Orders VALUES (2)")
        chain.write("INSERT INTO others VALUES (3)")
        chain.carry()
        chain.mirror()

        stopped = {
            each.table.partition(".")[2]: f"{each.error} {each.hint}" for each in chain.status().tables if each.error
        }
        assert {"orders", "renewed"} <= set(stopped)
        assert "lower_case_table_names=1" in stopped["orders"]
        assert chain.query("SELECT id FROM {schema}.orders") == [(1,)]
        assert chain.query("SELECT id FROM {schema}.others") == [(3,)]
