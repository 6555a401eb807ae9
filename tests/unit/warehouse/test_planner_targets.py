"""The exact SQL that PostgreSQL, Redshift and Snowflake are given, each statement read by a parser of its dialect."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import sqlglot

from penstock.core.errors import TableStoppedError
from penstock.core.tables import (
    BytesType,
    Column,
    DateTimeType,
    DecimalType,
    EnumType,
    IntegerType,
    PrintedType,
    TableId,
    TableSchema,
    TextType,
    TimestampType,
    TimeType,
    VectorType,
)
from penstock.core.warehouse.alter import plan_migration
from penstock.core.warehouse.dialect import may_have_become
from penstock.core.warehouse.dialects import POSTGRES, REDSHIFT, SNOWFLAKE
from penstock.core.warehouse.limits import describe_limits
from penstock.core.warehouse.migration import Around
from penstock.core.warehouse.planner import plan_column_renames, plan_create, plan_merge, plan_truncate
from penstock.core.warehouse.target_table import LogPlace, TargetTable

if TYPE_CHECKING:
    from penstock.core.warehouse.dialect import Dialect

INT = IntegerType(32, unsigned=False)
BIGINT = IntegerType(64, unsigned=False)
ID = Column("id", INT, nullable=False)
NAME = Column("name", TextType(64, "utf8mb4"), nullable=True)
PRICE = Column("price", DecimalType(10, 2), nullable=True)
EVERY = (POSTGRES, REDSHIFT, SNOWFLAKE)


def table(*columns: Column, key: tuple[str, ...] = ("id",)) -> TableSchema:
    return TableSchema(TableId("shop", "orders"), columns, key)


def parsed(dialect: Dialect, statements: list[str]) -> list[str]:
    for statement in statements:
        assert sqlglot.parse_one(statement, dialect=dialect.name).sql(dialect.name)
    return statements


def migrate(dialect: Dialect, before: TableSchema, after: TableSchema, *, are_told: bool = False) -> list[str]:
    return migrate_around(dialect, before, after, Around(renames_are_told=are_told))


def migrate_around(dialect: Dialect, before: TableSchema, after: TableSchema, around: Around) -> list[str]:
    planned = plan_migration(dialect, TargetTable("", before), after, around)
    return parsed(dialect, [*planned.all_statements])


@pytest.mark.parametrize(
    ("dialect", "columns"),
    [
        (
            POSTGRES,
            '"_op" TEXT, "_file" TEXT, "_pos" BIGINT, "_row" INTEGER, "_committed_at" TIMESTAMP WITH TIME ZONE',
        ),
        (
            REDSHIFT,
            '"_op" VARCHAR(2), "_file" VARCHAR(1020), "_pos" BIGINT, "_row" INTEGER, "_committed_at" TIMESTAMPTZ',
        ),
        (
            SNOWFLAKE,
            (
                '"_op" VARCHAR(2), "_file" VARCHAR(255), "_pos" NUMBER(38, 0), "_row" NUMBER(38, 0), '
                '"_committed_at" TIMESTAMP_LTZ(6)'
            ),
        ),
    ],
)
def test_a_table_without_a_key_is_made_with_the_columns_of_its_log(dialect: Dialect, columns: str) -> None:
    statements = parsed(dialect, plan_create(dialect, TargetTable("w", table(key=()))))

    assert statements == [
        'CREATE SCHEMA IF NOT EXISTS "w"."shop"',
        f'CREATE TABLE "w"."shop"."orders" ({columns})',
    ]


ADDED = {
    "n": (Column("n", INT, nullable=True), "INTEGER", "INTEGER", "NUMBER(38, 0)"),
    "back\\slash": (
        Column("t", TextType(9, "ascii"), nullable=False, default="it's \\"),
        "TEXT DEFAULT 'it''s \\'",
        "VARCHAR(9) DEFAULT 'it''s \\\\'",
        "VARCHAR(9) | 'it''s \\\\'",
    ),
    "blob": (
        Column("b", BytesType(4, fixed=True), nullable=False, default="ab"),
        "BYTEA DEFAULT CAST('\\x61620000' AS BYTEA)",
        "VARBYTE(4) DEFAULT FROM_HEX('61620000')",
        "BINARY(4) | TO_BINARY('61620000', 'HEX')",
    ),
    "span": (
        Column("s", TimeType(1), nullable=False, default="-838:59:59.5"),
        "INTERVAL DEFAULT CAST('-838:59:59.5' AS INTERVAL)",
        "BIGINT DEFAULT CAST('-3020399500000' AS BIGINT)",
        "NUMBER(38, 0) | CAST('-3020399500000' AS NUMBER(38, 0))",
    ),
    "instant": (
        Column("i", TimestampType(0), nullable=False, default="2024-02-29 12:00:00"),
        "TIMESTAMP WITH TIME ZONE DEFAULT CAST('2024-02-29 12:00:00+00' AS TIMESTAMP WITH TIME ZONE)",
        "TIMESTAMPTZ DEFAULT CAST('2024-02-29 12:00:00+00' AS TIMESTAMPTZ)",
        "TIMESTAMP_LTZ(6) | CAST('2024-02-29 12:00:00 +00:00' AS TIMESTAMP_LTZ(6))",
    ),
    "number": (
        Column("d", DecimalType(10, 2), nullable=False),
        "NUMERIC(10, 2) DEFAULT CAST('0' AS NUMERIC(10, 2))",
        "DECIMAL(10, 2) DEFAULT CAST('0' AS DECIMAL(10, 2))",
        "NUMBER(10, 2) | CAST('0' AS NUMBER(10, 2))",
    ),
}


@pytest.mark.parametrize(("column", "postgres", "redshift", "snowflake"), ADDED.values(), ids=ADDED)
def test_a_column_comes_with_the_value_that_rows_had(
    column: Column, postgres: str, redshift: str, snowflake: str
) -> None:
    before, after = table(ID), table(ID, column)
    add = f'ALTER TABLE "shop"."orders" ADD COLUMN "{column.name}"'
    type_, _, fill = snowflake.partition(" | ")
    update = [f'UPDATE "shop"."orders" SET "{column.name}" = {fill}'] if fill else []

    assert migrate(POSTGRES, before, after) == [f"{add} {postgres}"]
    assert migrate(REDSHIFT, before, after) == [f"{add} {redshift}"]
    assert migrate(SNOWFLAKE, before, after) == [f"{add} {type_}", *update]


@pytest.mark.parametrize("dialect", EVERY, ids=lambda dialect: dialect.name)
def test_each_column_has_a_statement_of_its_own(dialect: Dialect) -> None:
    more = [Column(name, INT, nullable=True) for name in ("a", "b")]

    added = migrate(dialect, table(ID), table(ID, *more))
    dropped = migrate(dialect, table(ID, *more), table(ID))

    assert [line.split('COLUMN "')[1][0] for line in added] == ["a", "b"]
    assert dropped == [f'ALTER TABLE "shop"."orders" DROP COLUMN "{name}"' for name in ("a", "b")]


def test_postgres_widens_every_column_in_its_place() -> None:
    before = table(ID, NAME, PRICE, Column("at", DateTimeType(0), nullable=True))
    after = table(
        Column("id", BIGINT, nullable=False),
        Column("name", TextType(300, "utf8mb4"), nullable=True),
        Column("price", DecimalType(14, 4), nullable=True),
        Column("at", DateTimeType(6), nullable=True),
    )

    assert migrate(POSTGRES, before, after) == [
        'ALTER TABLE "shop"."orders" ALTER COLUMN "id" SET DATA TYPE BIGINT',
        'ALTER TABLE "shop"."orders" ALTER COLUMN "price" SET DATA TYPE NUMERIC(14, 4)',
    ]


def test_redshift_widens_a_text_in_its_place_in_bytes() -> None:
    longer = Column("name", TextType(300, "utf8mb4"), nullable=True)
    labels = (Column("e", EnumType(("a",)), nullable=True), Column("e", EnumType(("a", "größer")), nullable=True))

    assert migrate(REDSHIFT, table(ID, NAME), table(ID, longer)) == [
        'ALTER TABLE "shop"."orders" ALTER COLUMN "name" TYPE VARCHAR(1200)'
    ]
    assert migrate(REDSHIFT, table(ID, labels[0]), table(ID, labels[1])) == [
        'ALTER TABLE "shop"."orders" ALTER COLUMN "e" TYPE VARCHAR(8)'
    ]


def test_redshift_copies_and_swaps_for_any_other_type() -> None:
    before = table(ID, NAME, PRICE)
    after = table(Column("id", BIGINT, nullable=False), PRICE, Column("n", INT, nullable=False, default="7"))

    assert migrate(REDSHIFT, before, after, are_told=True) == [
        'CREATE TABLE "shop"."__penstock_copy" ("id" BIGINT, "price" DECIMAL(10, 2), "n" INTEGER)',
        (
            'INSERT INTO "shop"."__penstock_copy" ("id", "price", "n") '
            'SELECT CAST(s."id" AS BIGINT), s."price", CAST(\'7\' AS INTEGER) FROM "shop"."orders" AS s'
        ),
        'DROP TABLE "shop"."orders"',
        'ALTER TABLE "shop"."__penstock_copy" RENAME TO "orders"',
    ]


def test_a_change_log_keeps_its_own_columns_when_it_is_copied() -> None:
    before, after = table(ID, key=()), table(Column("id", BIGINT, nullable=False), key=())

    (insert,) = [line for line in migrate(REDSHIFT, before, after) if line.startswith("INSERT")]

    assert insert == (
        'INSERT INTO "shop"."__penstock_copy" ("id", "_op", "_file", "_pos", "_row", "_committed_at") '
        'SELECT CAST(s."id" AS BIGINT), s."_op", s."_file", s."_pos", s."_row", s."_committed_at" '
        'FROM "shop"."orders" AS s'
    )


def test_snowflake_gives_texts_binaries_and_numbers_more_room_in_their_place() -> None:
    before = table(ID, NAME, PRICE, Column("raw", BytesType(8, fixed=False), nullable=True))
    after = table(
        Column("id", BIGINT, nullable=False),
        Column("name", TextType(300, "utf8mb4"), nullable=True),
        Column("price", DecimalType(12, 2), nullable=True),
        Column("raw", BytesType(16, fixed=False), nullable=True),
    )

    assert migrate(SNOWFLAKE, before, after) == [
        'ALTER TABLE "shop"."orders" ALTER COLUMN "name" SET DATA TYPE VARCHAR(300)',
        'ALTER TABLE "shop"."orders" ALTER COLUMN "price" SET DATA TYPE NUMBER(12, 2)',
        'ALTER TABLE "shop"."orders" ALTER COLUMN "raw" SET DATA TYPE BINARY(16)',
    ]


def test_no_statement_that_replaces_a_table_of_snowflake_reads_what_it_changes() -> None:
    after = table(ID, Column("price", DecimalType(14, 4), nullable=True))

    assert migrate(SNOWFLAKE, table(ID, PRICE), after) == [
        (
            'CREATE OR REPLACE TABLE "shop"."__penstock_copy/orders" ("id" NUMBER(38, 0), "price" NUMBER(14, 4)) AS '
            'SELECT s."id", CAST(s."price" AS NUMBER(14, 4)) FROM "shop"."orders" AS s'
        ),
        'CREATE OR REPLACE TABLE "shop"."orders" CLONE "shop"."__penstock_copy/orders" COPY GRANTS',
        'DROP TABLE "shop"."__penstock_copy/orders"',
    ]
    assert migrate_around(SNOWFLAKE, table(ID, PRICE, key=()), table(ID), Around(has_rows=False)) == [
        'CREATE OR REPLACE TABLE "shop"."orders" ("id" NUMBER(38, 0)) COPY GRANTS',
    ]


@pytest.mark.parametrize("dialect", EVERY, ids=lambda dialect: dialect.name)
def test_what_may_change_values_is_refused_and_so_is_what_may_be_a_rename(dialect: Dialect) -> None:
    narrower = table(ID, Column("name", IntegerType(16, unsigned=False), nullable=True))
    other = table(ID, Column("title", TextType(64, "utf8mb4"), nullable=True))

    with pytest.raises(TableStoppedError, match="may change stored values"):
        migrate(dialect, table(ID, NAME), narrower)
    with pytest.raises(TableStoppedError, match="may be a rename"):
        migrate(dialect, table(ID, NAME), other)
    with pytest.raises(TableStoppedError, match="may be a rename"):
        # Its source was asked for the column's number when the table was gone.
        migrate(dialect, table(ID, replace(NAME, number=2)), other, are_told=True)
    assert len(migrate(dialect, table(ID, NAME), other, are_told=True)) == 2
    assert parsed(dialect, plan_column_renames(dialect, TargetTable("", table(ID, NAME)), [("name", "title")]))[-1] == (
        'ALTER TABLE "shop"."orders" RENAME COLUMN "__penstock_renamed_0" TO "title"'
    )


@pytest.mark.parametrize(
    ("dialect", "name", "reason"),
    [
        (POSTGRES, "ö" * 32, "longer than the 63 bytes"),
        (REDSHIFT, "x" * 128, "longer than the 127 bytes"),
        (SNOWFLAKE, "x" * 256, "longer than the 255 bytes"),
        (POSTGRES, "CTID", "keeps this name"),
        (REDSHIFT, "oid", "keeps this name"),
    ],
)
def test_a_name_that_a_target_would_cut_or_not_take_is_refused(dialect: Dialect, name: str, reason: str) -> None:
    with pytest.raises(TableStoppedError, match=reason):
        plan_create(dialect, TargetTable("", table(ID, Column(name, INT, nullable=True))))


def test_a_vector_or_a_number_that_is_too_large_is_refused() -> None:
    for type_, dialect in (
        (VectorType(4097), SNOWFLAKE),
        (DecimalType(38, 38), REDSHIFT),
        (DecimalType(39, 0), SNOWFLAKE),
    ):
        with pytest.raises(TableStoppedError, match="holds"):
            plan_create(dialect, TargetTable("", table(ID, Column("c", type_, nullable=True))))


@pytest.mark.parametrize("dialect", EVERY, ids=lambda dialect: dialect.name)
def test_a_truncate_of_a_change_log_is_an_entry_in_it(dialect: Dialect) -> None:
    (statement,) = parsed(
        dialect, plan_truncate(dialect, TargetTable("", table(ID, key=())), LogPlace("b\\in", 4, 0, 5))
    )

    assert ("'b\\\\in'" in statement) == (dialect is not POSTGRES)


def test_values_that_may_be_too_long_are_named() -> None:
    long = table(
        ID,
        Column("body", TextType(2**24 - 1, "utf8mb4"), nullable=True),
        Column("doc", PrintedType("json"), nullable=True),
        Column("raw", BytesType(2**32 - 1, fixed=False), nullable=True),
        NAME,
    )

    assert describe_limits(REDSHIFT, long) == [
        "body: redshift refuses values of more than 65535 bytes of UTF-8",
        "doc: redshift refuses values of more than 65535 bytes of UTF-8",
        "raw: redshift refuses values of more than 16777216 bytes",
    ]
    assert describe_limits(SNOWFLAKE, long) == [
        "doc: snowflake refuses values of more than 16777216 characters",
        "raw: snowflake refuses values of more than 8388608 bytes",
    ]
    assert describe_limits(POSTGRES, long) == []


@pytest.mark.parametrize(
    ("seen", "type_", "same"),
    [
        ("VARCHAR(9)", "VARCHAR(20)", True),
        ("VARCHAR(9)", "SUPER", False),
        ("SUPER", "VARCHAR(9)", False),
        ("DECIMAL(9, 2)", "DECIMAL(12, 2)", True),
        ("INTEGER", "BIGINT", False),
        ("SOMETHING ELSE(3)", "VARBYTE(3)", True),
    ],
)
def test_types_that_differ_in_more_than_their_length_are_told_apart(seen: str, type_: str, same: bool) -> None:  # noqa: FBT001
    assert may_have_become(REDSHIFT, seen, type_) is same
    assert not may_have_become(POSTGRES, seen, type_)
    assert may_have_become(replace(POSTGRES, retypes_in_transaction=False), seen, type_)


def test_keys_that_differ_in_blanks_at_their_end_are_two_keys_in_redshift_too() -> None:
    schema = table(ID, NAME, key=("name", "id"))

    delete, insert = parsed(REDSHIFT, plan_merge(REDSHIFT, TargetTable("", schema), schema, '"new"'))

    assert delete == (
        'DELETE FROM "shop"."orders" USING "new" WHERE "new"."name" = "shop"."orders"."name" '
        'AND LENGTH("new"."name") = LENGTH("shop"."orders"."name") AND "new"."id" = "shop"."orders"."id"'
    )
    assert 'GROUP BY "name", LENGTH("name"), "id")' in insert
    assert 'ON s."name" = latest."name" AND LENGTH(s."name") = LENGTH(latest."name") AND s."id" = latest."id"' in insert
    checks = plan_migration(REDSHIFT, TargetTable("", table(ID, NAME)), schema).checks
    assert 'GROUP BY "name", LENGTH("name"), "id" HAVING COUNT(*) > 1' in checks[0].query
    assert "LENGTH" not in " ".join(plan_merge(POSTGRES, TargetTable("", schema), schema, '"new"'))
