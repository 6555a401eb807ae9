"""docs/types.md says what the code does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, get_args

import pytest

from penstock.core.arrow_types import arrow_type
from penstock.core.avro.column_types import avro_type
from penstock.core.mysql.statements.describe import ColumnRow, describe_column
from penstock.core.mysql.types.charsets import BYTES_PER_CHARACTER
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
    TextType,
    TimestampType,
    TimeType,
    UnsupportedType,
    VectorType,
    YearType,
)
from penstock.core.warehouse.delta import DELTA
from penstock.core.warehouse.dialect import DUCKDB, render_type
from penstock.core.warehouse.dialects import POSTGRES

_PAGE: Final = Path(__file__).parents[3] / "docs" / "types.md"

_CARRIED: Final[dict[str, ColumnType]] = {
    "TINYINT, BOOLEAN": IntegerType(8, unsigned=False),
    "TINYINT UNSIGNED": IntegerType(8, unsigned=True),
    "SMALLINT": IntegerType(16, unsigned=False),
    "SMALLINT UNSIGNED": IntegerType(16, unsigned=True),
    "MEDIUMINT": IntegerType(24, unsigned=False),
    "MEDIUMINT UNSIGNED": IntegerType(24, unsigned=True),
    "INT": IntegerType(32, unsigned=False),
    "INT UNSIGNED": IntegerType(32, unsigned=True),
    "BIGINT": IntegerType(64, unsigned=False),
    "BIGINT UNSIGNED": IntegerType(64, unsigned=True),
    "DECIMAL(12,2)": DecimalType(12, 2),
    "FLOAT": FloatType(32),
    "DOUBLE": FloatType(64),
    "CHAR, VARCHAR, TINYTEXT, TEXT, MEDIUMTEXT, LONGTEXT": TextType(64, "utf8mb4"),
    "BINARY, VARBINARY, TINYBLOB, BLOB, MEDIUMBLOB, LONGBLOB": BytesType(64, fixed=False),
    "DATE": DateType(),
    "DATETIME(0) to DATETIME(6)": DateTimeType(6),
    "TIMESTAMP(0) to TIMESTAMP(6)": TimestampType(6),
    "YEAR": YearType(),
    "ENUM": EnumType(("a", "b")),
    "SET": SetType(("a", "b")),
    "BIT(1) to BIT(8)": BitType(8),
    "BIT(9) to BIT(16)": BitType(16),
    "BIT(17) to BIT(32)": BitType(32),
    "BIT(33) to BIT(64)": BitType(64),
    "TIME(0) to TIME(6)": TimeType(6),
    "JSON (MySQL)": PrintedType("json"),
    "UUID (MariaDB)": PrintedType("uuid"),
    "INET4, INET6 (MariaDB)": PrintedType("inet6"),
    "GEOMETRY, POINT, LINESTRING, POLYGON and the collections": GeometryType(),
    "VECTOR(3)": VectorType(3),
}


def test_the_table_of_carried_types_is_what_the_code_does() -> None:
    expected = [
        f"| {name} | `{arrow_type(type_)}` | {_avro(type_)} | `{render_type(DUCKDB, type_)}` "
        f"| `{render_type(POSTGRES, type_)}` | `{render_type(DELTA, type_)}` |"
        for name, type_ in _CARRIED.items()
    ]

    assert _rows("## Carried") == expected


def test_the_table_of_carried_types_leaves_none_out() -> None:
    listed = {type(type_) for type_ in _CARRIED.values()}

    assert listed | {UnsupportedType} == set(get_args(ColumnType))


@pytest.mark.parametrize("charset", BYTES_PER_CHARACTER)
def test_a_character_set_that_is_listed_is_carried(charset: str) -> None:
    column = describe_column(_row("varchar(9)", charset), "mariadb")

    assert isinstance(column.type, TextType)
    assert f"`{charset}`" in _PAGE.read_text(encoding="utf-8")


def test_types_that_are_listed_as_stopping_a_table_do() -> None:
    listed = [row.split("|")[1].strip() for row in _rows("## What stops a table")]
    columns = [describe_column(_row(name.strip().lower()), "mariadb") for names in listed for name in names.split(",")]

    assert columns
    assert {type(column.type) for column in columns} == {UnsupportedType}


def _row(declaration: str, charset: str = "utf8mb4") -> ColumnRow:
    return ColumnRow(
        name="c",
        data_type=declaration.partition("(")[0],
        column_type=declaration,
        nullable=True,
        default=None,
        extra="",
        generation="",
        charset=charset,
        characters_max=9,
        fraction_digits=0,
        comment="",
    )


def _avro(type_: ColumnType) -> str:
    avro = avro_type(type_)
    if isinstance(avro, str):
        return f"`{avro}`"
    fields = json.loads(json.dumps(avro))
    if "items" in fields:
        return f"`{fields['type']}` of `{fields['items']}`"
    digits = f"({fields['precision']},{fields['scale']})" if "precision" in fields else ""
    return f"`{fields['type']}`, `{fields['logicalType']}{digits}`"


def _rows(heading: str) -> list[str]:
    """The rows of the first table below `heading`, without its head."""
    _, _, below = _PAGE.read_text(encoding="utf-8").partition(f"{heading}\n")
    section = below.partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| ")][1:]
