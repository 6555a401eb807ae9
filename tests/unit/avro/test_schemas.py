"""A table's Avro schemas: the same for the same table, known to Avro, and the table comes back from them."""

from __future__ import annotations

import json
from dataclasses import replace

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.avro.defaults import avro_default, implicit_default
from penstock.core.avro.names import avro_name
from penstock.core.avro.schemas import key_schema, table_schema, value_schema
from penstock.core.errors import PenstockError, TableStoppedError
from penstock.core.tables import (
    BytesType,
    Column,
    ColumnType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    TableId,
    TableSchema,
    TextType,
    TimestampType,
    UnsupportedType,
    YearType,
)

ORDERS = TableSchema(
    TableId("shop", "orders"),
    (
        Column("id", IntegerType(64, unsigned=True), nullable=False, declaration="bigint unsigned"),
        Column("amount", DecimalType(12, 2), nullable=False, declaration="decimal(12,2)", default="-1.28"),
        Column("note", TextType(64, "utf8mb4"), nullable=True, declaration="varchar(64)", comment="as typed"),
    ),
    ("id",),
    "what was bought",
)


@given(st.from_type(TableSchema))
def test_a_table_comes_back_from_its_value_schema(schema: TableSchema) -> None:
    assert table_schema(value_schema(schema)) == schema


@given(st.from_type(TableSchema))
def test_avro_accepts_both_schemas(schema: TableSchema) -> None:
    fastavro.parse_schema(json.loads(value_schema(schema)))

    key = key_schema(schema)

    assert (key is None) == (not schema.key)
    if key is not None:
        fastavro.parse_schema(json.loads(key))


@given(st.from_type(TableSchema))
def test_a_message_of_an_older_table_can_be_read_with_a_nullable_column_more(schema: TableSchema) -> None:
    wider = replace(schema, columns=(*schema.columns, Column("when", YearType(), nullable=True)))
    default = json.loads(value_schema(wider))["fields"][0]["type"][1]["fields"][-1]["default"]

    assert default is None


@given(st.lists(st.text("_x5fe9 é1a", min_size=1), min_size=2, unique=True))
def test_different_names_stay_different(names: list[str]) -> None:
    assert len({avro_name(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("id", "id"),
        ("a b", "a_x20_b"),
        ("1st", "_x31_st"),
        ("é", "_xe9_"),
        ("is_xbox", "is_xbox"),
        ("_x20_", "_x5f_x20_"),
    ],
)
def test_only_names_that_avro_refuses_are_written_differently(name: str, expected: str) -> None:
    assert avro_name(name) == expected


def test_the_value_schema_of_a_table_never_changes() -> None:
    assert value_schema(ORDERS) == (
        '{"type":"record","name":"Envelope","namespace":"penstock.shop.orders","fields":['
        '{"name":"before","type":["null",{"type":"record","name":"Value","doc":"what was bought",'
        '"penstock.schema":"shop","penstock.table":"orders","penstock.key":["id"],"fields":['
        '{"name":"id","type":{"type":"bytes","logicalType":"decimal","precision":20,"scale":0},'
        '"penstock.type":"integer","penstock.bits":64,"penstock.unsigned":true,'
        '"penstock.declaration":"bigint unsigned"},'
        '{"name":"amount","type":{"type":"bytes","logicalType":"decimal","precision":12,"scale":2},'
        '"default":"\\u00ff\\u0080","penstock.type":"decimal","penstock.precision":12,"penstock.scale":2,'
        '"penstock.declaration":"decimal(12,2)","penstock.default":"-1.28"},'
        '{"name":"note","type":["null","string"],"doc":"as typed","default":null,"penstock.type":"text",'
        '"penstock.characters_max":64,"penstock.charset":"utf8mb4","penstock.declaration":"varchar(64)"}]}],'
        '"default":null},{"name":"after","type":["null","Value"],"default":null},'
        '{"name":"source","type":{"type":"record","name":"Source","fields":[{"name":"version","type":"string"},'
        '{"name":"connector","type":"string"},{"name":"name","type":"string"},{"name":"ts_ms","type":"long"},'
        '{"name":"db","type":"string"},{"name":"table","type":"string"},{"name":"server_id","type":"long"},'
        '{"name":"gtid","type":["null","string"],"default":null},{"name":"file","type":"string"},'
        '{"name":"pos","type":"long"},{"name":"row","type":"int"}]}},{"name":"op","type":"string"},'
        '{"name":"ts_ms","type":"long"}]}'
    )


def test_a_longer_text_or_a_comment_keeps_the_key_schema() -> None:
    key = Column("code", TextType(8, "utf8mb4"), nullable=False, declaration="varchar(8)")
    longer = replace(key, type=TextType(80, "utf8mb4"), declaration="varchar(80)", comment="longer", default="x")
    table = TableSchema(TableId("shop", "codes"), (key,), ("code",))

    assert key_schema(table) == key_schema(replace(table, columns=(longer,), comment="longer"))


def test_the_key_has_the_order_of_the_primary_key() -> None:
    table = replace(ORDERS, key=("amount", "id"))

    assert [field["name"] for field in json.loads(key_schema(table) or "")["fields"]] == ["amount", "id"]


def test_a_column_that_cannot_be_carried_is_named() -> None:
    shape = Column("shape", UnsupportedType("geometry"), nullable=True)

    with pytest.raises(TableStoppedError, match=r"shop\.orders\.shape.*geometry"):
        value_schema(replace(ORDERS, columns=(*ORDERS.columns, shape)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"fields":[]}',
        '{"fields":[{"name":"before","type":["null","Value"]}]}',
        value_schema(ORDERS)[:-1],
    ],
)
def test_a_schema_of_another_hand_is_refused(text: str) -> None:
    with pytest.raises(PenstockError, match="not one of Penstock's"):
        table_schema(text)


