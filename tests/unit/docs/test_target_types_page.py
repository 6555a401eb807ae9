"""Every type that a source has: CREATE TABLE to Avro, back, and to the DDL of each data target.

docs/schematizer-targets.md lists what comes out, and is held against it here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import sqlglot

from penstock.core.avro.schemas import key_schema, table_schema, value_schema
from penstock.core.errors import TableStoppedError
from penstock.core.warehouse.dialects import DIALECTS
from penstock.core.warehouse.planner import plan_create
from penstock.core.warehouse.target_table import TargetTable
from penstock.schematizer.registry.schemas import parse_schema
from penstock.schematizer.statements.create_table import parse_create_table
from penstock.schematizer.statements.create_table_postgres import parse_postgres_table
from penstock.schematizer.statements.postgres_types import PRINTED

if TYPE_CHECKING:
    from penstock.core.tables import TableSchema

_DOCS: Final = Path(__file__).parents[3] / "docs"
_POSTGRES: Final = (
    *("smallint", "integer", "bigint", "smallserial", "serial", "bigserial", "boolean", "oid"),
    *("numeric(12,2)", "numeric", "real", "double precision"),
    *("char(3)", "varchar(64)", "varchar", "text", "citext", "name", '"char"', "bytea"),
    *("date", "time(3)", "time with time zone", "timestamp(3)", "timestamp", "timestamptz(3)", "timestamptz"),
    *("interval", "uuid", "json", "jsonb", "shop.mood", "shop.email", "integer[]", "text[][]"),
    *("bit(3)", "bit varying(9)", "inet", "cidr", "macaddr", "macaddr8"),
    *("int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"),
    *("int4multirange", "int8multirange", "nummultirange", "tsmultirange", "tstzmultirange", "datemultirange"),
    *("money", "xml", "tsvector", "tsquery", "pg_lsn", "jsonpath", "hstore", "ltree", "shop.pair"),
    *("point", "line", "lseg", "box", "path", "polygon", "circle", "geometry(Point,4326)", "geography", "vector(3)"),
)
_DECLARATIONS: Final = (
    "CREATE TYPE shop.mood AS ENUM ('good', 'größer'); CREATE TYPE shop.pair AS (a int, b int); "
    "CREATE DOMAIN shop.email AS varchar(80);"
)
_NAMED_OTHERWISE: Final = {
    "ENUM": ["ENUM('good','größer')"],
    "SET": ["SET('good','größer')"],
    "GEOMETRY, POINT, LINESTRING, POLYGON and the collections": [
        *("GEOMETRY", "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON"),
        "GEOMETRYCOLLECTION",
    ],
    "CHAR, VARCHAR, TINYTEXT, TEXT, MEDIUMTEXT, LONGTEXT": [
        *("CHAR(3)", "VARCHAR(64)", "VARCHAR(64) CHARACTER SET latin1", "VARCHAR(64) CHARACTER SET ascii"),
        *("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"),
    ],
    "BINARY, VARBINARY, TINYBLOB, BLOB, MEDIUMBLOB, LONGBLOB": [
        *("BINARY(3)", "VARBINARY(64)", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"),
    ],
}


def _mysql_types() -> list[str]:
    """Every type that docs/types.md says is carried, a range such as BIT(1) to BIT(8) by its two ends."""
    _, _, below = (_DOCS / "types.md").read_text(encoding="utf-8").partition("## Carried\n")
    rows = [line.split("|")[1].strip() for line in below.partition("\n- ")[0].splitlines() if line.startswith("| ")]
    named: list[str] = []
    for row in rows[1:]:
        plain = re.sub(r" \((MySQL|MariaDB)\)$", "", row)
        named += _NAMED_OTHERWISE.get(plain) or re.split(r" to |, (?!\d)", plain)
    return [name for name in named if name]


def _tables() -> dict[tuple[str, str], TableSchema]:
    """The table of each type, by source and type."""
    found = {}
    for type_ in _mysql_types():
        found["MySQL, MariaDB", type_] = parse_create_table(f"CREATE TABLE shop.t (id int PRIMARY KEY, c {type_})")
    for type_ in _POSTGRES:
        sql = f"{_DECLARATIONS} CREATE TABLE shop.t (id int PRIMARY KEY, c {type_})"
        found["PostgreSQL", type_] = parse_postgres_table(sql)
    return found


TABLES: Final = _tables()
_IDS: Final = [" ".join(each) for each in TABLES]


@pytest.mark.parametrize("table", TABLES.values(), ids=_IDS)
def test_a_type_is_the_same_after_its_way_through_avro(table: TableSchema) -> None:
    text, key_text = value_schema(table), key_schema(table)

    parse_schema(text)
    assert key_text is not None
    parse_schema(key_text)
    assert table_schema(text) == table


@pytest.mark.parametrize("table", TABLES.values(), ids=_IDS)
@pytest.mark.parametrize("name", DIALECTS)
def test_a_type_has_ddl_that_its_target_takes(table: TableSchema, name: str) -> None:
    for statement in plan_create(DIALECTS[name], TargetTable("", table_schema(value_schema(table)))):
        assert sqlglot.parse_one(statement, dialect=name).sql(name)


@pytest.mark.parametrize("name", [name for name in DIALECTS if name != "postgres"])
def test_a_type_that_a_target_has_not_is_refused_by_its_name(name: str) -> None:
    table = parse_create_table("CREATE TABLE shop.t (id int PRIMARY KEY, c decimal(65,30))")

    with pytest.raises(TableStoppedError, match=r"DECIMAL\(65,30\)"):
        plan_create(DIALECTS[name], TargetTable("", table))


def test_every_type_of_both_pages_is_here() -> None:
    mysql = [type_ for source, type_ in TABLES if source == "MySQL, MariaDB"]

    assert len(mysql) > 50
    assert {"BOOLEAN", "BIT(64)", "TIME(6)", "INET4", "INET6", "UUID", "JSON", "VECTOR(3)", "YEAR"} <= set(mysql)
    printed = [type_ for (source, type_), table in TABLES.items() if table.columns[1].type == PRINTED]
    assert {"interval", "integer[]", "inet", "numeric", "int4range"} <= set(printed)


def rows() -> list[str]:
    """The table of the page: types with the same DDL everywhere in one row."""
    grouped: dict[tuple[str, ...], list[str]] = {}
    for (source, type_), table in TABLES.items():
        columns = tuple(_ddl(name, table) for name in DIALECTS)
        grouped.setdefault((source, *columns), []).append(type_)
    return [
        f"| {source} | {', '.join(f'`{type_}`' for type_ in types)} | {' | '.join(f'`{each}`' for each in columns)} |"
        for (source, *columns), types in grouped.items()
    ]


def _ddl(name: str, table: TableSchema) -> str:
    statement = plan_create(DIALECTS[name], TargetTable("", table))[1]
    return statement.partition('"c" ')[2].removesuffix(")")


def test_the_page_lists_what_comes_out() -> None:
    page = (_DOCS / "schematizer-targets.md").read_text(encoding="utf-8")

    _, _, below = page.partition("## Types\n")
    assert [line for line in below.splitlines() if line.startswith("| ")][1:] == rows()
