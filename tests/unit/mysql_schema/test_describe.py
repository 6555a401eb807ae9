from __future__ import annotations

import pytest

from penstock.core.mysql.statements.describe import (
    ColumnRow,
    Flavour,
    TableRow,
    describe_column,
    describe_table,
    is_system_versioned,
)
from penstock.core.tables import (
    BitType,
    BytesType,
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
    TextType,
    TimestampType,
    TimeType,
    UnsupportedType,
    VectorType,
    YearType,
)


def row(
    column_type: str,
    default: str | None = None,
    *,
    length: int = 0,
    charset: str = "",
    digits: int = 0,
    extra: str = "",
) -> ColumnRow:
    return ColumnRow(
        name="c",
        data_type=column_type.split("(", maxsplit=1)[0].split(maxsplit=1)[0],
        column_type=column_type,
        nullable=True,
        default=default,
        extra=extra,
        generation="",
        charset=charset,
        characters_max=length,
        fraction_digits=digits,
        comment="",
    )


TYPES: list[tuple[ColumnRow, ColumnType]] = [
    (row("tinyint(1)"), IntegerType(8, unsigned=False)),
    (row("smallint(5) unsigned"), IntegerType(16, unsigned=True)),
    (row("mediumint(9)"), IntegerType(24, unsigned=False)),
    (row("int(10) unsigned zerofill"), IntegerType(32, unsigned=True)),
    (row("bigint"), IntegerType(64, unsigned=False)),
    (row("decimal(65,30)"), DecimalType(65, 30)),
    (row("float(7,3)"), FloatType(32)),
    (row("double unsigned"), FloatType(64)),
    (row("varchar(10)", length=10, charset="utf8mb4"), TextType(10, "utf8mb4")),
    (row("char(4)", length=4, charset="utf8"), TextType(4, "utf8mb3")),
    (row("longtext", length=4294967295, charset="ascii"), TextType(4294967295, "ascii")),
    (row("text", length=65535, charset="latin1"), TextType(65535, "latin1")),
    (row("varchar(9)", length=9, charset="utf16"), TextType(9, "utf16")),
    (row("varchar(9)", length=9, charset="klingon"), UnsupportedType("varchar(9) character set klingon")),
    (row("text /*M!100301 COMPRESSED*/", length=9, charset="utf8mb4"), TextType(9, "utf8mb4")),
    (row("text /*M!100301 ROTATED*/", length=9, charset="utf8mb4"), UnsupportedType("text /*M!100301 ROTATED*/")),
    (row("binary(4)", length=4), BytesType(4, fixed=True)),
    (row("varbinary(5)", length=5), BytesType(5, fixed=False)),
    (row("mediumblob", length=16777215), BytesType(16777215, fixed=False)),
    (row("date"), DateType()),
    (row("datetime(3)", digits=3), DateTimeType(3)),
    (row("datetime /* mariadb-5.3 */"), DateTimeType(0)),
    (row("timestamp(6)", digits=6), TimestampType(6)),
    (row("year(4)"), YearType()),
    (row("year"), YearType()),
    (row("year(2) unsigned"), UnsupportedType("year(2) unsigned, which prints years without their century")),
    (row("enum('a','b''c','d,e','','\\\\n','ü')"), EnumType(("a", "b'c", "d,e", "", "\\n", "ü"))),
    (row("enum('image/*','*/*',' /*M!100301 COMPRESSED*/')"), EnumType(("image/*", "*/*", " /*M!100301 COMPRESSED*/"))),
    (row("set('it''s /* \\\\','*/')"), SetType(("it's /* \\", "*/"))),
    (row("enum('/*') /*M!100301 ROTATED*/"), UnsupportedType("enum('/*') /*M!100301 ROTATED*/")),
    (row("set('x','y''z')"), SetType(("x", "y'z"))),
    (row("enum('?','b')", charset="utf8mb3"), EnumType(("?", "b"))),
    *(
        (
            row(text, charset=charset),
            UnsupportedType(f"{text}, in which ? may stand for a character that the server hides"),
        )
        for text in ("enum('?','b')", "set('b','why?')", "enum('\ufffd')")
        for charset in ("utf8mb4", "utf16", "cp1250", "eucjpms", "big5", "binary", "tis620")
    ),
    (row("enum('?','b')", charset="latin1"), EnumType(("?", "b"))),
    (row("enum('?','b')", charset="koi8r"), EnumType(("?", "b"))),
    (row("enum('é','b')", charset="binary"), EnumType(("é", "b"))),
    (
        row("enum('?','b','?')", charset="ascii"),
        UnsupportedType("enum('?','b','?'), in which ? may stand for a character that the server hides"),
    ),
    (
        row("set('a',x'ff')"),
        UnsupportedType("set('a',x'ff'), of whose labels the server prints some as bytes"),
    ),
    (row("bit(3)"), BitType(3)),
    (row("time(2)", digits=2), TimeType(2)),
    (row("json"), PrintedType("json")),
    (row("uuid"), PrintedType("uuid")),
    (row("inet4"), PrintedType("inet4")),
    (row("inet6"), PrintedType("inet6")),
    (row("vector(3)"), VectorType(3)),
    *((row(text), GeometryType()) for text in ("geometry", "point", "geomcollection", "multipolygon")),
    (row("xmltype"), UnsupportedType("xmltype")),
]


