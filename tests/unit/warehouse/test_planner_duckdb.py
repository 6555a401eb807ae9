"""The exact SQL that DuckDB is given."""

from __future__ import annotations

import pytest
import sqlglot

from penstock.core.errors import TableStoppedError
from penstock.core.tables import (
    BitType,
    BytesType,
    Column,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    PrintedType,
    SetType,
    TableId,
    TableSchema,
    TextType,
    TimestampType,
    TimeType,
    UnsupportedType,
    YearType,
)
from penstock.core.warehouse.alter import plan_migration
from penstock.core.warehouse.dialect import DUCKDB
from penstock.core.warehouse.overflow import fit_schema
from penstock.core.warehouse.planner import plan_create, plan_delete_values, plan_drop, plan_merge
from penstock.core.warehouse.target_table import TargetTable

INT = IntegerType(32, unsigned=False)
BIGINT = IntegerType(64, unsigned=False)
TEXT = TextType(64, "utf8mb4")
ID = Column("id", INT, nullable=False)
NAME = Column("name", TEXT, nullable=True)


def table(*columns: Column, key: tuple[str, ...] = ("id",)) -> TableSchema:
    return TableSchema(TableId("shop", "orders"), columns, key)


def target(schema: TableSchema) -> TargetTable:
    return TargetTable("w", schema)


def migrate(before: TableSchema, after: TableSchema) -> list[str]:
    return parsed([*plan_migration(DUCKDB, target(before), after).statements])


def parsed(statements: list[str]) -> list[str]:
    for statement in statements:
        assert sqlglot.parse_one(statement, dialect="duckdb").sql()
    return statements


def test_every_type_has_its_name() -> None:
    types: list[ColumnType] = [
        *(IntegerType(bits, unsigned) for bits in (8, 16, 24, 32, 64) for unsigned in (False, True)),
        DecimalType(38, 10),
        FloatType(32),
        FloatType(64),
        TEXT,
        BytesType(16, fixed=True),
        DateType(),
        DateTimeType(6),
        TimestampType(0),
        YearType(),
        EnumType(("a", "b")),
    ]
    schema = table(*(Column(f"c{number}", type_, nullable=False) for number, type_ in enumerate(types)), key=("c0",))

    statements = parsed(plan_create(DUCKDB, target(schema)))

    assert statements == [
        'CREATE SCHEMA IF NOT EXISTS "w"."shop"',
        (
            'CREATE TABLE "w"."shop"."orders" ("c0" TINYINT, "c1" UTINYINT, "c2" SMALLINT, "c3" USMALLINT, '
            '"c4" INTEGER, "c5" UINTEGER, "c6" INTEGER, "c7" UINTEGER, "c8" BIGINT, "c9" UBIGINT, '
            '"c10" DECIMAL(38, 10), "c11" FLOAT, "c12" DOUBLE, "c13" VARCHAR, "c14" BLOB, "c15" DATE, '
            '"c16" TIMESTAMP, "c17" TIMESTAMP WITH TIME ZONE, "c18" SMALLINT, "c19" VARCHAR)'
        ),
    ]


def test_a_table_without_a_key_becomes_a_change_log() -> None:
    statements = parsed(plan_create(DUCKDB, target(table(NAME, key=()))))

    assert statements[1] == (
        'CREATE TABLE "w"."shop"."orders" ("name" VARCHAR, "_op" VARCHAR, "_file" VARCHAR, "_pos" BIGINT, '
        '"_row" INTEGER, "_committed_at" TIMESTAMP WITH TIME ZONE)'
    )


def test_names_are_quoted_and_the_catalog_may_be_left_out() -> None:
    schema = TableSchema(TableId("a b", 'or"der'), (Column('i"d', INT, nullable=False),), ('i"d',))

    statements = parsed(plan_create(DUCKDB, TargetTable("", schema)))

    assert statements == ['CREATE SCHEMA IF NOT EXISTS "a b"', 'CREATE TABLE "a b"."or""der" ("i""d" INTEGER)']


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (Column("price", DecimalType(39, 2), nullable=True), "holds 38 decimal digits, and DECIMAL(39,2) needs 39"),
        (Column("area", UnsupportedType("polygon"), nullable=True), "cannot carry polygon exactly"),
        (Column("ID", INT, nullable=True), "has a column of this name already"),
    ],
)
def test_a_column_that_duckdb_cannot_hold_stops_the_table_and_is_named(column: Column, said: str) -> None:
    with pytest.raises(TableStoppedError) as stopped:
        plan_create(DUCKDB, target(table(ID, column)))

    assert (stopped.value.table, stopped.value.column) == ("shop.orders", column.name)
    assert said in str(stopped.value)


