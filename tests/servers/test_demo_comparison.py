"""The comparison finds every kind of difference, and none where there is none."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from penstock.adapters.mysql.connection import MysqlServer, connect
from penstock.demo.compare import TableComparison, compare_all
from penstock.demo.marketplace import fill
from penstock.demo.source_rows import SourceSnapshot, SourceTable, open_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.embedded.mariadb import MariadbServer

_ROWS = 4_000
_TYPES = {
    "businesses": (
        "UINTEGER, BLOB, VARCHAR, VARCHAR, VARCHAR, VARCHAR, VARCHAR, DOUBLE, DOUBLE, FLOAT, INTEGER, UTINYINT,"
        "SMALLINT, USMALLINT, SMALLINT, TINYINT, BLOB, TIMESTAMP, TIMESTAMPTZ"
    ),
    "users": (
        "UBIGINT, VARCHAR, VARCHAR, DATE, VARCHAR, INTEGER, UINTEGER, BIGINT, DECIMAL(12,2), DECIMAL(30,10), BLOB,"
        "TINYINT, TINYINT, TIMESTAMP, TIMESTAMPTZ"
    ),
    "reviews": "BIGINT, UINTEGER, UBIGINT, TINYINT, VARCHAR, VARCHAR, INTEGER, DOUBLE, DATE, TIMESTAMP",
    "ad_packages": ("UINTEGER, VARCHAR, VARCHAR, DECIMAL(14,4), DECIMAL(14,4), FLOAT, DATE, DATE, BLOB, TIMESTAMP"),
    "audit_log": "TIMESTAMP, VARCHAR, VARCHAR, BIGINT, VARCHAR",
}


@pytest.fixture(scope="module")
def server(mariadb: MariadbServer) -> MysqlServer:
    server = MysqlServer(mariadb.host, mariadb.port, mariadb.user, mariadb.password)
    fill(server, _ROWS)
    return server


@pytest.fixture(scope="module")
def copied(server: MysqlServer) -> duckdb.DuckDBPyConnection:
    """A DuckDB database that holds what the source holds."""
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    database.execute("CREATE SCHEMA shop")
    with open_snapshot(server, "shop") as source:
        for table in source.tables():
            _copy(source, table, database)
    return database


@pytest.fixture
def warehouse(copied: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """The copy, for a test to spoil."""
    copied.execute("BEGIN")
    yield copied
    copied.execute("ROLLBACK")


def test_equal_sides_have_no_difference(server: MysqlServer, warehouse: duckdb.DuckDBPyConnection) -> None:
    compared = _compare(server, warehouse)

    assert {name: one.differences for name, one in compared.items()} == dict.fromkeys(_TYPES, 0)
    assert {name: one.source_rows for name, one in compared.items()} == {
        name: one.warehouse_rows for name, one in compared.items()
    }
    assert sum(one.source_rows for one in compared.values()) == _ROWS


@pytest.mark.parametrize(
    ("table", "spoil", "differences"),
    [
        ("users", "DELETE FROM shop.users WHERE id IN (1, 500, 1000)", 3),
        ("users", "INSERT INTO shop.users SELECT * REPLACE (id + 100000 AS id) FROM shop.users WHERE id < 3", 2),
        ("users", "INSERT INTO shop.users SELECT * FROM shop.users WHERE id = 7", 1),
        ("users", "INSERT INTO shop.users SELECT * REPLACE (NULL AS id) FROM shop.users WHERE id = 7", 1),
        ("users", "UPDATE shop.users SET karma = karma - 1 WHERE id = 997", 1),
        ("users", "UPDATE shop.users SET name = '' WHERE name IS NULL", None),
        ("users", "UPDATE shop.users SET newsletter = 0 WHERE newsletter IS NULL", None),
        ("users", "UPDATE shop.users SET balance = balance + 0.01 WHERE id = 12", 1),
        ("users", "UPDATE shop.users SET last_seen_at = last_seen_at + INTERVAL 1 MICROSECOND WHERE id = 997", 1),
        ("users", "UPDATE shop.users SET signed_up_at = signed_up_at - INTERVAL 1 HOUR WHERE id = 13", 1),
        ("users", "UPDATE shop.users SET birthday = birthday + 1 WHERE id <= 997 AND birthday < '2100-01-01'", None),
        ("users", "UPDATE shop.users SET password_hash = password_hash || '\\x00'::BLOB WHERE id = 997", 1),
        ("ad_packages", "UPDATE shop.ad_packages SET package_code = upper(package_code)", None),
        ("ad_packages", "UPDATE shop.ad_packages SET settings = NULL WHERE settings = ''::BLOB", None),
        ("reviews", "UPDATE shop.reviews SET title = rtrim(title) || ' ' WHERE id = 3", 1),
        ("businesses", "ALTER TABLE shop.businesses DROP COLUMN elevation", 400),
        ("audit_log", "DELETE FROM shop.audit_log WHERE rowid = (SELECT min(rowid) FROM shop.audit_log)", 1),
        ("audit_log", "INSERT INTO shop.audit_log SELECT * FROM shop.audit_log WHERE actor = 'cron' LIMIT 2", 2),
        ("audit_log", "UPDATE shop.audit_log SET _op = 'd' WHERE rowid = (SELECT min(rowid) FROM shop.audit_log)", 2),
        ("audit_log", "UPDATE shop.audit_log SET detail = '' WHERE actor = 'cron'", None),
        ("reviews", "DROP TABLE shop.reviews", 1_800),
        ("extra", "CREATE TABLE shop.extra AS SELECT 1 AS id", 1),
    ],
)
def test_a_planted_difference_is_found(
    server: MysqlServer, warehouse: duckdb.DuckDBPyConnection, table: str, spoil: str, differences: int | None
) -> None:
    warehouse.execute(spoil)

    compared = _compare(server, warehouse)

    spoilt = compared.pop(table)
    assert spoilt.differences > 0
    assert differences in (None, spoilt.differences)
    assert spoilt.examples
    assert not any(one.differences for one in compared.values())


@pytest.mark.parametrize(("column", "kind"), [("latitude", "DOUBLE"), ("rating", "FLOAT")])
def test_a_float_that_is_off_by_its_last_bit_is_found(
    server: MysqlServer, warehouse: duckdb.DuckDBPyConnection, column: str, kind: str
) -> None:
    number = np.float64 if kind == "DOUBLE" else np.float32
    ((value,),) = warehouse.execute(f"SELECT {column} FROM shop.businesses WHERE id = 1").fetchall()
    nudged = np.nextafter(number(value), number(np.inf))
    warehouse.execute(f"UPDATE shop.businesses SET {column} = ? WHERE id = 1", [float(nudged)])

    compared = _compare(server, warehouse)

    assert compared["businesses"].differences == 1
    assert f"1: {column} is" in compared["businesses"].examples[0]


def test_a_zero_that_lost_its_sign_is_found(server: MysqlServer, warehouse: duckdb.DuckDBPyConnection) -> None:
    with connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE shop.reviews SET score = 0.0 WHERE id = 1")
    warehouse.execute("UPDATE shop.reviews SET score = 0.0 WHERE id = 1")
    assert _compare(server, warehouse)["reviews"].differences == 0

    warehouse.execute("UPDATE shop.reviews SET score = '-0.0'::DOUBLE WHERE id = 1")

    assert _compare(server, warehouse)["reviews"].differences == 1


def test_a_change_log_adds_up_to_the_rows_that_are_left(
    server: MysqlServer, warehouse: duckdb.DuckDBPyConnection
) -> None:
    warehouse.execute(
        "INSERT INTO shop.audit_log SELECT 'c' AS _op, now(), 'x', 'y', 1, NULL;"
        "INSERT INTO shop.audit_log SELECT * REPLACE ('u-' AS _op) FROM shop.audit_log WHERE actor = 'x';"
        "INSERT INTO shop.audit_log SELECT * REPLACE ('u+' AS _op, 2 AS entity_id) FROM shop.audit_log"
        " WHERE _op = 'u-';"
        "INSERT INTO shop.audit_log SELECT * REPLACE ('d' AS _op) FROM shop.audit_log WHERE _op = 'u+'"
    )

    compared = _compare(server, warehouse)["audit_log"]

    assert compared.differences == 0
    assert compared.warehouse_rows == compared.source_rows


def _compare(server: MysqlServer, warehouse: duckdb.DuckDBPyConnection) -> dict[str, TableComparison]:
    compared = compare_all(server, lambda sql: warehouse.sql(sql).to_arrow_table(), "shop")
    return {one.table: one for one in compared}


def _copy(source: SourceSnapshot, table: SourceTable, database: duckdb.DuckDBPyConnection) -> None:
    names = [column.name for column in table.columns]
    kinds = re.split(r",\s*(?![^(]*\))", _TYPES[table.name])
    columns = [f"{name} {kind}" for name, kind in zip(names, kinds, strict=True)]
    ops = [] if table.key else ["_op VARCHAR"]
    database.execute(f"CREATE TABLE shop.{table.name} ({', '.join([*ops, *columns])})")
    values = [
        [struct.unpack(">d", value)[0] if isinstance(value, bytes) else None for value in of] if column.is_float else of
        for column, of in zip(table.columns, zip(*source.read(table), strict=True), strict=True)
    ]
    database.register("rows", pa.table([pa.array(column) for column in values], names=names))
    op = "" if table.key else "'c' AS _op,"
    database.execute(f"INSERT INTO shop.{table.name} SELECT {op} * FROM rows")
    database.unregister("rows")
