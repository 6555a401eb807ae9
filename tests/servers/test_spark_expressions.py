"""Columns that Spark SQL computes: their values and types, and what an expression must not be."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from penstock.core.arrow_types import arrow_schema
from penstock.core.avro.schemas import table_schema, value_schema
from penstock.core.errors import TableStoppedError
from penstock.core.tables import (
    Column,
    ColumnType,
    DateTimeType,
    DecimalType,
    IntegerType,
    PrintedType,
    TableId,
    TableSchema,
    TextType,
    TimestampType,
    TimeType,
    VectorType,
)
from penstock.core.transforms.expressions import ExpressionColumn
from penstock.core.transforms.type_names import parse_type
from penstock.spark.expressions import SparkExpressions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES: dict[str, ColumnType] = {
    "id": IntegerType(32, unsigned=False),
    "u": IntegerType(64, unsigned=True),
    "total": DecimalType(10, 2),
    "wide": DecimalType(65, 30),
    "t": TextType(20, "utf8mb4"),
    "at": DateTimeType(6),
    "ts": TimestampType(6),
    "span": TimeType(6),
    "v": VectorType(2),
    "odd `name`.x": TextType(20, "utf8mb4"),
    "amount": PrintedType("postgres"),
}
SCHEMA = TableSchema(
    TableId("shop", "orders"),
    tuple(Column(name, type_, nullable=name != "id") for name, type_ in TYPES.items()),
    ("id",),
)
NOON = dt.datetime(2024, 1, 31, 12, 30)  # noqa: DTZ001 - DATETIME has no zone
FULL: dict[str, object] = {
    "id": 1, "u": 2**64 - 1, "total": Decimal("12.34"), "wide": Decimal(1), "t": "Ann", "at": NOON,
    "ts": NOON.replace(tzinfo=dt.UTC), "span": dt.timedelta(hours=-30), "v": [1.0, 2.0], "odd `name`.x": "odd",
    "amount": "1000.50",
}  # fmt: skip
ROWS: list[dict[str, object]] = [FULL, {"id": 2}, {**FULL, "id": 3, "t": "bob"}]


def evaluated(spark: SparkSession, sql: str, type_: str, rows: list[dict[str, object]] = ROWS) -> list[object]:
    column = ExpressionColumn("x", sql, parse_type(type_))
    table = pa.Table.from_pylist(rows, arrow_schema(SCHEMA)).append_column("__penstock_op", pa.array(["c"] * len(rows)))

    schema, found = SparkExpressions(spark)(column, SCHEMA, table)

    assert schema == column.derive(SCHEMA) == table_schema(value_schema(schema))
    assert found.column_names == [*TYPES, "x", "__penstock_op"]
    assert found.schema.field("x").type == arrow_schema(schema).field("x").type
    assert found.drop_columns(["x"]).to_pylist() == table.to_pylist()
    return found.column("x").to_pylist()


@pytest.mark.parametrize(
    ("sql", "type_", "value"),
    [
        ("round(total * 2, 1)", "decimal(12,1)", Decimal("24.7")),
        ("u - 1", "decimal(20,0)", Decimal(2**64 - 2)),
        ("upper(substring(t, 1, 2))", "text", "AN"),
        ("`odd ``name``.x` || '!'", "text", "odd!"),
        ("date_trunc('HOUR', ts)", "timestamp", dt.datetime(2024, 1, 31, 12, tzinfo=dt.UTC)),
        ("hour(ts)", "int", 12),
        ("at + INTERVAL 1 DAY", "datetime", NOON + dt.timedelta(days=1)),
        ("to_date(at)", "date", NOON.date()),
        ("span * 2", "time", dt.timedelta(hours=-60)),
        ("t = 'Ann'", "boolean", 1),
        ("t = 'today'", "boolean", 0),
        ("t || '${t}'", "text", "Ann${t}"),
        ("v[0] + 1", "double", 2.0),
        ("encode(t, 'utf-8')", "bytes", b"Ann"),
        ("CAST(amount AS DECIMAL(38,10))", "decimal(38,10)", Decimal("1000.5")),
        ("id", "bigint", 1),
    ],
)
def test_a_column_has_the_value_of_its_expression_and_the_type_it_is_told(
    spark: SparkSession, sql: str, type_: str, value: object
) -> None:
    found = evaluated(spark, sql, type_)

    assert found[0] == value
    assert found[1] is None or sql == "id"


def test_instants_are_in_utc_whatever_the_session_s_time_zone(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        assert evaluated(spark, "hour(ts)", "int")[0] == 12
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


@pytest.mark.parametrize(("sql", "type_"), [("xxhash64(*)", "bigint"), ("to_json(struct(*))", "text")])
def test_a_star_is_the_columns_of_the_row_wherever_it_stands(spark: SparkSession, sql: str, type_: str) -> None:
    (alone,) = evaluated(spark, sql, type_, [FULL])
    among = evaluated(spark, sql, type_, [{"id": 7}, {"id": 8}, FULL, {"id": 9}])

    assert among[2] == alone
    assert "penstock" not in str(alone)


def test_many_rows_keep_their_order_and_none_are_none(spark: SparkSession) -> None:
    ids = [number * 7 % 25_013 for number in range(25_013)]
    rows: list[dict[str, object]] = [{"id": id_} for id_ in ids]

    assert evaluated(spark, "id + 1", "int", rows) == [id_ + 1 for id_ in ids]
    assert evaluated(spark, "'x'", "text", rows) == ["x"] * len(ids)
    assert evaluated(spark, "coalesce(t, 'none')", "text", []) == []


@pytest.mark.parametrize(
    ("sql", "type_", "said"),
    [
        ("total +", "int", "PARSE_SYNTAX_ERROR"),
        ("totl + 1", "int", "`total`"),
        ("wide + 1", "int", "cannot be resolved"),
        ("t + INTERVAL 1 DAY", "text", "shop.orders.x stopped at its transforms"),
        ("1 / (id - 1)", "double", "DIVIDE_BY_ZERO"),
        ("CAST(t AS INT)", "int", "CAST_INVALID_INPUT"),
        ("total * 1000000000", "decimal(4,2)", "NUMERIC_VALUE_OUT_OF_RANGE"),
        ("rand()", "double", "its value is another one each time"),
        ("uuid()", "text", "its value is another one each time"),
        ("current_timestamp()", "timestamp", "it asks for the current time"),
        ("now()", "timestamp", "it asks for the current time"),
        ("DATE 'today'", "date", "it asks for the current time"),
        ("CAST('now' AS TIMESTAMP)", "timestamp", "it asks for the current time"),
        ("to_date(' Yesterday ')", "date", "it asks for the current time"),
        ("at < concat('to', 'day')", "boolean", "it asks for the current time"),
        ("'tomorrow'", "datetime", "it asks for the current time"),
        ("sum(total)", "double", "stopped at its transforms"),
        ("row_number() OVER (ORDER BY id)", "int", "it looks at other rows"),
        ("explode(array(1, 2))", "int", "UNSUPPORTED_GENERATOR"),
        ("(SELECT 1)", "int", "it has a subquery"),
        ("id AS y, 1", "int", "PARSE_SYNTAX_ERROR"),
    ],
)
def test_an_expression_that_is_no_value_of_its_row_is_refused(
    spark: SparkSession, sql: str, type_: str, said: str
) -> None:
    with pytest.raises(TableStoppedError) as caught:
        evaluated(spark, sql, type_)

    assert said in str(caught.value)


def test_a_name_that_is_taken_is_refused(spark: SparkSession) -> None:
    with pytest.raises(TableStoppedError, match="there is a column of this name already"):
        SparkExpressions(spark)(ExpressionColumn("Total", "1", parse_type("int")), SCHEMA, pa.table({}))