@pytest.mark.parametrize(("type_", "fits"), [(DecimalType(65, 30), True), (DecimalType(40, 39), False)])
def test_a_decimal_with_too_many_digits_is_told_of_overflow_where_that_helps(type_: DecimalType, fits: bool) -> None:  # noqa: FBT001 - a parameter of the test
    schema = table(ID, Column("price", type_, nullable=True))

    with pytest.raises(TableStoppedError) as stopped:
        plan_create(DUCKDB, target(schema))

    assert ('set `overflow` of the link to "null" or clamp' in stopped.value.hint) == fits
    if fits:
        plan_create(DUCKDB, target(fit_schema(DUCKDB, schema, "null")))


def test_a_column_called_like_one_of_the_change_log_stops_the_table() -> None:
    with pytest.raises(TableStoppedError, match=r"shop\.orders\._OP stopped"):
        plan_create(DUCKDB, target(table(Column("_OP", TEXT, nullable=True), key=())))


def test_a_table_is_dropped_by_its_full_name() -> None:
    assert parsed(plan_drop(DUCKDB, target(table(ID)))) == ['DROP TABLE "w"."shop"."orders"']


@pytest.mark.parametrize(
    ("column", "definition"),
    [
        (Column("c", INT, nullable=True), "INTEGER"),
        (Column("c", INT, nullable=True, default="7"), "INTEGER DEFAULT CAST('7' AS INTEGER)"),
        (Column("c", INT, nullable=False), "INTEGER DEFAULT CAST('0' AS INTEGER)"),
        (Column("c", DecimalType(5, 2), nullable=False, default="-1.50"),
         "DECIMAL(5, 2) DEFAULT CAST('-1.50' AS DECIMAL(5, 2))"),
        (Column("c", FloatType(64), nullable=True, default="1e3"), "DOUBLE DEFAULT CAST('1e3' AS DOUBLE)"),
        (Column("c", TEXT, nullable=True, default="it's"), "VARCHAR DEFAULT 'it''s'"),
        (Column("c", TEXT, nullable=False), "VARCHAR DEFAULT ''"),
        (Column("c", BytesType(4, fixed=True), nullable=True, default="ab"),
         "BLOB DEFAULT FROM_HEX('61620000')"),
        (Column("c", BytesType(4, fixed=False), nullable=False), "BLOB DEFAULT FROM_HEX('')"),
        (Column("c", DateType(), nullable=True, default="2024-02-29"), "DATE DEFAULT CAST('2024-02-29' AS DATE)"),
        (Column("c", DateTimeType(3), nullable=True, default="2024-02-29 12:00:00.125"),
         "TIMESTAMP DEFAULT CAST('2024-02-29 12:00:00.125' AS TIMESTAMP)"),
        (Column("c", TimestampType(0), nullable=True, default="2024-02-29 12:00:00"),
         "TIMESTAMP WITH TIME ZONE DEFAULT CAST('2024-02-29 12:00:00+00' AS TIMESTAMP WITH TIME ZONE)"),
        (Column("c", YearType(), nullable=True, default="2024"), "SMALLINT DEFAULT CAST('2024' AS SMALLINT)"),
        (Column("c", EnumType(("new", "paid")), nullable=False), "VARCHAR DEFAULT 'new'"),
        (Column("c", TimeType(2), nullable=True, default="-838:59:58.50"),
         "INTERVAL DEFAULT CAST('-838:59:58.50' AS INTERVAL)"),
        (Column("c", BitType(9), nullable=True, default="5"), "USMALLINT DEFAULT CAST('5' AS USMALLINT)"),
        (Column("c", SetType(("a", "b")), nullable=True, default="a,b"), "VARCHAR DEFAULT 'a,b'"),
        (Column("c", PrintedType("inet6"), nullable=True, default="::1"),
         "VARCHAR DEFAULT CAST('::1' AS VARCHAR)"),
        (Column("c", PrintedType("json"), nullable=False, default="{}"), "JSON DEFAULT CAST('{}' AS JSON)"),
        (Column("c", PrintedType("date"), nullable=True, default="2024-02-29"), "VARCHAR DEFAULT '2024-02-29'"),
        (Column("c", PrintedType("datetime", 3), nullable=True, default="2024-02-29 12:00:00.125"),
         "VARCHAR DEFAULT '2024-02-29 12:00:00.125'"),
    ],
)  # fmt: skip
def test_an_added_column_gives_existing_rows_the_value_that_the_source_gave_them(
    column: Column, definition: str
) -> None:
    assert migrate(table(ID), table(ID, column)) == [f'ALTER TABLE "w"."shop"."orders" ADD COLUMN "c" {definition}']


@pytest.mark.parametrize(
    "column",
    [
        Column("c", TimestampType(0), nullable=False, default="current_timestamp()", default_is_expression=True),
        Column("c", DateType(), nullable=False),
        Column("c", DateType(), nullable=True, default="0000-00-00"),
        Column("c", DateTimeType(0), nullable=True, default="yesterday"),
        Column("c", INT, nullable=True, default="b'1'"),
        Column("c", TimeType(0), nullable=True, default="noon"),
        Column("c", PrintedType("datetime", 3), nullable=True, default="2024-02-29 12:00:00"),
        Column("c", PrintedType("date"), nullable=True, default="2024-02-29 12:00:00"),
        Column("c", BytesType(4, fixed=False), nullable=True, default="0x41"),
    ],
)
def test_an_added_column_whose_value_in_old_rows_cannot_be_known_stops_the_table(column: Column) -> None:
    with pytest.raises(TableStoppedError, match=r"shop\.orders\.c stopped"):
        migrate(table(ID), table(ID, column))


