"""Redshift, Delta tables and Parquet files are compared with MariaDB as databases are, by the same texts and hashes."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import quote

import duckdb
import pytest
from tests.servers.audit_case import AuditPlace
from tests.servers.redshift_case import log_in, run
from tests.servers.test_audit_signatures import WORDS

from penstock.core.audit.scores import Score
from penstock.core.tables import TableId
from penstock.links.audit.compare import Bounds
from penstock.wiring.audit_urls import HowCompared, TableAt, audit_urls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.core.audit.findings import TableFindings
    from penstock.dev.postgres import PostgresServer
    from penstock.dev.redshift import RedshiftServer
    from penstock.embedded.mariadb import MariadbServer

KINDS = ["delta", "parquet", pytest.param("redshift", marks=pytest.mark.nightly)]
GOLDEN = "id INTEGER, word VARCHAR(20)"
TYPED = (
    "id BIGINT UNSIGNED PRIMARY KEY, small SMALLINT, amount DECIMAL(20,4), big BIGINT UNSIGNED,"
    " word VARCHAR(80) COLLATE utf8mb4_bin, bits VARBINARY(20), born DATE, seen DATETIME(6), instant TIMESTAMP(6) NULL"
)
VALUES = """(1, -32768, -0.0500, 18446744073709551615, 'Ünï "q" \\\\ ', x'00ff', '0001-01-01',
 '1971-02-03 04:05:06.000007', '2037-12-31 23:59:59.999999'), (18446744073709551615, NULL,
 NULL, NULL, NULL, NULL, NULL, NULL, NULL),
 (9223372036854775808, 7, 1234567890123456.7890, 0, '', '', '9999-12-31',
 '9999-12-31 23:59:59', '1971-01-01 00:00:01')"""


@pytest.fixture
def place(tmp_path: Path, fresh_name: str, mariadb: MariadbServer, postgres: PostgresServer) -> Iterator[AuditPlace]:
    """MariaDB with a database."""
    made = AuditPlace(fresh_name, tmp_path, mariadb, postgres)
    made.run("mariadb", f"CREATE DATABASE {fresh_name} CHARACTER SET utf8mb4")
    yield made
    made.drop()


@pytest.fixture
def fill(
    request: pytest.FixtureRequest, place: AuditPlace, fresh_name: str
) -> Iterator[Callable[[str, str, str], str]]:
    """What makes the table of a kind from columns and rows, and says its URL."""
    if request.param != "redshift":
        yield lambda columns, values, change: _write_files(place, request.param, (columns, values, change))
        return
    server: RedshiftServer = request.getfixturevalue("redshift")
    with closing(log_in(server)) as connection:
        run(connection, f"CREATE DATABASE {fresh_name}")

    def fill_redshift(columns: str, values: str, change: str) -> str:
        with closing(log_in(server, dbname=fresh_name)) as connection:
            table = f"{fresh_name}.t"
            run(connection, f"CREATE SCHEMA {fresh_name}", f"CREATE TABLE {table} ({columns})")
            run(connection, f"INSERT INTO {table} VALUES {values}")
            if change:
                run(connection, change.format(t=table))
        user = f"{server.user}:{quote(server.password)}"
        return f"redshift://{user}@{server.host}:{server.port}/{fresh_name}?sslmode=disable"

    yield fill_redshift
    with closing(log_in(server)) as connection:
        run(connection, f"DROP DATABASE {fresh_name}")


@pytest.mark.parametrize("fill", KINDS, indirect=True)
def test_two_changed_words_of_32_score_0_9375_there_too(
    place: AuditPlace, fill: Callable[[str, str, str], str]
) -> None:
    values = ", ".join(f"({number}, '{word}')" for number, word in enumerate(WORDS))
    place.run("mariadb", f"CREATE TABLE {{t}} ({GOLDEN})", f"INSERT INTO {{t}} VALUES {values}")
    url = fill(GOLDEN, values, "UPDATE {t} SET word = 'JPARKIE' WHERE id IN (16, 24)")

    found = _audit(place, url, ("id",))

    assert found.score == Score(0.9375, 0.6875, 1.0)
    assert (found.equal, found.unequal) == (2, 2)
    assert {row.key: dict(row.columns) for row in found.rows} == {
        ("16",): {"word": ("QUEBEC", "JPARKIE")},
        ("24",): {"word": ("YANKEE", "JPARKIE")},
    }


@pytest.mark.parametrize("fill", KINDS, indirect=True)
def test_values_of_all_types_are_written_there_as_in_mariadb(
    request: pytest.FixtureRequest, place: AuditPlace, fill: Callable[[str, str, str], str]
) -> None:
    place.run(
        "mariadb", "SET time_zone = '+00:00'", f"CREATE TABLE {{t}} ({TYPED})", f"INSERT INTO {{t}} VALUES {VALUES}"
    )
    is_redshift = "redshift" in request.node.name
    columns = TYPED.replace("BIGINT UNSIGNED PRIMARY KEY", "DECIMAL(20,0)").replace("BIGINT UNSIGNED", "DECIMAL(20,0)")
    columns = columns.replace("COLLATE utf8mb4_bin", "").replace("DATETIME(6)", "TIMESTAMP")
    columns = columns.replace("TIMESTAMP(6) NULL", "TIMESTAMPTZ").replace(
        "VARBINARY(20)", "VARBYTE(20)" if is_redshift else "BLOB"
    )
    values = VALUES.replace("\\\\", "\\" * (2 if is_redshift else 1)).replace("23:59:59.999999'", "23:59:59.999999+00'")
    values = values.replace("00:00:01'", "00:00:01+00'")
    values = values.replace("x'00ff'", "FROM_HEX('00ff')").replace("'', '', '9999", "'', FROM_HEX(''), '9999")
    url = fill(columns, values, "")

    equal = _audit(place, url)

    assert (equal.state, equal.not_compared, equal.rows) == ("equal", (), ())
    assert equal.source_rows == 3


def _audit(place: AuditPlace, url: str, key: tuple[str, ...] = ()) -> TableFindings:
    source = TableAt(place.url("mariadb"), TableId(place.name, "t"), place.mariadb.password)
    bounds = Bounds(partition_size=8, k=4)
    how = HowCompared(key, "classic" if key else "sha256")
    (found,) = audit_urls(source, TableAt(url, TableId(place.name, "t")), bounds, how).tables
    return found


def _write_files(place: AuditPlace, kind: str, made_of: tuple[str, str, str]) -> str:
    """Have DuckDB write what Spark writes of a table."""
    columns, values, change = made_of
    folder = place.home / "lake" / place.name / "t"
    folder.mkdir(parents=True)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE t ({columns})")
        connection.execute(f"INSERT INTO t VALUES {values}")
        if change:
            connection.execute(change.format(t="t"))
        connection.execute(f"COPY t TO '{folder}/part-1.parquet' (FORMAT parquet)")
        described = connection.execute("SELECT column_name, lower(column_type) FROM (DESCRIBE t)").fetchall()
    if kind == "delta":
        names = {"varchar": "string", "blob": "binary", "bigint": "long", "timestamp": "timestamp_ntz"}
        names |= {"timestamp with time zone": "timestamp", "smallint": "short"}
        fields = [{"name": name, "type": names.get(type_, type_), "metadata": {}} for name, type_ in described]
        actions = [
            {"metaData": {"partitionColumns": [], "schemaString": json.dumps({"fields": fields})}},
            {"add": {"path": "part-1.parquet"}},
        ]
        (folder / "_delta_log").mkdir()
        log = folder / "_delta_log" / f"{0:020d}.json"
        log.write_text("\n".join(json.dumps(action) for action in actions))
    return f"{kind}:///{place.home}/lake"
