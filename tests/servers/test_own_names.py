"""Names that a source has and that are like ours, or have dots: no table stops another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.chain import Chain, make_chain

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer


def told(chain: Chain) -> dict[str, str]:
    return {table.table: f"{table.error} {table.hint}" for table in chain.status().tables if table.error}


def test_a_column_with_a_name_of_ours_stops_its_own_table_alone(
    mariadb: MariadbServer, chain_parts: tuple[KafkaBroker, str, int], fresh_database: str, tmp_path: Path
) -> None:
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    chain.write("CREATE TABLE first (id INT PRIMARY KEY, __penstock_op INT)", "INSERT INTO first VALUES (1, 1)")
    chain.write("CREATE TABLE good (id INT PRIMARY KEY)", "INSERT INTO good VALUES (1)")
    chain.start()
    chain.write("CREATE TABLE late (id INT PRIMARY KEY, __PENSTOCK_x INT)", "INSERT INTO late VALUES (1, 1)")
    chain.write("CREATE TABLE grown (id INT PRIMARY KEY)", "ALTER TABLE grown ADD COLUMN __penstock_offset INT")
    chain.write("CREATE TABLE __penstock_staged (id INT PRIMARY KEY)", "INSERT INTO __penstock_staged VALUES (1)")
    chain.write("INSERT INTO grown VALUES (1, 1)", "INSERT INTO good VALUES (2)")
    chain.carry()
    chain.mirror()

    found = told(chain)
    names = ("first", "late", "grown", "__penstock_staged")
    assert set(found) == {f"{fresh_database}.{name}" for name in names}
    assert all("are kept for Penstock's own" in said and "another name" in said for said in found.values())
    assert chain.query("SELECT id FROM {schema}.good ORDER BY id") == [(1,), (2,)]


@pytest.mark.nightly
def test_a_database_with_a_dot_in_its_name_is_carried_run_after_run(
    mariadb: MariadbServer, chain_parts: tuple[KafkaBroker, str, int], fresh_database: str, tmp_path: Path
) -> None:
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    dotted = f"`{fresh_database}.example`"
    chain.write(
        f"CREATE DATABASE {dotted}",
        f"CREATE TABLE {dotted}.`the.orders` (id INT PRIMARY KEY)",
        f"INSERT INTO {dotted}.`the.orders` VALUES (1)",
        "CREATE TABLE orders (id INT PRIMARY KEY)",
    )

    chain.start()
    chain.carry()
    for value in (2, 3):
        chain.write(f"INSERT INTO {dotted}.`the.orders` VALUES ({value})", f"INSERT INTO orders VALUES ({value})")
        chain.carry()
    chain.write(f"RENAME TABLE {dotted}.`the.orders` TO {dotted}.renamed", f"ALTER TABLE {dotted}.renamed ADD n INT")
    chain.write(f"INSERT INTO {dotted}.renamed VALUES (4, 4)")
    chain.carry()
    chain.mirror()

    assert told(chain) == {}
    assert chain.query("SELECT id FROM {schema}.orders ORDER BY id") == [(2,), (3,)]
    rows = chain.query('SELECT id, n FROM "{schema}.example".renamed ORDER BY id')
    assert rows == [(1, None), (2, None), (3, None), (4, 4)]
    chain.write(f"DROP DATABASE {dotted}")