@pytest.mark.parametrize(
    ("type_", "default", "expected"),
    [
        (IntegerType(8, unsigned=False), "-128", -128),
        (IntegerType(8, unsigned=False), "128", None),
        (IntegerType(32, unsigned=True), "4294967295", 4294967295),
        (IntegerType(64, unsigned=True), "256", "\x01\x00"),
        (DecimalType(5, 2), "1.5", "\x00\x96"),
        (DecimalType(5, 2), "1.555", None),
        (DecimalType(3, 2), "10", None),
        (FloatType(32), "0.1", 0.1),
        (FloatType(32), "1e39", None),
        (TextType(3, "latin1"), "", ""),
        (EnumType(("a", "b")), "b", "b"),
        (EnumType(("a", "b")), "c", None),
        (BytesType(4, fixed=True), "ab", "ab\0\0"),
        (BytesType(4, fixed=False), "é", None),
        (DateType(), "1970-01-02", 1),
        (DateType(), "0000-00-00", None),
        (DateTimeType(6), "1970-01-01 00:00:01.000002", 1000002),
        (TimestampType(0), "2024-01-01 00:00:00", None),
        (YearType(), "1999", 1999),
    ],
)
def test_a_constant_default_is_given_where_avro_can_say_it(type_: ColumnType, default: str, expected: object) -> None:
    column = Column("c", type_, nullable=False, default=default)

    assert avro_default(column) == ({} if expected is None else {"default": expected})
    assert avro_default(replace(column, nullable=True)) == {"default": None}
    assert avro_default(replace(column, default_is_expression=True)) == {}


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (IntegerType(8, unsigned=False), "0"),
        (TextType(8, "latin1"), ""),
        (EnumType(("new", "old")), "new"),
        (DateType(), "0000-00-00"),
        (TimestampType(0), "0000-00-00 00:00:00"),
    ],
)
def test_mysql_fills_a_value_into_old_rows_of_a_column_without_default(type_: ColumnType, expected: str) -> None:
    column = Column("c", type_, nullable=False)

    assert implicit_default(column) == expected
    assert implicit_default(replace(column, nullable=True)) is None
    assert implicit_default(replace(column, default="1")) is None
