"""What MariaDB 11.8 has and 10.11 has not arrives by the copy and by the log; skips where 11.8 cannot be had."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.conftest import tracker_home
from tests.servers.sessions import log_in

from penstock.embedded.mariadb import Flavour, start_mariadb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.pipeline.conftest import PipelineCase, SharedServers

    from penstock.embedded.debian import DebianPackage
    from penstock.embedded.mariadb import MariadbServer


@pytest.fixture
def case(
    shared_servers: SharedServers,
    newer_mariadb: MariadbServer,
    newer_mariadb_package: DebianPackage,
    fresh_name: str,
    tmp_path: Path,
) -> Iterator[PipelineCase]:
    """A pipeline from MariaDB 11.8, whose tracker is one too: an older one has no VECTOR."""
    server = newer_mariadb
    with (
        start_mariadb(
            tracker_home(tmp_path / "newer_tracker"), Flavour.TRACKER, package=newer_mariadb_package
        ) as tracker,
        closing(log_in(server)) as connection,
    ):
        connection.cursor().execute(f"CREATE DATABASE {fresh_name}")
        yield shared_servers.make_case(server, tracker, fresh_name)


@pytest.mark.nightly
def test_vectors_arrive(case: PipelineCase) -> None:
    case.write(
        "CREATE TABLE places (id INT PRIMARY KEY, v VECTOR(3), w VECTOR(2) NOT NULL, VECTOR INDEX (w))",
        "INSERT INTO places VALUES (1, VEC_FromText('[1.5,-2,0]'), VEC_FromText('[0.25,1e10]'))",
        "INSERT INTO places VALUES (2, NULL, VEC_FromText('[3,4]'))",
    )
    case.run_once()
    case.write(
        "INSERT INTO places VALUES (3, VEC_FromText('[-0.5,0,1e-20]'), VEC_FromText('[5,6]'))",
        "UPDATE places SET v = VEC_FromText('[7,8,9]') WHERE id = 2",
        "UPDATE places SET v = NULL WHERE id = 1",
        "ALTER TABLE places ADD COLUMN x VECTOR(1)",
        "INSERT INTO places VALUES (4, NULL, VEC_FromText('[0,0]'), VEC_FromText('[0.125]'))",
    )

    case.run_once()

    found = case.query(f"SELECT * FROM {case.database}.places ORDER BY id")
    assert case.records("db")[-1]["stopped"] == {}
    assert [tuple(row.values()) for row in found] == [
        (1, None, [0.25, 1e10], None),
        (2, [7.0, 8.0, 9.0], [3.0, 4.0], None),
        (3, [-0.5, 0.0, pytest.approx(1e-20)], [5.0, 6.0], None),
        (4, None, [0.0, 0.0], [0.125]),
    ]


@pytest.mark.nightly
def test_the_end_of_a_period_is_later_than_an_older_server_knows(case: PipelineCase) -> None:
    case.write(
        "CREATE TABLE notes (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING",
        "INSERT INTO notes VALUES (1, 10), (2, 20)",
    )
    case.run_once()
    case.write("UPDATE notes SET v = 11 WHERE id = 1", "DELETE FROM notes WHERE id = 2")

    case.run_once()

    found = case.query(f"SELECT id, v, year(row_end) >= 2038 AS now FROM {case.database}.notes ORDER BY id, v")
    assert [tuple(row.values()) for row in found] == [(1, 10, False), (1, 11, True), (2, 20, False)]
    ends = case.query(f"SELECT DISTINCT epoch_us(row_end) AS e FROM {case.database}.notes WHERE v = 11")
    with closing(case.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT UNIX_TIMESTAMP(row_end) * 1000000 FROM notes")
        assert [{"e": int(row[0])} for row in cursor.fetchall()] == ends
