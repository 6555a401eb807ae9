"""DROP DATABASE, and what is created under its name later, from the log to the warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.chain import Chain, make_chain
from tests.servers.kinds import first

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.embedded.kafka import KafkaBroker
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql


@pytest.fixture(params=first(1, "mariadb", "mysql_server"))
def chain(
    request: pytest.FixtureRequest, kafka: KafkaBroker, schematizer: str, fresh_name: str, tmp_path: Path
) -> Chain:
    """A pipeline that has carried two tables."""
    server: MariadbServer | OracleMysql = request.getfixturevalue(request.param)
    tracker = "tracker_server" if request.param == "mariadb" else "mysql_tracker_server"
    parts = (kafka, schematizer, request.getfixturevalue(tracker).port)
    chain = make_chain(tmp_path, fresh_name, server, parts)
    Chain(chain.file, "mysql", server).write(
        f"CREATE DATABASE {fresh_name}",
        f"CREATE TABLE {fresh_name}.orders (id INT PRIMARY KEY)",
        f"CREATE TABLE {fresh_name}.users (id INT PRIMARY KEY)",
        f"INSERT INTO {fresh_name}.orders VALUES (1), (2)",
        f"INSERT INTO {fresh_name}.users VALUES (1)",
    )
    chain.start()
    chain.carry()
    return chain


def test_the_tables_of_a_dropped_database_end_and_begin_anew(chain: Chain) -> None:
    chain.write(
        "INSERT INTO orders VALUES (3)",
        f"DROP DATABASE {chain.name}",
        f"CREATE DATABASE {chain.name}",
        f"CREATE TABLE {chain.name}.orders (id VARCHAR(9) PRIMARY KEY, note INT)",
        f"INSERT INTO {chain.name}.orders VALUES ('new', 7)",
    )
    chain.carry()

    assert chain.query("SELECT id, note FROM {schema}.orders") == [("new", 7)]
    # A table that is gone keeps its rows, and is told.
    assert chain.query("SELECT id FROM {schema}.users") == [(1,)]
    told = {t.table.removeprefix(f"{chain.name}."): t.hint for t in chain.status().tables if t.link == chain.sink_link}
    assert "the source dropped this table" in told["users"]
    assert "dropped" not in told["orders"]
