"""The exact SQL of a landing zone, each statement read by a parser of Snowflake's dialect, and its messages."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from penstock.core.batches import Batch
from penstock.core.errors import TableStoppedError
from penstock.core.files import file_schema
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import (
    BytesType,
    Column,
    ColumnType,
    DateTimeType,
    DecimalType,
    FloatType,
    IntegerType,
    TableId,
    TableSchema,
    TextType,
    TimestampType,
    TimeType,
    VectorType,
)
from penstock.core.warehouse.landing import (
    LandingZone,
    plan_end,
    plan_landed_merge,
    plan_landing,
    plan_landings,
    plan_table,
    render_position,
)
from penstock.core.warehouse.messages import (
    find_later_values,
    render_barrier,
    render_of_table,
    render_rows,
    split_texts,
)

ZONE = LandingZone("landing", "load_wh", "30 SECONDS")
ORDERS = TableId("shop", "orders")
ID = Column("id", IntegerType(64, unsigned=False), nullable=False)
NOTE = Column("note", TextType(40, "utf8mb4"), nullable=True)
BATCH = Batch("src", ORDERS, "topic", 2, 7, 9, 2, "file", 1, "parquet", 1, (1, 2, 3), (1, 4, 0), 0)
MERGE = (
    'MERGE INTO "shop"."orders" AS t USING ('
    'SELECT "message":op::VARCHAR AS "__penstock_op", CAST("message":row."id"::VARCHAR AS NUMBER(38, 0)) AS "id", '
    '"message":row."note"::VARCHAR AS "note" FROM (SELECT "message", "position", "offset", '
    "MAX(CASE WHEN \"message\":op::VARCHAR IN ('c', 'r', 'u', 'd') OR \"offset\" IS NOT NULL "
    'THEN NULL ELSE "position" END) OVER () AS "__penstock_merged", '
    'MAX(CASE WHEN "message":op::VARCHAR = \'schema\' THEN "offset" END) '
    'OVER (PARTITION BY "topic", "partition") AS "__penstock_landed", '
    'MAX(CASE WHEN "message":op::VARCHAR = \'schema\' THEN "position" END) '
    'OVER (PARTITION BY "topic", "partition") AS "__penstock_changed" '
    'FROM "landing"."shop.orders/stream") AS m '
    "WHERE \"message\":op::VARCHAR IN ('c', 'r', 'u', 'd') "
    'AND ("__penstock_merged" IS NULL OR "position" > "__penstock_merged") '
    'AND ("__penstock_landed" IS NULL OR "offset" >= "__penstock_landed" OR "position" >= "__penstock_changed") '
    'QUALIFY ROW_NUMBER() OVER (PARTITION BY CAST("message":row."id"::VARCHAR AS NUMBER(38, 0)) '
    'ORDER BY "position" DESC, "offset" DESC) = 1) AS s ON t."id" = s."id" '
    "WHEN MATCHED AND s.\"__penstock_op\" = 'd' THEN DELETE "
    'WHEN MATCHED THEN UPDATE SET "note" = s."note" '
    'WHEN NOT MATCHED AND s."__penstock_op" <> \'d\' THEN INSERT ("id", "note") VALUES (s."id", s."note")'
)


def table(*columns: Column, key: tuple[str, ...] = ("id",)) -> TableSchema:
    return TableSchema(ORDERS, (ID, *columns), key)


def test_a_table_is_made_of_a_landing_table_a_public_one_a_stream_and_a_task() -> None:
    statements = plan_table(ZONE, table(NOTE))

    assert statements == [
        'CREATE SCHEMA IF NOT EXISTS "landing"',
        'CREATE SCHEMA IF NOT EXISTS "shop"',
        (
            'CREATE TABLE IF NOT EXISTS "landing"."shop.orders" ("message" VARIANT, "topic" VARCHAR, '
            '"partition" NUMBER(38, 0), "offset" NUMBER(38, 0), "position" VARCHAR, "loaded_at" TIMESTAMP_NTZ(6))'
        ),
        'CREATE TABLE IF NOT EXISTS "shop"."orders" ("id" NUMBER(38, 0), "note" VARCHAR(40))',
        (
            'CREATE STREAM IF NOT EXISTS "landing"."shop.orders/stream" '
            'ON TABLE "landing"."shop.orders" APPEND_ONLY = TRUE'
        ),
        (
            'CREATE OR REPLACE TASK "landing"."shop.orders/task" WAREHOUSE = load_wh SCHEDULE = \'30 SECONDS\' '
            "QUOTED_IDENTIFIERS_IGNORE_CASE = FALSE, DATE_INPUT_FORMAT = 'AUTO', TIMESTAMP_INPUT_FORMAT = 'AUTO' "
            f'WHEN SYSTEM$STREAM_HAS_DATA(\'"landing"."shop.orders/stream"\') AS {MERGE}'
        ),
        'ALTER TASK "landing"."shop.orders/task" RESUME',
    ]
    for statement in statements[:4]:
        assert not isinstance(sqlglot.parse_one(statement, dialect="snowflake"), exp.Command)


def test_readers_may_read_and_no_more() -> None:
    statements = plan_table(replace(ZONE, readers=("analyst",)), table(NOTE))

    assert statements[-4:] == [
        'GRANT USAGE ON SCHEMA "landing" TO ROLE analyst',
        'GRANT USAGE ON SCHEMA "shop" TO ROLE analyst',
        'GRANT SELECT ON TABLE "landing"."shop.orders" TO ROLE analyst',
        'GRANT SELECT ON TABLE "shop"."orders" TO ROLE analyst',
    ]
    for statement in statements[-4:]:
        assert isinstance(sqlglot.parse_one(statement, dialect="snowflake"), exp.Grant)


@pytest.mark.parametrize("copied", ["", '"penstock"."staged"'])
def test_messages_of_several_tables_land_by_one_statement(copied: str) -> None:
    statement = plan_landings(ZONE, [ORDERS, TableId("shop", "items")], copied)

    names = '"message", "topic", "partition", "offset", "position", "loaded_at"'
    value, begin = ("f.value", "TABLE(FLATTEN(INPUT => PARSE_JSON(?)))") if not copied else ('f."row"', copied)
    assert statement == (
        f'INSERT ALL WHEN "table" = 0 THEN INTO "landing"."shop.orders" ({names}) VALUES ({names}) '
        f'WHEN "table" = 1 THEN INTO "landing"."shop.items" ({names}) VALUES ({names}) '
        f'SELECT {value}:"table"::NUMBER(38, 0) AS "table", {value}:message AS "message", '
        f'{value}:topic::VARCHAR AS "topic", {value}:partition::NUMBER(38, 0) AS "partition", '
        f'{value}:offset::NUMBER(38, 0) AS "offset", {value}:position::VARCHAR AS "position", '
        f'SYSDATE() AS "loaded_at" FROM {begin} AS f'
    )
    assert isinstance(sqlglot.parse_one(statement, dialect="snowflake"), exp.MultitableInserts)


def test_a_message_says_which_table_it_is_for() -> None:
    assert json.loads(render_of_table(3, '{"offset": 7}')) == {"table": 3, "offset": 7}


def test_a_merge_takes_the_newest_message_of_each_key_and_deletes_what_is_gone() -> None:
    merge = plan_landed_merge(ZONE, table(NOTE))

    assert merge == MERGE
    parsed = sqlglot.parse_one(merge, dialect="snowflake")
    assert isinstance(parsed, exp.Merge)
    assert len(list(parsed.find_all(exp.When))) == 3


def test_a_table_of_nothing_but_its_key_has_nothing_to_update() -> None:
    merge = plan_landed_merge(ZONE, table())

    assert "UPDATE" not in merge
    assert isinstance(sqlglot.parse_one(merge, dialect="snowflake"), exp.Merge)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (DecimalType(10, 2), 'CAST("message":row."x"::VARCHAR AS NUMBER(10, 2))'),
        (BytesType(8, fixed=False), 'TO_BINARY("message":row."x"::VARCHAR, \'HEX\')'),
        (TimestampType(6), 'CAST("message":row."x"::VARCHAR AS TIMESTAMP_LTZ(6))'),
        (VectorType(3), 'CAST(PARSE_JSON("message":row."x"::VARCHAR) AS VECTOR(FLOAT, 3))'),
    ],
)
def test_values_get_the_types_of_their_columns(type_: ColumnType, value: str) -> None:
    merge = plan_landed_merge(ZONE, table(Column("x", type_, nullable=True)))

    assert f'{value} AS "x"' in merge
    assert isinstance(sqlglot.parse_one(merge, dialect="snowflake"), exp.Merge)


def test_names_that_no_path_can_write_are_texts() -> None:
    merge = plan_landed_merge(ZONE, table(Column("it's", TextType(9, "utf8mb4"), nullable=True)))

    assert "GET(\"message\":row, 'it''s')::VARCHAR AS \"it's\"" in merge


def test_the_messages_of_a_statement_are_its_one_parameter() -> None:
    insert = plan_landing(ZONE, ORDERS)

    assert insert == (
        'INSERT INTO "landing"."shop.orders" ("message", "topic", "partition", "offset", "position", "loaded_at") '
        "SELECT f.value:message, f.value:topic::VARCHAR, f.value:partition::NUMBER(38, 0), "
        "f.value:offset::NUMBER(38, 0), f.value:position::VARCHAR, SYSDATE() "
        "FROM TABLE(FLATTEN(INPUT => PARSE_JSON(?))) AS f"
    )
    assert isinstance(sqlglot.parse_one(insert, dialect="snowflake"), exp.Insert)


def test_a_table_that_ends_keeps_its_messages() -> None:
    assert plan_end(ZONE, ORDERS) == [
        'ALTER TASK IF EXISTS "landing"."shop.orders/task" SUSPEND',
        'DROP TASK IF EXISTS "landing"."shop.orders/task"',
        'DROP STREAM IF EXISTS "landing"."shop.orders/stream"',
    ]


def test_a_table_without_a_key_stops() -> None:
    with pytest.raises(TableStoppedError, match=r"shop\.orders"):
        plan_table(ZONE, table(key=()))


def test_a_column_that_messages_lack_keeps_the_value_it_had() -> None:
    merge = plan_landed_merge(ZONE, replace(table(NOTE), partial_rows=True))

    unknown = 'CASE WHEN "message":op::VARCHAR = \'u\' AND "message":row."note" IS NULL THEN 1 ELSE 0 END'
    key = 'PARTITION BY CAST("message":row."id"::VARCHAR AS NUMBER(38, 0))'
    rows = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    order = f'{unknown}, "position" DESC, "offset" DESC'
    assert f'FIRST_VALUE("message":row."note"::VARCHAR) OVER ({key} ORDER BY {order} {rows}) AS "note"' in merge
    assert f'MIN({unknown}) OVER ({key}) AS "__penstock_lacks_1"' in merge
    assert 'UPDATE SET "note" = CASE WHEN s."__penstock_lacks_1" = 1 THEN t."note" ELSE s."note" END' in merge
    assert '(s."__penstock_lacks_1" = 0 OR CAST(' in merge
    assert isinstance(sqlglot.parse_one(merge, dialect="snowflake"), exp.Merge)


def test_a_message_lacks_what_its_row_lacks() -> None:
    schema = replace(table(NOTE), partial_rows=True)
    layout = file_schema(schema)
    columns: list[list[Any]] = [[1, 2, 3], [None, None, "x"], ["u", "u", "u"], [7, 8, 9], ["01", "", ""]]
    rows = pa.table(dict(zip(layout.names, columns, strict=True)), layout)

    messages = [json.loads(text)["message"]["row"] for text in render_rows(schema, BATCH, rows)]

    assert messages == [{"id": "1"}, {"id": "2", "note": None}, {"id": "3", "note": "x"}]


def test_a_row_that_comes_late_has_what_its_table_took_in_columns_that_came_later() -> None:
    number = IntegerType(64, unsigned=False)
    later = (
        Column("five", number, nullable=False, default="5"),
        Column("filled", number, nullable=True, default="7", filled="6"),
        Column("none", NOTE.type, nullable=True),
        Column("computed", NOTE.type, nullable=True, default_is_expression=True),
        Column("at", DateTimeType(6), nullable=True, default="2024-02-29 00:00:00"),
        Column("renamed", NOTE.type, nullable=True, number=2),
    )
    schema = table(replace(NOTE, number=2))
    layout = file_schema(schema)
    columns: list[list[Any]] = [[1], ["x"], ["u"], [7]]
    rows = pa.table(dict(zip(layout.names, columns, strict=True)), layout)

    values = find_later_values(schema, table(*later))
    (message,) = render_rows(schema, BATCH, rows, values)

    completed = {"id": "1", "note": "x", "five": "5", "filled": "6", "none": None}
    assert json.loads(message)["message"]["row"] == completed
    assert find_later_values(schema, schema) == {}


def test_values_are_exact_texts() -> None:
    schema = table(
        NOTE,
        Column("price", DecimalType(38, 2), nullable=True),
        Column("ratio", FloatType(64), nullable=True),
        Column("raw", BytesType(4, fixed=False), nullable=True),
        Column("at", DateTimeType(6), nullable=True),
        Column("seen", TimestampType(6), nullable=True),
        Column("took", TimeType(6), nullable=True),
    )
    instant = dt.datetime(2024, 2, 29, 23, 59, 59, 1, tzinfo=dt.UTC)
    values = [2**63 - 1, 'é"\n', Decimal("-1.50"), 0.1, b"\x00\xff", instant.replace(tzinfo=None), instant]
    columns = [[value, 1 if value == values[0] else None] for value in [*values, dt.timedelta(microseconds=-5)]]
    layout = file_schema(schema)
    names: dict[str, list[Any]] = dict(zip(layout.names, [*columns, ["c", "d"], [7, 8]], strict=True))
    rows = pa.table(names, layout)

    first, second = (json.loads(text) for text in render_rows(schema, BATCH, rows))

    assert first == {
        "message": {
            "op": "c",
            "row": {
                "id": "9223372036854775807",
                "note": 'é"\n',
                "price": "-1.50",
                "ratio": "0.1",
                "raw": "00ff",
                "at": "2024-02-29T23:59:59.000001",
                "seen": "2024-02-29T23:59:59.000001+00:00",
                "took": "-5",
            },
        },
        "topic": "topic",
        "partition": 2,
        "position": render_position((1, 4, 0)),
        "offset": 7,
    }
    assert set(second["message"]["row"].values()) == {"1", None}


def test_a_barrier_is_an_entry_without_an_offset() -> None:
    entry = json.loads(render_barrier(replace(BATCH, kind=SchemaChangeKind.TRUNCATE)))

    assert entry == {"message": {"op": "truncate"}, "topic": "topic", "position": render_position((1, 4, 0))}


_ORDERS = st.tuples(st.integers(0, 2**62), st.integers(0, 2**62), st.integers(0, 2**31))


@given(_ORDERS, _ORDERS)
def test_positions_sort_as_the_places_do(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    assert (render_position(one) < render_position(other)) == (one < other)


@given(st.lists(st.integers().map(str)), st.integers(1, 40))
def test_arrays_have_every_text_once_in_order(texts: list[str], bytes_max: int) -> None:
    arrays = [json.loads(array) for array in split_texts(iter(texts), bytes_max)]

    assert [str(value) for array in arrays for value in array] == texts
    assert all(len(array) == 1 or sum(len(str(value)) for value in array) <= bytes_max for array in arrays)
