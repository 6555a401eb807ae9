"""Databases that our user does not see, as it has no privilege there: the tracker does not have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.chain import Chain, make_chain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.dev.kafka import KafkaBroker
    from penstock.dev.mariadb import MariadbServer
    from penstock.dev.mysql import OracleMysql


@pytest.fixture(params=["mariadb", "mysql_server"])
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

    assert [table.error for table in chain.standing().tables if table.error] == []
    assert chain.query("SELECT a FROM {schema}.t") == [(1,)]
