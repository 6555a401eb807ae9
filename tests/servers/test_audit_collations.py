"""Rows with texts in their key are looked at again whatever the collations of the key and of the server are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from tests.servers.audit_case import AuditPlace
from tests.servers.kinds import first

from penstock.adapters.mysql.audited import AuditedMysql
from penstock.adapters.mysql.catalog import read_tables
from penstock.core.audit.table_plan import KnownTarget, plan_table
from penstock.core.tables import TableId
from penstock.links.audit.compare import Bounds
from penstock.links.audit.table import Databases, audit_table
from penstock.wiring.audit_urls import HowCompared, TableAt, audit_urls

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from penstock.core.audit.findings import TableFindings
    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

KEY: Final = {
    "unicode": "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci",
    "general": "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    "latin": "VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci",
    "enum": "ENUM('a','b','ß') CHARACTER SET utf8mb4 COLLATE utf8mb4_spanish_ci",
}
WRONG: Final[Mapping[tuple[str | None, ...], str]] = {("b",): "different", ("ß",): "missing", ("łódź",): "extra"}


@pytest.fixture(params=["mariadb", "mysql_server"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, fresh_name: str, postgres: PostgresServer
) -> Iterator[AuditPlace]:
    server: MariadbServer | OracleMysql = request.getfixturevalue(request.param)
    made = AuditPlace(fresh_name, tmp_path, server, postgres)
    yield made
    made.drop()


@pytest.mark.parametrize("key", first(2, *KEY))
def test_wrong_rows_are_named_whatever_the_collation_of_the_key(place: AuditPlace, key: str) -> None:
    place.create({"mariadb": f"id {KEY[key]} PRIMARY KEY, n INT", "duckdb": "id VARCHAR, n INT", "postgres": "n INT"})
    place.run("mariadb", "INSERT INTO {t} VALUES ('a', 1), ('b', 2), ('ß', 3)")
    place.run("duckdb", "INSERT INTO {t} VALUES ('a', 1), ('b', 0), ('łódź', 4)")

    by_url = _audit_urls(place)
    by_schema = _audit(place)

    assert (by_url.why, _wrong(by_url)) == ("", WRONG)
    assert (by_schema.why, _wrong(by_schema)) == ("", WRONG)


def _wrong(found: TableFindings) -> Mapping[tuple[str | None, ...], str]:
    return {row.key: row.state for row in found.rows}


def _audit_urls(place: AuditPlace) -> TableFindings:
    table = TableId(place.name, "t")
    source = TableAt(place.url("mariadb"), table, place.mariadb.password)
    (found,) = audit_urls(source, TableAt(place.url("duckdb"), table), Bounds(), HowCompared()).tables
    return found


def _audit(place: AuditPlace) -> TableFindings:
    """As of a pipeline, which has the schema that the source tells."""
    table = TableId(place.name, "t")
    source, target = place.database("mariadb"), place.database("duckdb")
    assert isinstance(source, AuditedMysql)
    schema = read_tables(source.connection, [table])[table]
    plan = plan_table(schema, KnownTarget(schema, "hard"), (source.dialect, target.dialect), lambda _: "")
    return audit_table("t", Databases(source, target), plan, Bounds(), lambda: "")
