"""Databases and tables that our user does not see, as it has no privilege on them: the tracker does not have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.chain import Chain, make_chain
from tests.servers.kinds import first

from penstock.embedded.mysql import OracleMysql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer


@pytest.fixture(params=first(1, "mariadb", "mysql_server"))
def chain(
    request: pytest.FixtureRequest, kafka: KafkaBroker, schematizer: str, fresh_name: str, tmp_path: Path
) -> Iterator[Chain]:
    """A pipeline of one table, whose user may read its database and no other."""
    server: MariadbServer | OracleMysql = request.getfixturevalue(request.param)
    tracker = "tracker_server" if request.param == "mariadb" else "mysql_tracker_server"
    chain = make_chain(tmp_path, fresh_name, server, (kafka, schematizer, request.getfixturevalue(tracker).port))
    top = Chain(chain.file, "mysql", server)
    top.write(
        f"CREATE DATABASE {fresh_name}",
        f"CREATE DATABASE {fresh_name}_hidden",
        f"CREATE TABLE {fresh_name}.t (a INT PRIMARY KEY)",
        f"CREATE USER modest IDENTIFIED BY '{server.password}'",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT, RELOAD ON *.* TO modest",
        f"GRANT SELECT ON {fresh_name}.* TO modest",
    )
    chain.file.write_text(chain.file.read_text().replace("    user: penstock\n", "    user: modest\n"))
    chain.start()
    yield chain
    top.write("DROP USER modest", f"DROP DATABASE IF EXISTS {fresh_name}_hidden", f"DROP DATABASE {fresh_name}")


def test_what_is_done_to_a_database_that_is_not_seen_stops_no_table_of_another(chain: Chain) -> None:
    hidden = f"{chain.name}_hidden"
    chain.write(
        f"ALTER DATABASE {hidden} CHARACTER SET latin1",
        f"CREATE TABLE {hidden}.t (a INT PRIMARY KEY)",
        f"DROP DATABASE {hidden}",
        "INSERT INTO t VALUES (1)",
    )
    chain.carry()
    chain.mirror()

    assert [table.error for table in chain.status().tables if table.error] == []
    assert chain.query("SELECT a FROM {schema}.t") == [(1,)]


def test_what_is_created_if_it_is_not_there_begins_a_table_only_where_it_was_not(chain: Chain) -> None:
    """MySQL logs the statement all the same, and MariaDB only where it has made a table."""
    is_mysql = isinstance(chain.server, OracleMysql)
    top = Chain(chain.file, "mysql", chain.server)
    top.write(
        f"REVOKE SELECT ON {chain.name}.* FROM modest",
        f"GRANT SELECT ON {chain.name}.t TO modest",
        f"CREATE DATABASE IF NOT EXISTS {chain.name}_hidden",
        f"USE {chain.name}",
        "SET SESSION sql_log_bin = 0",
        "CREATE TABLE unseen (a INT PRIMARY KEY)",
        "INSERT INTO unseen VALUES (1)",
        "CREATE VIEW seen AS SELECT a FROM t",
        "SET SESSION sql_log_bin = 1",
        "GRANT SELECT ON seen TO modest",
        "CREATE TABLE IF NOT EXISTS unseen (a INT PRIMARY KEY)",
        "INSERT INTO unseen VALUES (2)",
        "CREATE TABLE IF NOT EXISTS seen (a INT PRIMARY KEY)",
        "CREATE TABLE IF NOT EXISTS later (a INT PRIMARY KEY)",
        "GRANT SELECT ON later TO modest",
        "INSERT INTO later VALUES (3)",
    )
    chain.carry()
    chain.mirror()

    stopped = {table.table.partition(".")[2]: table.error or "" for table in chain.status().tables if table.error}
    assert set(stopped) == {"unseen"}
    assert ("may have found it" in stopped["unseen"]) == is_mysql
    assert chain.query("SELECT a FROM {schema}.later") == [(3,)]
    assert {table.table.partition(".")[2] for table in chain.status().tables} == {"t", "unseen", "later"}
