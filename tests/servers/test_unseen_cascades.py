"""What foreign keys change behind the log where a server, or our user, does not show it now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.chain import make_chain

from penstock.embedded.mysql import start_mysql

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.chain import Chain

    from penstock.embedded.debian import DebianPackage
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mysql import OracleMysql

_CHILD = "CREATE TABLE {} (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES {} (id) ON DELETE CASCADE)"


def stopped(chain: Chain) -> dict[str, str]:
    """The names of the tables that are stopped, and what their hints say."""
    chain.mirror()
    return {table.table.partition(".")[2]: table.hint for table in chain.status().tables if table.error}


@pytest.mark.nightly
def test_rows_that_innodb_took_along_stop_their_table_also_where_the_server_logs_such_rows_by_now(
    chain_parts: tuple[KafkaBroker, str, int],
    mysql_package: DebianPackage,
    mysql_tracker_server: OracleMysql,
    fresh_name: str,
    tmp_path: Path,
) -> None:
    del mysql_package
    kafka, schematizer, _ = chain_parts
    with start_mysql(tmp_path / "mysql", options=["--innodb-native-foreign-keys=ON"]) as server:
        chain = make_chain(tmp_path, fresh_name, server, (kafka, schematizer, mysql_tracker_server.port))
        replace(chain, name="mysql").write(f"CREATE DATABASE {fresh_name}")
        chain.write(
            "CREATE TABLE parents (id INT PRIMARY KEY)",
            _CHILD.format("children", "parents"),
            "INSERT INTO parents VALUES (1), (2)",
            "INSERT INTO children VALUES (1, 1), (2, 2)",
        )
        chain.start()
        chain.carry()
        chain.write("DELETE FROM parents WHERE id = 1")

    with start_mysql(tmp_path / "mysql"):
        chain.carry()
        first = set(stopped(chain))
        chain.write(
            _CHILD.format("late", "parents"),
            "INSERT INTO parents VALUES (3)",
            "INSERT INTO late VALUES (3, 3), (4, 2)",
            "DELETE FROM parents WHERE id = 3",
        )
        chain.carry()

        assert first == set(stopped(chain)) == {"children"}
        assert chain.query("SELECT id FROM {schema}.late") == [(4,)]
