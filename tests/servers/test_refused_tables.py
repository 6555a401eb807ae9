"""Tables of a source that its tracker does not take: one that is wanted stops, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.servers.chain import Chain, make_chain

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer


def test_a_table_that_the_tracker_refuses_stops_and_no_other(
    newer_mariadb: MariadbServer, chain_parts: tuple[KafkaBroker, str, int], fresh_name: str, tmp_path: Path
) -> None:
    """The tracker is older than the source, and has no VECTOR."""
    chain = make_chain(tmp_path, fresh_name, newer_mariadb, chain_parts)
    top = Chain(chain.file, "mysql", newer_mariadb)
    top.write(
        f"CREATE DATABASE {fresh_name}",
        f"CREATE DATABASE {fresh_name}_aside",
        f"CREATE TABLE {fresh_name}_aside.v (a INT PRIMARY KEY, b VECTOR(3) NOT NULL)",
        f"CREATE TABLE {fresh_name}.v (a INT PRIMARY KEY, b VECTOR(3) NOT NULL)",
        f"CREATE TABLE {fresh_name}.t (a INT PRIMARY KEY)",
        f"INSERT INTO {fresh_name}.t VALUES (1)",
    )

    chain.start()
    chain.write("INSERT INTO t VALUES (2)", "INSERT INTO v VALUES (1, x'000000000000000000000000')")
    chain.write("ALTER TABLE v ADD c INT")
    chain.carry()
    chain.mirror()

    assert chain.query("SELECT a FROM {schema}.t ORDER BY a") == [(1,), (2,)]
    stopped = {table.table: f"{table.error} {table.hint}" for table in chain.status().tables if table.error}
    assert set(stopped) == {f"{fresh_name}.v"}
    assert "the schema tracker refused its definition" in stopped[f"{fresh_name}.v"]
    assert "give it a server like the source" in stopped[f"{fresh_name}.v"]