def test_a_dropped_column_is_dropped() -> None:
    assert migrate(table(ID, NAME), table(ID)) == ['ALTER TABLE "w"."shop"."orders" DROP COLUMN "name"']


def test_a_widened_column_is_altered_only_where_the_target_type_differs() -> None:
    before = table(ID, NAME, Column("price", DecimalType(8, 2), nullable=True))
    after = table(
        Column("id", BIGINT, nullable=False),
        Column("name", TextType(1000, "utf8mb4"), nullable=True),
        Column("price", DecimalType(10, 4), nullable=True),
    )

    assert migrate(before, after) == [
        'ALTER TABLE "w"."shop"."orders" ALTER COLUMN "id" SET DATA TYPE BIGINT',
        'ALTER TABLE "w"."shop"."orders" ALTER COLUMN "price" SET DATA TYPE DECIMAL(10, 4)',
    ]


def test_order_case_null_defaults_comments_and_the_key_need_no_migration() -> None:
    after = TableSchema(
        TableId("shop", "orders"),
        (Column("NAME", TEXT, nullable=False, default="x", comment="of whom"), ID),
        ("name", "id"),
        "orders",
    )

    assert migrate(table(ID, NAME), after) == []


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (table(ID, Column("title", TEXT, nullable=True)), "name went and title came in one step"),
        (table(ID, Column("name", INT, nullable=True)), "may change stored values"),
        (table(ID, NAME, Column("no", INT, nullable=False), key=("no",)), "only the source knows its values"),
    ],
)
def test_any_other_change_stops_the_table(after: TableSchema, said: str) -> None:
    with pytest.raises(TableStoppedError, match=said):
        migrate(table(ID, NAME), after)


def test_a_merge_deletes_every_key_and_inserts_the_newest_rows() -> None:
    schema = table(ID, NAME, key=("id", "name"))

    assert parsed(plan_merge(DUCKDB, target(schema), schema, '"new"')) == [
        (
            'DELETE FROM "w"."shop"."orders" AS t WHERE EXISTS (SELECT 1 FROM "new" AS s '
            'WHERE s."id" = t."id" AND s."name" = t."name")'
        ),
        (
            'INSERT INTO "w"."shop"."orders" ("id", "name") SELECT s."id", s."name" FROM "new" AS s '
            'JOIN (SELECT "id", "name", MAX("__penstock_offset") AS "__penstock_offset" FROM "new" '
            'GROUP BY "id", "name") AS latest ON s."id" = latest."id" AND s."name" = latest."name" '
            'AND s."__penstock_offset" = latest."__penstock_offset" WHERE s."__penstock_op" <> \'d\''
        ),
    ]


def test_rows_are_deleted_by_a_list_of_their_keys() -> None:
    schema = table(ID, NAME)

    assert parsed([plan_delete_values(DUCKDB, target(schema), schema, 2)]) == [
        'DELETE FROM "w"."shop"."orders" WHERE "id" IN (?, ?)'
    ]


def test_a_merge_into_a_change_log_only_adds() -> None:
    schema = table(NAME, key=())

    assert parsed(plan_merge(DUCKDB, target(schema), schema, '"new"')) == [
        (
            'INSERT INTO "w"."shop"."orders" ("name", "_op", "_file", "_pos", "_row", "_committed_at") '
            'SELECT s."name", s."__penstock_op", s."__penstock_file", s."__penstock_pos", s."__penstock_row", '
            'MAKE_TIMESTAMPTZ(s."__penstock_ts_ms" * 1000) FROM "new" AS s'
        )
    ]


def test_rows_of_an_older_schema_are_cast_filled_and_trimmed() -> None:
    older = table(ID, NAME, Column("gone", INT, nullable=True))
    now = table(Column("id", BIGINT, nullable=False), NAME, Column("extra", INT, nullable=False, default="7"))

    _, insert = parsed(plan_merge(DUCKDB, target(now), older, '"new"'))

    assert insert.startswith(
        'INSERT INTO "w"."shop"."orders" ("id", "name", "extra") '
        'SELECT CAST(s."id" AS BIGINT), s."name", CAST(\'7\' AS INTEGER) FROM "new" AS s JOIN '
    )


def test_rows_that_do_not_fit_the_newer_table_stop_it() -> None:
    narrower = table(ID, Column("name", TextType(3, "utf8mb4"), nullable=True))

    with pytest.raises(TableStoppedError, match="came after it had become"):
        plan_merge(DUCKDB, target(narrower), table(ID, NAME), '"new"')
    with pytest.raises(TableStoppedError, match="key column which the table has lost"):
        plan_merge(DUCKDB, target(table(NAME, key=("name",))), table(ID, NAME), '"new"')