@pytest.mark.parametrize(("column", "expected"), TYPES, ids=lambda value: getattr(value, "column_type", ""))
def test_a_declaration_becomes_its_type(column: ColumnRow, expected: ColumnType) -> None:
    described = describe_column(column, "mariadb")

    assert described.type == expected
    assert described.declaration == column.column_type


COMPUTED = (None, True)
DEFAULTS: list[tuple[Flavour, ColumnRow, tuple[str | None, bool]]] = [
    ("mariadb", row("int(11)", None), (None, False)),
    ("mariadb", row("int(11)", "NULL"), (None, False)),
    ("mariadb", row("int(11)", "-3"), ("-3", False)),
    ("mariadb", row("double", "1e30"), ("1e30", False)),
    ("mariadb", row("decimal(5,2)", "1.50"), ("1.50", False)),
    ("mariadb", row("int(11)", "(1 + 2)"), COMPUTED),
    ("mariadb", row("bit(5)", "b'101'"), ("5", False)),
    ("mysql", row("bit(5)", "b'101'"), ("5", False)),
    ("mariadb", row("varchar(36)", "uuid()", charset="utf8mb4"), COMPUTED),
    ("mariadb", row("datetime(3)", "current_timestamp(3)", digits=3), COMPUTED),
    ("mariadb", row("varchar(9)", "'it''s'", charset="utf8mb4"), ("it's", False)),
    ("mariadb", row("varchar(9)", "'NULL'", charset="utf8mb4"), ("NULL", False)),
    ("mariadb", row("varchar(9)", "'a\\nb\\\\'", charset="utf8mb4"), ("a\nb\\", False)),
    ("mariadb", row("varchar(9)", "''", charset="utf8mb4"), ("", False)),
    ("mariadb", row("varchar(9)", "'?'", charset="utf8mb3"), ("?", False)),
    ("mariadb", row("varchar(9)", "'?'", charset="utf8mb4"), COMPUTED),
    ("mysql", row("varchar(9)", "a?", charset="gb18030"), COMPUTED),
    ("mysql", row("varchar(9)", "a?", charset="cp1250"), COMPUTED),
    ("mysql", row("varchar(9)", "a?", charset="latin1"), ("a?", False)),
    ("mariadb", row("text", "1e10", charset="utf8mb4"), COMPUTED),
    ("mariadb", row("longtext", "1.50", charset="utf8mb4"), COMPUTED),
    ("mariadb", row("blob", "007"), COMPUTED),
    ("mariadb", row("text", "-12", charset="utf8mb4"), ("-12", False)),
    ("mariadb", row("text", "'1e10'", charset="utf8mb4"), ("1e10", False)),
    ("mariadb", row("binary(2)", "'a\\0'", length=2), ("a\0", False)),
    ("mariadb", row("varbinary(2)", "'?'", length=2), COMPUTED),
    ("mariadb", row("binary(2)", "x'6100'", length=2), ("a\0", False)),
    ("mariadb", row("varbinary(2)", "x'ff'", length=2), COMPUTED),
    ("mariadb", row("date", "'2020-01-02'"), ("2020-01-02", False)),
    ("mariadb", row("date", "'0000-00-00'"), COMPUTED),
    ("mariadb", row("date", "'2024-02-30'"), COMPUTED),
    ("mariadb", row("date", "'2024-00-01'"), COMPUTED),
    ("mysql", row("datetime", "2023-02-29 10:00:00"), COMPUTED),
    ("mysql", row("datetime(3)", "2024-02-29 23:59:59.999", digits=3), ("2024-02-29 23:59:59.999", False)),
    ("mariadb", row("timestamp", "'2020-01-02 00:00:00'"), COMPUTED),
    ("mariadb", row("float", "1.5"), ("1.5", False)),
    ("mariadb", row("float", "3.14159"), COMPUTED),
    ("mariadb", row("int(11)", None, extra="auto_increment"), COMPUTED),
    ("mysql", row("varchar(9)", "uuid()", charset="utf8mb4"), ("uuid()", False)),
    ("mysql", row("varchar(9)", "uuid()", charset="utf8mb4", extra="DEFAULT_GENERATED"), COMPUTED),
    ("mysql", row("datetime", "CURRENT_TIMESTAMP"), COMPUTED),
    ("mysql", row("varbinary(9)", "0x6162", length=9), COMPUTED),
    ("mysql", row("int", None), (None, False)),
]


