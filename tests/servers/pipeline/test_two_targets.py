"""One source into two targets: each has every row, whatever becomes of the other."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.servers.fresh_databases import state_database

from penstock.core.errors import SinkError
from penstock.ports.queries import ReadLimits
from penstock.wiring.sink_kinds.table import sql_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.pipeline.conftest import PipelineCase

    from penstock.dev.postgres import PostgresServer

os.environ["SECOND_PASSWORD"] = "penstock"
USERS = "CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(40), score DECIMAL(10,2), photo BLOB, seen DATETIME(6))"


@pytest.fixture
def two_targets(
    make_case: Callable[..., PipelineCase], postgres: PostgresServer, fresh_name: str
) -> Iterator[PipelineCase]:
    """A pipeline into a DuckDB file and into a database of PostgreSQL, `second`."""
    case = make_case()
    config = yaml.safe_load(case.file.read_text())
    login = {"host": postgres.host, "port": postgres.port, "user": postgres.user, "password_env": "SECOND_PASSWORD"}
    config["sinks"].append({"name": "second", "kind": "postgres", "database": fresh_name, **login})
    config["links"].append({"from": "db", "to": "second"})
    case.file.write_text(yaml.safe_dump(config))
    with state_database(postgres, fresh_name):
        yield case


def users(case: PipelineCase, sink: str, columns: str) -> list[tuple[object, ...]]:
    query = f"SELECT {columns} FROM {case.database}.users ORDER BY id"
    found = sql_kind(case.spec, case.spec.sink(sink)).query(query, ReadLimits())
    return [tuple(row.values()) for row in found.rows.to_pylist()]


def test_a_target_that_was_not_there_catches_up_and_the_other_has_not_waited(two_targets: PipelineCase) -> None:
    case, text = two_targets, two_targets.file.read_text()
    values = "(1, 'Ada', 1.50, x'00FF', '2026-01-02 03:04:05.678901'), (2, '', NULL, '', NULL)"
    case.write(USERS, f"INSERT INTO users VALUES {values}")
    # One that is away would be tried for a minute.
    case.file.write_text(text.replace("database: ", "database: not_yet_"))

    with pytest.raises(SinkError, match="refused the login"):
        case.run_once()
    case.assert_equal()
    case.write(
        "UPDATE users SET name = 'Ada Lovelace' WHERE id = 1",
        "ALTER TABLE users ADD COLUMN karma BIGINT NOT NULL DEFAULT 7, MODIFY id BIGINT",
        "DELETE FROM users WHERE id = 2",
        "INSERT INTO users (id, karma) VALUES (3, 1)",
    )
    case.file.write_text(text)
    case.run_once()

    case.assert_equal()
    listed = "id, name, score, photo, seen, karma"
    assert users(case, "second", listed) == users(case, "warehouse", listed)
    assert [row[0] for row in users(case, "second", "id")] == [1, 3]
