"""PostgreSQL's statements as a table's schema."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.tables import (
    BytesType,
    Column,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    GeometryType,
    IntegerType,
    PrintedType,
    TableId,
    TableSchema,
    TextType,
    TimestampType,
    TimeType,
    VectorType,
)
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.statements.create_table_postgres import parse_postgres_table

AS_PRINTED = PrintedType("postgres")
LONGEST = (1 << 30) - 1


def only_column(definition: str, before: str = "") -> Column:
    (column,) = parse_postgres_table(f"{before} CREATE TABLE shop.t (c {definition})").columns
    return column


def test_a_whole_table_is_read() -> None:
    table = parse_postgres_table(
        """
        CREATE TYPE shop.mood AS ENUM ('good', 'it''s bad');
        CREATE DOMAIN shop.email AS varchar(80) NOT NULL DEFAULT 'nobody' CHECK (VALUE ~ '@');
        CREATE TABLE IF NOT EXISTS "shop"."Order lines" (
          id bigint GENERATED ALWAYS AS IDENTITY (START WITH 7),
          "Line" serial,
          mood shop.mood DEFAULT 'good'::shop.mood,
          mail shop.email,
          twice int GENERATED ALWAYS AS (id * 2) STORED,
          n numeric(12,2) DEFAULT -5.50 CONSTRAINT positive CHECK (n > 0, 1) UNIQUE,
          CONSTRAINT k PRIMARY KEY ("Line", id),
          FOREIGN KEY (id) REFERENCES x (y) ON DELETE CASCADE, EXCLUDE USING gist (id WITH =)
        ) PARTITION BY RANGE (id);
        COMMENT ON TABLE shop."Order lines" IS 'lines, all of them';
        COMMENT ON COLUMN shop."Order lines".n IS 'in ''euros''';
        CREATE INDEX i ON shop."Order lines" (n);
        """
    )

    assert table == TableSchema(
        TableId("shop", "Order lines"),
        (
            Column("id", IntegerType(64, unsigned=False), False, "bigint", None, True),  # noqa: FBT003
            Column("Line", IntegerType(32, unsigned=False), False, "integer", None, True),  # noqa: FBT003
            Column("mood", EnumType(("good", "it's bad")), True, "shop.mood", "good"),  # noqa: FBT003
            Column("mail", TextType(80, "utf8mb4"), False, "shop.email", "nobody"),  # noqa: FBT003
            Column(
                "twice",
                IntegerType(32, unsigned=False),
                nullable=True,
                declaration="integer GENERATED ALWAYS AS (id * 2) STORED",
                default_is_expression=True,
            ),
            Column("n", DecimalType(12, 2), True, "numeric(12,2)", "-5.50", comment="in 'euros'"),  # noqa: FBT003
        ),
        ("Line", "id"),
        "lines, all of them",
    )


def test_what_pg_dump_writes_is_read() -> None:
    table = parse_postgres_table(
        """
        -- PostgreSQL database dump
        SET statement_timeout = 0;
        SELECT pg_catalog.set_config('search_path', '', false);
        CREATE SCHEMA shop;
        ALTER SCHEMA shop OWNER TO ada;
        CREATE TABLE shop.orders (
            id bigint NOT NULL,
            note character varying(64),
            at timestamp(3) without time zone
        );
        ALTER TABLE shop.orders OWNER TO ada;
        CREATE SEQUENCE shop.orders_id_seq START WITH 1 INCREMENT BY 1 CACHE 1;
        ALTER SEQUENCE shop.orders_id_seq OWNED BY shop.orders.id;
        ALTER TABLE ONLY shop.orders ALTER COLUMN id SET DEFAULT nextval('shop.orders_id_seq'::regclass);
        ALTER TABLE ONLY shop.orders ADD CONSTRAINT orders_pkey PRIMARY KEY (id);
        """
    )

    assert table.key == ("id",)
    assert [(each.name, each.type, each.nullable, each.default_is_expression) for each in table.columns] == [
        ("id", IntegerType(64, unsigned=False), False, True),
        ("note", TextType(64, "utf8mb4"), True, False),
        ("at", DateTimeType(3), True, False),
    ]


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("int2", IntegerType(16, unsigned=False)),
        ("bigserial", IntegerType(64, unsigned=False)),
        ("boolean", IntegerType(8, unsigned=False)),
        ("oid", IntegerType(32, unsigned=True)),
        ("numeric(5)", DecimalType(5, 0)),
        ("decimal(5,-2)", DecimalType(7, 0)),
        ("numeric(3,5)", DecimalType(5, 5)),
        ("numeric", AS_PRINTED),
        ("real", FloatType(32)),
        ("float(24)", FloatType(32)),
        ("float(25)", FloatType(64)),
        ("float", FloatType(64)),
        ("double precision", FloatType(64)),
        ("char", TextType(1, "utf8mb4")),
        ("character(7)", TextType(7, "utf8mb4")),
        ("national character varying(9)", TextType(9, "utf8mb4")),
        ('"char"', TextType(1, "utf8mb4")),
        ("text", TextType(LONGEST, "utf8mb4")),
        ("name", TextType(63, "utf8mb4")),
        ("bytea", BytesType(LONGEST, fixed=False)),
        ("date", DateType()),
        ("time(3)", TimeType(3)),
        ("timetz", AS_PRINTED),
        ("time with time zone", AS_PRINTED),
        ("timestamp", DateTimeType(6)),
        ("timestamp(0) without time zone", DateTimeType(0)),
        ("timestamptz(3)", TimestampType(3)),
        ("timestamp(3) with time zone", TimestampType(3)),
        ("interval day to second(3)", AS_PRINTED),
        ("uuid", PrintedType("uuid")),
        ("jsonb", PrintedType("json")),
        ("integer[]", AS_PRINTED),
        ("varchar(5)[3][4]", AS_PRINTED),
        ("text array", AS_PRINTED),
        ("bit(3)", AS_PRINTED),
        ("bit varying(3)", AS_PRINTED),
        ("macaddr8", AS_PRINTED),
        ("datemultirange", AS_PRINTED),
        ("pg_catalog.int4", IntegerType(32, unsigned=False)),
        ("geometry(Point,4326)", GeometryType()),
        ("vector(3)", VectorType(3)),
    ],
)
def test_every_type_is_known(definition: str, expected: ColumnType) -> None:
    assert only_column(definition).type == expected


@pytest.mark.parametrize(
    ("definition", "default", "is_expression"),
    [
        ("int DEFAULT 5", "5", False),
        ("int DEFAULT - 5", "-5", False),
        ("int DEFAULT (5)", None, True),
        ("int DEFAULT 5 + 1 NOT NULL", None, True),
        ("int DEFAULT NULL", None, False),
        ("text DEFAULT 'it''s'::text NOT NULL", "it's", False),
        ("text DEFAULT E'a\\tb'", "a\tb", False),
        ("boolean DEFAULT true", "1", False),
        ("boolean DEFAULT 'no'", "0", False),
        ("date DEFAULT CURRENT_DATE", None, True),
        ("date DEFAULT '2020-01-02'::date", "2020-01-02", False),
        ("timestamptz DEFAULT '2020-01-02 00:00:00'", None, True),
        ("bytea DEFAULT '\\x00'", None, True),
        ("uuid DEFAULT gen_random_uuid()", None, True),
    ],
)
def test_a_default_is_a_constant_or_an_expression(definition: str, default: str | None, *, is_expression: bool) -> None:
    column = only_column(definition)

    assert (column.default, column.default_is_expression) == (default, is_expression)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("", "there is no CREATE TABLE in it"),
        ("CREATE TABLE t (a int)", "line 1, column 16, at '(': t does not say which schema it is in"),
        (
            "CREATE TABLE shop.t (\n  a int,\n  b nothing(3))",
            "line 3, column 5, at 'nothing': there is no type nothing",
        ),
        ("CREATE TABLE shop.t (a int", "line 1, column 27, at the end: a parenthesis is not closed"),
        ("CREATE TABLE shop.t (a int 5)", "line 1, column 28, at '5': there should be a constraint"),
        ("CREATE TABLE shop.t (a int,)", "a comma without a column"),
        ("CREATE TABLE shop.t ()", "no column at all"),
        ("CREATE TABLE shop.t (a)", "there should be a name"),
        ("CREATE TABLE shop.t (a int, a int)", "two columns 'a'"),
        ("CREATE TABLE shop.t (a int, PRIMARY KEY (x))", "no column 'x'"),
        ("CREATE TABLE shop.t (a varchar('x'))", "line 1, column 32, at \"'x'\": there should be a whole number"),
        ("CREATE TABLE shop.t (\n a int DEFAULT 'x)", "line 2, column 16: ' is never closed"),
        ("CREATE TABLE shop.t AS SELECT 1", "it does not list columns of its own"),
        ("CREATE TABLE shop.t (LIKE shop.u)", "it has columns of another table"),
        ("CREATE TABLE shop.t (a int) INHERITS (shop.u)", "it has columns of another table"),
        ("CREATE TEMP TABLE shop.t (a int)", "it does not make a table of its own"),
        ("CREATE TABLE shop.t (a int); CREATE TABLE shop.u (a int)", "more than one CREATE TABLE"),
        ("CREATE TABLE shop.t (a int); DROP TABLE shop.t", "does not belong to a table"),
        ("CREATE TABLE shop.t (a int); COMMENT ON TABLE shop.u IS 'x'", "shop.u is not the table of this text"),
        ("CREATE TABLE shop.t (a int); ALTER TABLE shop.t ADD COLUMN b int", "it changes the table's columns"),
        ("CREATE TABLE shop.t (a int); ALTER TABLE shop.t ALTER a TYPE text", "it changes a column"),
    ],
)
def test_anything_else_is_refused_with_its_place(sql: str, reason: str) -> None:
    with pytest.raises(RefusedError) as refused:
        parse_postgres_table(sql)

    assert refused.value.code is Code.INVALID_TABLE
    assert reason in refused.value.message


WORDS = [
    *["CREATE", "TABLE", "shop", ".", "t", "(", ")", "[", "]", ",", ";", "::", "a", "b", "int", "varchar", "64", "'x'"],
    *["NOT", "NULL", "PRIMARY", "KEY", "DEFAULT", "GENERATED", "ALWAYS", "AS", "COMMENT", "ON", "IS", "ALTER", "-"],
    *['"q"', '""', "ENUM", "TYPE", "/*", "$$", "E'", "time", "with", "array", "numeric", "interval", "double"],
]


@given(st.lists(st.sampled_from(WORDS), max_size=25))
def test_nearly_a_statement_is_read_or_refused_and_never_a_crash(words: list[str]) -> None:
    for sql in (f"CREATE TABLE shop.t ({' '.join(words)})", f"CREATE TABLE shop.t (a int) {' '.join(words)}"):
        try:
            parse_postgres_table(sql)
        except RefusedError as error:
            assert error.code is Code.INVALID_TABLE  # noqa: PT017 - either outcome is right
