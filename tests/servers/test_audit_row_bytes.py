"""How wide a table's rows are, as its server's statistics have it, and how many of them make a partition."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.servers.audit_case import AuditPlace
from tests.servers.source_log import address

from penstock.adapters.mysql.audited import AuditedMysql
from penstock.adapters.postgres.connection import PostgresServer as Login
from penstock.adapters.postgres.source.audited import AuditedPostgresSource
from penstock.adapters.postgres.source.publication import Publication
from penstock.core.audit.partition_size import PARTITION_ROWS, partition_size
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.mariadb import MariadbServer

WIDE = 20_000


@pytest.fixture
def place(tmp_path: Path, fresh_name: str, mariadb: MariadbServer, postgres: PostgresServer) -> Iterator[AuditPlace]:
    made = AuditPlace(fresh_name, tmp_path, mariadb, postgres)
    yield made
    made.drop()


def test_wide_rows_of_mariadb_make_small_partitions(place: AuditPlace) -> None:
    place.run(
        "mariadb",
        f"CREATE DATABASE {place.name}",
        f"CREATE TABLE {place.name}.wide (id INT PRIMARY KEY, t LONGTEXT)",
        f"INSERT INTO {place.name}.wide SELECT seq, REPEAT('x', {WIDE}) FROM {place.name}.seq_1_to_200",
        f"CREATE TABLE {place.name}.narrow AS SELECT id FROM {place.name}.wide",
        f"ANALYZE TABLE {place.name}.wide, {place.name}.narrow",
    )

    with closing(AuditedMysql(address(place.mariadb))) as audited:
        found = {name: audited.row_bytes(TableId(place.name, name)) for name in ("wide", "narrow", "gone")}

    assert WIDE < found["wide"] < 4 * WIDE
    assert partition_size(found["wide"]) < PARTITION_ROWS / 2
    assert partition_size(found["narrow"]) == PARTITION_ROWS
    assert found["gone"] == 0


def test_wide_rows_of_postgres_make_small_partitions_where_they_are_out_of_line_and_in_partitions_too(
    place: AuditPlace,
) -> None:
    place.run(
        "postgres",
        f"CREATE SCHEMA {place.name}",
        f"CREATE TABLE {place.name}.wide (id int PRIMARY KEY, t text) PARTITION BY RANGE (id)",
        f"CREATE TABLE {place.name}.part PARTITION OF {place.name}.wide FOR VALUES FROM (0) TO (1000)",
        f"ALTER TABLE {place.name}.part ALTER t SET STORAGE EXTERNAL",
        f"INSERT INTO {place.name}.wide SELECT i, repeat('x', {WIDE}) FROM generate_series(1, 200) i",
        f"CREATE TABLE {place.name}.narrow AS SELECT id FROM {place.name}.wide",
        f"CREATE TABLE {place.name}.empty (id int PRIMARY KEY)",
        f"ANALYZE {place.name}.wide",
        f"ANALYZE {place.name}.narrow",
    )
    server = place.postgres
    login = Login(server.host, server.port, server.database, server.user, server.password, {})

    with closing(AuditedPostgresSource(login, Publication("none"), "stop")) as audited:
        found = {name: audited.row_bytes(TableId(place.name, name)) for name in ("wide", "narrow", "empty")}

    assert WIDE < found["wide"] < 4 * WIDE
    assert partition_size(found["wide"]) < PARTITION_ROWS / 2
    assert partition_size(found["narrow"]) == PARTITION_ROWS
    assert found["empty"] == 0
