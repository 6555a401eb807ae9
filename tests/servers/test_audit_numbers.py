"""MySQL's and MariaDB's numbers are compared with all of their digits, and with no zeros that only fill a column."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

import pytest
from tests.servers.audit_case import AuditPlace

from penstock.links.audit.compare import Bounds, compare

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from penstock.core.audit.dialects import Kind
    from penstock.core.audit.queries import RowKey
    from penstock.dev.postgres import PostgresServer
    from penstock.embedded.mariadb import MariadbServer
    from penstock.embedded.mysql import OracleMysql

_LONG: Final = ("-1.1102230246251565e-16", "2.2250738585072014e-308", "-1.7976931348623157e+308", "-5e-324")
"""A sign, 17 digits and an exponent are up to 24 characters."""
_ROWS: Final = 300


@pytest.fixture(params=["mariadb", pytest.param("mysql_server", marks=pytest.mark.nightly)])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, fresh_name: str, postgres: PostgresServer
) -> Iterator[AuditPlace]:
    """A source of either kind, and DuckDB, with a schema."""
    source: MariadbServer | OracleMysql = request.getfixturevalue(request.param)
    made = AuditPlace(fresh_name, tmp_path, source, postgres)
    made.run("mariadb", f"CREATE DATABASE {fresh_name}")
    made.run("duckdb", f"CREATE SCHEMA {fresh_name}")
    yield made
    made.drop()


def test_doubles_are_compared_with_all_of_their_digits(place: AuditPlace) -> None:
    rng = random.Random(7)  # noqa: S311 - not for secrets
    printed = [*_LONG, *(repr(rng.uniform(-1, 1) * 10.0 ** rng.randint(-300, 300)) for _ in range(_ROWS))]
    values = ", ".join(f"({number}, {text}, {number} / 7e20)" for number, text in enumerate(printed))
    for database in ("mariadb", "duckdb"):
        place.run(
            database, "CREATE TABLE {t} (id INT PRIMARY KEY, d DOUBLE, f FLOAT)", f"INSERT INTO {{t}} VALUES {values}"
        )
    columns: list[tuple[str, Kind]] = [("id", "integer"), ("d", "float"), ("f", "float")]

    equal = _differing(place, columns)
    # As many digits as MySQL's cast leaves.
    place.run("duckdb", "UPDATE {t} SET d = -1.110223024625157e-16 WHERE id = 0")

    assert equal == []
    assert _differing(place, columns) == [("0",)]


def test_a_decimal_is_compared_without_the_zeros_that_fill_it(place: AuditPlace) -> None:
    most = f"{'9' * 35}.{'9' * 3}"
    place.run(
        "mariadb",
        "CREATE TABLE {t} (k DECIMAL(8,2) ZEROFILL PRIMARY KEY, d DECIMAL(38,3) ZEROFILL)",
        f"INSERT INTO {{t}} VALUES (1.5, {most}), (0, 0), (2, NULL)",
    )
    place.run(
        "duckdb",
        "CREATE TABLE {t} (k DECIMAL(8,2), d DECIMAL(38,3))",
        f"INSERT INTO {{t}} VALUES (1.5, {most}), (0, 0), (2, NULL)",
    )

    assert _differing(place, [("k", "decimal"), ("d", "decimal")]) == []


def _differing(place: AuditPlace, columns: Sequence[tuple[str, Kind]]) -> list[RowKey]:
    pair = place.pair("duckdb", columns, "integer" if columns[0][1] == "integer" else "hash")
    return compare(pair, Bounds(partition_size=100)).suspects.row_keys()
