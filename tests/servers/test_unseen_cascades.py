"""What foreign keys change behind the log where a server, or our user, does not show it now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.servers.chain import make_chain
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.core.snapshots import SnapshotOptions
from penstock.embedded.mysql import start_mysql
from penstock.jobs.in_process import carry_link
from penstock.wiring.snapshots import ask_for_snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.chain import Chain

    from penstock.embedded.debian import DebianPackage
    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer
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


@pytest.mark.nightly
def test_a_table_stops_whose_parent_is_not_shown_and_goes_on_when_it_is(
    chain_parts: tuple[KafkaBroker, str, int], mariadb: MariadbServer, fresh_name: str, tmp_path: Path
) -> None:
    chain = make_chain(tmp_path, fresh_name, mariadb, chain_parts)
    replace(chain, name="mysql").write(
        f"CREATE DATABASE {fresh_name}",
        f"CREATE OR REPLACE USER unaware IDENTIFIED BY '{mariadb.password}'",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT, RELOAD ON *.* TO unaware",
    )
    chain.write(
        "CREATE TABLE customers (id INT PRIMARY KEY)",
        _CHILD.format("orders", "customers"),
        _CHILD.format("goods", "orders"),
        "INSERT INTO customers VALUES (1), (2), (3)",
        "INSERT INTO orders VALUES (1, 1), (2, 2), (3, 3)",
        "INSERT INTO goods VALUES (1, 1), (2, 2), (3, 3)",
        "GRANT SELECT ON customers TO unaware",
        "GRANT SELECT ON goods TO unaware",
    )
    text = chain.file.read_text().replace("    user: penstock\n", "    user: unaware\n")
    chain.file.write_text(text.replace(f'"{fresh_name}.*"', f"{fresh_name}.customers, {fresh_name}.goods"))
    checked = CliRunner().invoke(app, ["check", str(chain.file), "--connect"])
    chain.start()
    chain.carry()
    chain.write("DELETE FROM customers WHERE id = 1")
    chain.carry()

    grant = f"GRANT SELECT ON `{fresh_name}`.`orders` TO unaware"
    assert checked.exit_code != 0
    assert grant in checked.stdout
    (table, hint), *_ = stopped(chain).items()
    assert table == "goods"
    assert hint.startswith(grant)

    chain.write(grant)
    ask_for_snapshots(chain.spec, [f"{fresh_name}.goods"], SnapshotOptions())
    chain.capture()
    carry_link(chain.spec, chain.source, 1)
    chain.write_objects()
    chain.load()
    assert stopped(chain) == {}
    assert chain.query("SELECT id FROM {schema}.goods ORDER BY id") == [(2,), (3,)]
    chain.write("DELETE FROM customers WHERE id = 2")
    chain.carry()

    assert set(stopped(chain)) == {"goods"}
    replace(chain, name="mysql").write("DROP USER unaware")