@pytest.mark.parametrize(("flavour", "column", "expected"), DEFAULTS)
def test_only_a_default_that_everybody_reads_alike_is_a_constant(
    flavour: Flavour, column: ColumnRow, expected: tuple[str | None, bool]
) -> None:
    described = describe_column(column, flavour)

    assert (described.default, described.default_is_expression) == expected


def test_a_generated_column_says_so_and_has_no_constant_default() -> None:
    column = ColumnRow("c", "int", "int(11)", True, "NULL", "VIRTUAL GENERATED", "`a` + 1", "", 0, 0, "")  # noqa: FBT003

    described = describe_column(column, "mariadb")

    assert described.declaration == "int(11) GENERATED ALWAYS AS (`a` + 1) VIRTUAL"
    assert described.default_is_expression


def test_a_system_versioned_table_has_the_two_columns_that_the_log_has() -> None:
    table = TableRow(TableId("a", "t"), "SYSTEM VERSIONED", "")

    schema, keyless = (describe_table(table, [row("int(11)")], key, "mariadb") for key in (["c"], []))

    assert [column.name for column in schema.columns] == ["c", "row_start", "row_end"]
    assert [column.type for column in schema.columns[1:]] == [TimestampType(6)] * 2
    assert (schema.key, keyless.key) == (("c", "row_end"), ())
    assert is_system_versioned(schema)


def test_a_period_that_is_shown_is_described_as_one_that_is_hidden() -> None:
    hidden = describe_table(TableRow(TableId("a", "t"), "SYSTEM VERSIONED", ""), [row("int(11)")], ["c"], "mariadb")
    bounds = [period_row("row_start", "timestamp", "ROW START"), period_row("row_end", "timestamp", "ROW END")]

    table = TableRow(TableId("a", "t"), "SYSTEM VERSIONED", "")
    shown = describe_table(table, [row("int(11)"), *bounds], ["c", "row_end"], "mariadb")

    assert shown == hidden
    assert not is_system_versioned(describe_table(table, [row("int(11)"), bounds[0]], ["c"], "mariadb"))


def test_a_period_of_transaction_numbers_cannot_be_carried() -> None:
    column = describe_column(period_row("s", "bigint", "ROW START"), "mariadb")

    assert column.type == UnsupportedType("bigint ROW START")


def period_row(name: str, kind: str, bound: str) -> ColumnRow:
    declared = "timestamp(6)" if kind == "timestamp" else kind
    return ColumnRow(name, kind, declared, False, None, "STORED GENERATED", bound, "", 0, 6, "")  # noqa: FBT003
