"""What each database's SQL can write and look up, and what is left out where it cannot."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import pytest

from penstock.core.audit.canonical_text import canonical_text
from penstock.core.audit.dialects import DUCKDB, MARIADB, POSTGRES, AuditDialect, Kind
from penstock.core.audit.findings import NotCompared
from penstock.core.audit.found_tables import FoundColumn, FoundTable, plan_found, printed_columns
from penstock.core.audit.queries import Within, rows_query
from penstock.core.audit.redshift import REDSHIFT, REDSHIFT_SUPER
from penstock.core.audit.side import AuditColumn, AuditSide, Cut
from penstock.core.audit.table_plan import KnownTarget, plan_table
from penstock.core.tables import (
    BytesType,
    Column,
    ColumnType,
    FloatType,
    IntegerType,
    PrintedType,
    TableId,
    TableSchema,
    TextType,
)

ID = IntegerType(64, unsigned=False)


def test_columns_of_redshift_are_read_as_its_catalog_prints_them() -> None:
    printed = ("bigint", "numeric(20,0)", "numeric(20,4)", "character varying(80)", "binary varying(20)", "super")
    times = ("timestamp without time zone", "timestamp with time zone", "timestamp(6) without time zone", "real")

    found = printed_columns([("c", each) for each in (*printed, *times)])

    assert [(each.kind, each.scale, each.cut) for each in found] == [
        ("integer", 0, "integer"),
        ("integer", 0, "wide"),
        ("decimal", 4, "hash"),
        ("text", 0, "hash"),
        ("bytes", 0, "hash"),
        (None, 0, "hash"),
        ("datetime", 0, "hash"),
        ("timestamp", 0, "hash"),
        ("datetime", 0, "hash"),
        ("float", 0, "hash"),
    ]


def test_floats_are_left_out_where_redshift_is_one_side_and_that_alone_makes_no_table_different() -> None:
    columns = (FoundColumn("id", "integer", "bigint", cut="integer"), FoundColumn("f", "float", "real"))
    plan = plan_found(FoundTable(MARIADB, "t", columns, ("id",)), FoundTable(REDSHIFT, "t", columns, ()))

    assert plan.not_compared == (NotCompared("f", "redshift does not write values of real as others do"),)
    assert plan.source is not None
    assert [column.name for column in plan.source.columns] == ["id"]


def test_tables_differ_in_a_column_only_where_both_of_its_kinds_are_compared() -> None:
    first: list[tuple[str, Kind | None]] = [
        ("id", "integer"),
        ("doc", "text"),
        ("tags", None),
        ("word", "text"),
        ("lasts", "time"),
        ("more", "text"),
    ]
    second: list[tuple[str, Kind | None]] = [
        ("id", "integer"),
        ("doc", None),
        ("tags", "text"),
        ("word", "date"),
        ("lasts", "integer"),
        ("on", None),
    ]
    sides = [tuple(FoundColumn(name, kind, str(kind)) for name, kind in side) for side in (first, second)]

    plan = plan_found(FoundTable(MARIADB, "t", sides[0], ("id",)), FoundTable(REDSHIFT, "t", sides[1], ()))

    assert {each.column: each.is_wrong for each in plan.not_compared} == {
        "doc": False,
        "tags": False,
        "word": True,
        "more": True,
        "on": True,
    }
    assert plan.source is not None
    assert plan.target is not None
    compared = [[(column.name, column.kind) for column in side.columns] for side in (plan.source, plan.target)]
    assert compared == [[("id", "integer"), ("lasts", "time")], [("id", "integer"), ("lasts", "integer")]]


@pytest.mark.parametrize(("dialect", "left_out"), [(REDSHIFT, ["f"]), (REDSHIFT_SUPER, ["f", "doc"]), (POSTGRES, [])])
def test_a_pipelines_table_is_compared_without_what_its_target_does_not_keep_as_it_was(
    dialect: AuditDialect, left_out: list[str]
) -> None:
    schema = _schema({"id": ID, "f": FloatType(64), "doc": PrintedType("json")})

    plan = plan_table(schema, KnownTarget(schema, "hard"), (MARIADB, dialect), lambda _: "")

    assert [each.column for each in plan.not_compared] == left_out
    assert not any(each.is_wrong for each in plan.not_compared)


def test_only_columns_that_the_file_leaves_out_are_wanted_to_be_left_out() -> None:
    schema = _schema({"id": ID, "f": FloatType(64), "seen_at": ID, "email": ID})
    known = KnownTarget(schema, "hard", treated={"email": "masked here"})
    excluded = {"seen_at": "the audit's exclude_columns names it"}

    plan = plan_table(schema, known, (MARIADB, REDSHIFT), lambda column: excluded.get(column, ""))

    assert [(each.column, each.is_wanted) for each in plan.not_compared] == [
        ("f", False),
        ("seen_at", True),
        ("email", True),
    ]


@pytest.mark.parametrize("digits", ["4.056579431202816e+31", "-8.03158884352e+31", "7.3027328933888e+30"])
def test_duckdb_writes_the_fewest_digits_that_give_a_double_back_where_it_prints_more(digits: str) -> None:
    with duckdb.connect() as connection:
        rows = connection.execute(f"SELECT {DUCKDB.float_text.format(f'{digits}::DOUBLE')}").fetchall()

    assert float(digits) == float(rows[0][0])
    assert Decimal(rows[0][0]) == Decimal(digits)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0.1234::DECIMAL(4,4)", "0.1234"),
        ("-0.1234::DECIMAL(4,4)", "-0.1234"),
        ("0::DECIMAL(38,38)", f"0.{'0' * 38}"),
        ("-10.50::DECIMAL(5,2)", "-10.50"),
        ("NULL::DECIMAL(4,4)", None),
    ],
)
def test_duckdb_writes_decimals_with_a_digit_before_the_point_as_others_do(value: str, text: str | None) -> None:
    assert _written_by_duckdb("decimal", value) == text


@pytest.mark.parametrize("type_", ["date", "datetime", "timestamp"])
def test_duckdb_writes_what_is_infinite_as_itself_and_null_as_null(type_: Kind) -> None:
    sql = {"date": "DATE", "datetime": "TIMESTAMP", "timestamp": "TIMESTAMPTZ"}[type_]

    found = [_written_by_duckdb(type_, f"{value}::{sql}") for value in ("'infinity'", "'-infinity'", "NULL")]

    assert found == ["infinity", "-infinity", None]


def test_values_that_a_policy_cut_are_left_out_where_the_source_cannot_tell_which() -> None:
    long, short = TextType(65_535, "utf8mb4"), TextType(16_383, "utf8mb4")
    schema = _schema({"id": ID, "long": long, "short": short, "raw": BytesType(20_000_000, fixed=False)})

    plan = plan_table(schema, KnownTarget(schema, "hard", overflow="clamp"), (MARIADB, REDSHIFT), lambda _: "")

    assert [each.column for each in plan.not_compared] == ["long", "raw"]


@pytest.mark.parametrize(
    ("dialect", "cut", "condition"),
    [
        (POSTGRES, "integer", '("id" BETWEEN 0 AND 15 OR "id" BETWEEN 40 AND 47 OR "id" IS NULL)'),
        (DUCKDB, "integer", '(("id" BETWEEN 0 AND 47 AND CASE WHEN'),
    ],
)
def test_ranges_are_asked_for_where_an_index_may_serve_them_and_else_one_list(
    dialect: AuditDialect, cut: Cut, condition: str
) -> None:
    query = rows_query(_side(dialect, cut), Within((1, None, 5, 0), 8), 8)

    assert condition in query
    assert dialect.scans == ("IN (0, 1, 5)" in query)


@pytest.mark.parametrize("dialect", [MARIADB, POSTGRES, DUCKDB, REDSHIFT])
def test_the_hash_of_a_key_is_computed_once_for_a_row_however_many_partitions_are_asked_for(
    dialect: AuditDialect,
) -> None:
    query = rows_query(_side(dialect, "hash"), Within(tuple(range(500)), 8), 8)

    _, _, condition = query.partition(" WHERE ")
    assert condition.lower().count("sha2") == 1


def _written_by_duckdb(kind: Kind, value: str) -> str | None:
    with duckdb.connect() as connection:
        ((text,),) = connection.execute(
            f"SELECT {canonical_text(DUCKDB, kind, 'v')} FROM (SELECT {value} AS v)"
        ).fetchall()
    return None if text is None else str(text)


def _side(dialect: AuditDialect, cut: Cut) -> AuditSide:
    columns = (AuditColumn("id", "integer"), AuditColumn("word", "text"))
    return AuditSide(dialect, "t", columns, columns[:1], cut)


def _schema(columns: dict[str, ColumnType]) -> TableSchema:
    listed = tuple(Column(name, type_, nullable=name != "id") for name, type_ in columns.items())
    return TableSchema(TableId("shop", "t"), listed, ("id",))
