"""A CREATE TABLE statement as a table's schema."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    GeometryType,
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
from penstock.schematizer.refusals import Code, RefusedError
from penstock.schematizer.statements.create_table import parse_create_table


def only_column(definition: str, options: str = "") -> Column:
    (column,) = parse_create_table(f"CREATE TABLE shop.t (c {definition}) {options}").columns
    return column


def test_a_whole_table_is_read() -> None:
    table = parse_create_table(
        """
        CREATE TABLE IF NOT EXISTS `shop`.`order lines` (
          `order id` bigint(20) unsigned NOT NULL AUTO_INCREMENT COMMENT 'it''s ours',
          line smallint NOT NULL,
          note varchar(64) DEFAULT NULL,
          PRIMARY KEY (LINE, `order id`) USING BTREE,
          UNIQUE KEY u (note), KEY k (note(10)), CONSTRAINT f FOREIGN KEY (line) REFERENCES x (y) ON DELETE CASCADE
        ) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb3 COMMENT='lines of orders'
        """
    )

    assert table == TableSchema(
        TableId("shop", "order lines"),
        (
            Column(
                "order id",
                IntegerType(64, unsigned=True),
                nullable=False,
                declaration="bigint(20) unsigned",
                default_is_expression=True,
                comment="it's ours",
            ),
            Column("line", IntegerType(16, unsigned=False), nullable=False, declaration="smallint"),
            Column("note", TextType(64, "utf8mb3"), nullable=True, declaration="varchar(64)"),
        ),
        ("line", "order id"),
        "lines of orders",
    )


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("tinyint(1)", IntegerType(8, unsigned=False)),
        ("bool", IntegerType(8, unsigned=False)),
        ("mediumint unsigned", IntegerType(24, unsigned=True)),
        ("int(11) zerofill", IntegerType(32, unsigned=True)),
        ("integer", IntegerType(32, unsigned=False)),
        ("inet4", PrintedType("inet4")),
        ("INET6 NOT NULL", PrintedType("inet6")),
        ("multipolygon", GeometryType()),
        ("character varying(9)", TextType(9, "utf8mb4")),
        ("int8", IntegerType(64, unsigned=False)),
        ("decimal", DecimalType(10, 0)),
        ("numeric(5)", DecimalType(5, 0)),
        ("fixed(12,4) unsigned", DecimalType(12, 4)),
        ("float", FloatType(32)),
        ("float(24)", FloatType(32)),
        ("float(25)", FloatType(64)),
        ("real", FloatType(64)),
        ("double precision", FloatType(64)),
        ("char", TextType(1, "utf8mb4")),
        ("varchar(5) CHARACTER SET ascii", TextType(5, "ascii")),
        ("varchar(5) COLLATE utf8mb3_bin", TextType(5, "utf8mb3")),
        ("longtext", TextType(2**32 - 1, "utf8mb4")),
        ("binary", BytesType(1, fixed=True)),
        ("varbinary(7)", BytesType(7, fixed=False)),
        ("blob", BytesType(65_535, fixed=False)),
        ("date", DateType()),
        ("datetime", DateTimeType(0)),
        ("datetime(6)", DateTimeType(6)),
        ("timestamp(3) NULL", TimestampType(3)),
        ("year(4)", YearType()),
        ("enum('a','it''s','x\\\\y')", EnumType(("a", "it's", "x\\y"))),
        ("json", PrintedType("json")),
        ("set('a','b')", SetType(("a", "b"))),
        ("text(70)", UnsupportedType("text(70)")),
        ("varchar(5) CHARACTER SET koi8r", TextType(5, "koi8r")),
        ("bit(9)", BitType(9)),
        ("time(3)", TimeType(3)),
        ("geometry", GeometryType()),
    ],
)
def test_every_type_is_read_as_the_server_shows_it(definition: str, expected: ColumnType) -> None:
    assert only_column(definition).type == expected


@pytest.mark.parametrize(
    ("definition", "default", "is_expression"),
    [
        ("int", None, False),
        ("int DEFAULT NULL", None, False),
        ("int NOT NULL DEFAULT '7'", "7", False),
        ("int DEFAULT -3", "-3", False),
        ("bool DEFAULT TRUE", "1", False),
        ("varchar(9) DEFAULT 'it''s'", "it's", False),
        ("datetime DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP", None, True),
        ("varchar(36) DEFAULT (uuid())", None, True),
        ("int GENERATED ALWAYS AS (1 + 1) STORED", None, True),
    ],
)
def test_a_default_is_a_constant_or_known_to_the_server_alone(
    definition: str, default: str | None, *, is_expression: bool
) -> None:
    column = only_column(definition)

    assert (column.default, column.default_is_expression) == (default, is_expression)


def test_a_tables_collation_tells_its_character_set() -> None:
    assert only_column("text", "COLLATE=ascii_bin").type == TextType(65_535, "ascii")


def test_a_key_beside_its_column_is_the_key() -> None:
    assert parse_create_table("CREATE TABLE shop.t (a int PRIMARY KEY, b int)").key == ("a",)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("", "not one CREATE TABLE"),
        ("DROP TABLE shop.t", "not one CREATE TABLE"),
        ("CREATE TABLE shop.t (a int); CREATE TABLE shop.u (a int)", "not one CREATE TABLE"),
        ("CREATE TABLE shop.t LIKE shop.u", "of its own"),
        ("CREATE TABLE shop.t AS SELECT 1", "of its own"),
        ("CREATE TEMPORARY TABLE shop.t (a int)", "of its own"),
        ("CREATE VIEW shop.t AS SELECT 1", "of its own"),
        ("CREATE TABLE t (a int)", "which database"),
        ("CREATE TABLE x.shop.t (a int)", "which database"),
        ("CREATE TABLE shop.t (a int,\n b int int)", "line 2, column 10, at 'int'"),
        ("CREATE TABLE shop.t (a int COMMENT 'x", "tokenizing"),
        ("CREATE TABLE shop.t (a int, A int)", "two columns of one name"),
        ("CREATE TABLE shop.t (a int, PRIMARY KEY (b))", "has a column 'b'"),
        ("CREATE TABLE shop.t (a varchar(x))", "'X' is not a length"),
        ("CREATE TABLE shop.t (a)", "'a' is not a column with a type"),
    ],
)
def test_anything_else_is_refused_with_its_reason(sql: str, reason: str) -> None:
    with pytest.raises(RefusedError) as refused:
        parse_create_table(sql)

    assert refused.value.code is Code.INVALID_TABLE
    assert reason in refused.value.message


WORDS = [
    *["CREATE", "TABLE", "shop", ".", "t", "(", ")", ",", "a", "b", "int", "varchar", "64", "'x'"],
    *["NOT", "NULL", "PRIMARY", "KEY", "DEFAULT", "-"],
    "`q`",
    "ENUM",
    "/*",
]


@given(st.lists(st.sampled_from(WORDS), max_size=25))
def test_nearly_a_statement_is_read_or_refused_and_never_a_crash(words: list[str]) -> None:
    try:
        parse_create_table(f"CREATE TABLE shop.t ({' '.join(words)})")
    except RefusedError as error:
        assert error.code is Code.INVALID_TABLE  # noqa: PT017 - either outcome is right


def test_names_may_be_those_of_types_that_the_parser_does_not_know() -> None:
    table = parse_create_table("CREATE TABLE shop.point (point point, `inet4` INET4 DEFAULT '::1', KEY inet6 (point))")

    assert [(column.name, column.type) for column in table.columns] == [
        ("point", GeometryType()),
        ("inet4", PrintedType("inet4")),
    ]
