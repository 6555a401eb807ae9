"""MariaDB's sequences, whose counters are rows in the log and no rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.servers.chain import make_chain

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer


def test_a_sequence_beside_the_tables_that_are_carried_stops_nothing_and_is_no_table(
    mariadb: MariadbServer, chain_parts: tuple[KafkaBroker, str, int], fresh_database: str, tmp_path: Path
) -> None:
    chain = make_chain(tmp_path, fresh_database, mariadb, chain_parts)
    chain.write("CREATE SEQUENCE old", "CREATE TABLE t (id BIGINT PRIMARY KEY DEFAULT NEXTVAL(old), v INT)")
    chain.start()
    chain.write(
        "INSERT INTO t (v) VALUES (1), (2)",
        "CREATE SEQUENCE new START WITH 70 NOCACHE",
        "INSERT INTO t VALUES (NEXTVAL(new), 3), (NEXTVAL(new), 4)",
        "SELECT SETVAL(new, 90)",
        "DROP SEQUENCE old",
        "CREATE TABLE old (id INT PRIMARY KEY)",
        "INSERT INTO old VALUES (9)",
    )
    chain.carry()
    chain.mirror()

    assert [(table.table, table.error) for table in chain.status().tables if table.error] == []
    assert chain.query("SELECT id, v FROM {schema}.t ORDER BY id") == [(1, 1), (2, 2), (70, 3), (71, 4)]
    assert chain.query("SELECT id FROM {schema}.old") == [(9,)]
    assert {table.table for table in chain.status().tables} == {f"{chain.name}.t", f"{chain.name}.old"}
