"""Flat JSON messages give back what they were made of, and say what does not decode."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.avro.envelopes import PROCESSED_AT_MS, SHOP, batch_of, encodable

from penstock.core.arrow_types import arrow_schema
from penstock.core.avro.envelope_encode import key_columns
from penstock.core.avro.schemas import value_schema
from penstock.core.changes import Op, RowBatch
from penstock.core.errors import CorruptLogError
from penstock.core.files import META_PREFIX
from penstock.core.json_messages.fields import PREFIX
from penstock.core.json_messages.keys import decode_json_keys
from penstock.core.json_messages.texts import EXACT_MAX
from penstock.core.message_format import (
    changes_as_messages,
    decode_changes,
    decode_rows,
    encode_changes,
    schema_ids,
)
from penstock.core.tables import (
    BytesType,
    Column,
    DateTimeType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    PrintedType,
    TableId,
    TableSchema,
    TextType,
    TimestampType,
    TimeType,
)

if TYPE_CHECKING:
    from penstock.core.avro.envelope_encode import EncodableTable

    Encoded = tuple[pa.BinaryArray, pa.BinaryArray]


def in_json(schema: TableSchema, connector: str = "mysql") -> EncodableTable:
    return replace(encodable(schema), format="json", connector=connector)


def encoded(batch: RowBatch, connector: str = "mysql") -> Encoded:
    return encode_changes(in_json(batch.schema, connector), batch, PROCESSED_AT_MS)


def parsed(binaries: pa.BinaryArray) -> list[dict[str, Any]]:
    return [json.loads(message or b"") for message in binaries.to_pylist()]


@given(st.from_type(RowBatch))
@settings(max_examples=40)
def test_a_batch_comes_back_from_its_messages(batch: RowBatch) -> None:
    _, values = encoded(batch)

    changes = decode_changes(batch.schema, value_schema(batch.schema), values)
    rows = decode_rows(batch.schema, value_schema(batch.schema), values)

    for found, given_rows, has in (
        (changes.before, batch.before, changes.has_before),
        (changes.after, batch.after, changes.has_after),
    ):
        assert has.tolist() == [given_rows is not None] * len(batch)
        if given_rows is not None:
            assert found.to_pylist() == given_rows.to_pylist()
            assert found.cast(given_rows.schema).equals(given_rows)
    assert rows.rows.equals(changes.before if batch.op is Op.DELETE else changes.after)
    assert changes.op.to_pylist() == [batch.op.value] * len(batch)
    assert changes.file.to_pylist() == [batch.file] * len(batch)
    assert changes.pos.tolist() == rows.pos.tolist() == batch.offsets.tolist()
    assert changes.row.tolist() == rows.row.tolist() == batch.rows.tolist()
    assert changes.ts_ms.tolist() == rows.ts_ms.tolist() == batch.timestamps_ms.tolist()
    assert changes.gtid.equals(batch.gtids)
    assert set(changes.server_id.tolist()) == {batch.server_id}
    assert set(changes.source.to_pylist()) == {"shopdb"}
    lacks = [json.loads(text) if text else [] for text in changes.after_lacks.to_pylist()]
    assert lacks == [list(batch.after_lacks) if batch.after is not None else []] * len(batch)
    assert schema_ids(values).tolist() == [70_000] * len(batch)


@given(st.from_type(RowBatch))
@settings(max_examples=40)
def test_equal_keys_are_equal_bytes_and_no_others_are(batch: RowBatch) -> None:
    keys, _ = encoded(batch)

    image = batch.before if batch.op is Op.DELETE else batch.after
    assert image is not None
    columns = [image.column(name).to_pylist() for name in batch.schema.key]
    rows = list(zip(*columns, strict=True)) if columns else []
    for one, first in enumerate(rows):
        for other, second in enumerate(rows):
            assert (keys[one] == keys[other]) == (first == second)
    assert keys.null_count == (0 if batch.schema.key else len(batch))


@given(st.from_type(RowBatch))
@settings(max_examples=40)
def test_no_number_is_one_that_a_reader_with_doubles_changes(batch: RowBatch) -> None:
    def refuse(text: str) -> int:
        assert abs(int(text)) <= EXACT_MAX
        return int(text)

    _, values = encoded(replace(batch, timestamps_ms=np.zeros(len(batch), np.int64)))

    for message in values.to_pylist():
        json.loads(message or b"", parse_int=refuse)


ALL = TableSchema(
    TableId("shop", "all_types"),
    (
        Column("id", IntegerType(64, unsigned=True), nullable=False),
        Column("price", DecimalType(30, 10), nullable=True),
        Column("ratio", FloatType(64), nullable=True),
        Column("small", FloatType(32), nullable=True),
        Column("raw", BytesType(100, fixed=False), nullable=True),
        Column("day", DateType(), nullable=True),
        Column("at", TimestampType(6), nullable=True),
        Column("local", DateTimeType(0), nullable=True),
        Column("span", TimeType(0), nullable=True),
        Column("doc", PrintedType("json"), nullable=True),
    ),
    ("id",),
)


def batch_with(op: Op, *rows: dict[str, Any]) -> RowBatch:
    image = pa.RecordBatch.from_pylist(list(rows), schema=arrow_schema(ALL))
    before, after = (image, None) if op is Op.DELETE else (None, image)
    places = batch_of(len(rows))
    return replace(places, schema=ALL, op=op, before=before, after=after)


def test_values_are_written_as_the_documentation_says() -> None:
    row = {
        "id": 2**63,
        "price": Decimal("-0.0000000001"),
        "ratio": 0.1,
        "small": 0.1,
        "raw": b"\0\xff",
        "day": pa.scalar(0, pa.date32()).as_py(),
        "at": None,
        "local": None,
        "span": None,
        "doc": '{"a": 1.10}',
    }
    moments = {"at": 1_700_000_000_000_001, "local": -1_000_000, "span": -(838 * 3600 + 59 * 60 + 59) * 1_000_000}
    batch = batch_with(Op.CREATE, row)
    assert batch.after is not None
    columns = [
        pa.array([moments[field.name]], pa.int64()).view(field.type) if field.name in moments else column
        for field, column in zip(batch.after.schema, batch.after.columns, strict=True)
    ]
    batch = replace(batch, after=pa.RecordBatch.from_arrays(columns, schema=batch.after.schema))

    keys, values = encoded(batch)

    assert keys.to_pylist() == [b'{"id":"9223372036854775808"}']
    own = {name: value for name, value in parsed(values)[0].items() if name.startswith(PREFIX)}
    assert own == {
        "__penstock_schema": 70_000,
        "__penstock_op": "c",
        "__penstock_source": "shopdb",
        "__penstock_table": "shop.all_types",
        "__penstock_ts_ms": 0,
        "__penstock_transaction": None,
        "__penstock_position": "bin.000001:100",
        "__penstock_row": 0,
        "__penstock_server_id": 1,
    }
    assert {name: value for name, value in parsed(values)[0].items() if name not in own} == {
        "id": "9223372036854775808",
        "price": "-0.0000000001",
        "ratio": 0.1,
        "small": 0.1,
        "raw": "AP8=",
        "day": "1970-01-01",
        "at": "2023-11-14T22:13:20.000001Z",
        "local": "1969-12-31T23:59:59.000000",
        "span": "-838:59:59.000000",
        "doc": '{"a": 1.10}',
    }


def test_floats_that_are_no_numbers_are_texts_and_come_back() -> None:
    floats = [float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 1.5]
    batch = batch_with(Op.CREATE, *({"id": n, "ratio": value, "small": value} for n, value in enumerate(floats)))

    _, values = encoded(batch)

    assert [message["ratio"] for message in parsed(values)][:3] == ["NaN", "Infinity", "-Infinity"]
    back = decode_rows(ALL, value_schema(ALL), values).rows
    assert batch.after is not None
    for name in ("ratio", "small"):
        assert repr(back.column(name).to_pylist()) == repr(batch.after.column(name).to_pylist())


@given(st.floats(width=32, allow_nan=False))
def test_every_float_of_32_bits_comes_back(value: float) -> None:
    batch = batch_with(Op.CREATE, {"id": 1, "small": value})

    _, values = encoded(batch)

    assert repr(decode_rows(ALL, value_schema(ALL), values).rows.column("small")[0].as_py()) == repr(value)


@given(st.from_type(RowBatch))
@settings(max_examples=40)
def test_the_columns_of_a_key_come_back_from_it(batch: RowBatch) -> None:
    columns = key_columns(in_json(batch.schema), batch)
    if columns is None:
        return
    keys, _ = encoded(batch)

    found = decode_json_keys([batch.schema.column(name) for name in batch.schema.key], keys)

    assert found.schema.names == list(batch.schema.key)
    assert [column.type for column in found.columns] == [column.type for column in columns]
    assert [list(map(str, values)) for values in found.columns] == [list(map(str, values)) for values in columns]


def test_a_delete_is_its_change_and_a_tombstone_behind_it() -> None:
    batch = batch_with(Op.DELETE, {"id": 1}, {"id": 2})

    messages = changes_as_messages(in_json(ALL), "t", batch.op, encoded(batch), [5, 9])

    keys, values = messages.lists()
    assert keys == [b'{"id":1}', b'{"id":1}', b'{"id":2}', b'{"id":2}']
    assert [value is None for value in values] == [False, True, False, True]
    assert messages.order.tolist() == [5, 5, 9, 9]


def test_a_delete_of_a_table_without_a_key_has_no_tombstone() -> None:
    batch = replace(batch_with(Op.DELETE, {"id": 1}), schema=replace(ALL, key=()))

    messages = changes_as_messages(in_json(batch.schema), "t", batch.op, encoded(batch), [5])

    assert len(messages) == 1


def test_a_value_that_the_log_lacks_is_left_out_and_named_and_is_no_null() -> None:
    partial = replace(ALL, partial_rows=True)
    batch = replace(
        batch_with(Op.CREATE, {"id": 1, "ratio": None, "doc": None}), schema=partial, after_lacks=("doc", "raw")
    )

    _, values = encoded(batch)

    (message,) = parsed(values)
    assert message["ratio"] is None
    assert "doc" not in message
    assert message["__penstock_lacks"] == ["doc", "raw"]
    assert decode_rows(partial, value_schema(partial), values).lacks.to_pylist() == ['["doc", "raw"]']


def test_an_update_of_which_the_log_has_nothing_of_the_row_before_is_there() -> None:
    partial = replace(ALL, partial_rows=True, key=())
    created = batch_with(Op.CREATE, {"id": 1})
    lacks = tuple(column.name for column in ALL.columns)
    batch = replace(created, schema=partial, op=Op.UPDATE, before=created.after, before_lacks=lacks)

    _, values = encoded(batch)

    assert [message["__penstock_before"] for message in parsed(values)] == [{}]


def test_a_place_in_the_log_of_postgresql_is_its_lsn() -> None:
    batch = replace(batch_of(1), file="wal.000022", offsets=np.array([0xB374D848], np.int64))

    _, values = encoded(batch, "postgres")

    assert parsed(values)[0]["__penstock_position"] == "16/B374D848"
    changes = decode_changes(SHOP, value_schema(SHOP), values)
    assert (changes.file[0].as_py(), changes.pos[0]) == ("wal.000022", 0xB374D848)


def test_our_fields_begin_with_what_no_column_may_begin_with() -> None:
    assert PREFIX == META_PREFIX


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda fields: fields.pop("note"), "message 1 .*has no value of note"),
        (lambda fields: fields.update(id="x"), "message 1 .*has a value of id that its type cannot have"),
        (lambda fields: fields.update(id=2**70), "message 1 .*has a value of id"),
        (lambda fields: fields.update(note=5), "message 1 .*has a value of note"),
        (lambda fields: fields.update(__penstock_op="x"), "message 1 .*has no operation"),
        (lambda fields: fields.update(__penstock_table="shop.other"), "message 1 .*is of table shop.other"),
        (lambda fields: fields.update(__penstock_position="nowhere"), "message 1 .*has no position"),
        (lambda fields: fields.update(__penstock_row="1"), "message 1 .*has no integer in __penstock_row"),
        (lambda fields: fields.update(__penstock_row=2**31), "message 1 .*__penstock_row that has more than 32 bits"),
        (lambda fields: fields.update(__penstock_ts_ms=2**63), "message 1 .*__penstock_ts_ms that has more than 64"),
        (lambda fields: fields.update(__penstock_position=f"b.1:{2**63}"), "message 1 .*__penstock_position that has"),
        (lambda fields: fields.update(__penstock_op=[]), "message 1 .*has no operation"),
        (lambda fields: fields.update(__penstock_op={}), "message 1 .*has no operation"),
        (lambda fields: fields.update(__penstock_table=["a"]), "message 1 .*is of table none"),
        (lambda fields: fields.update(__penstock_source="\ud800"), "message 1 .*a text in __penstock_source that is"),
        (
            lambda fields: fields.update(__penstock_lacks=5),
            "message 1 .*names in __penstock_lacks what no row can lack",
        ),
        (lambda fields: fields.update(__penstock_lacks="note"), "message 1 .*names in __penstock_lacks what"),
        (lambda fields: fields.update(__penstock_lacks={"note": 1}), "message 1 .*names in __penstock_lacks what"),
        (lambda fields: fields.update(__penstock_lacks=[["note"]]), "message 1 .*names in __penstock_lacks what"),
        (lambda fields: fields.update(__penstock_lacks=["id"]), "message 1 .*names in __penstock_lacks what"),
        (lambda fields: fields.update(__penstock_lacks=["note"]), "message 1 .*and its schema is of whole rows"),
        (lambda fields: fields.update(__penstock_before_lacks=["x"]), "message 1 .*names in __penstock_before_lacks"),
        (lambda fields: fields.update(__penstock_before=None), "message 1 .*has no row in __penstock_before"),
        (lambda fields: fields.update(id=None), "message 1 .*has NULL in id, which cannot be NULL"),
    ],
)
def test_a_message_that_does_not_decode_is_named(damage: Any, said: str) -> None:  # noqa: ANN401 - any function
    _, values = encoded(batch_of(3))
    first, second, third = parsed(values)
    damage(second)
    messages = pa.array([json.dumps(each).encode() for each in (first, second, third)], pa.binary())

    with pytest.raises(CorruptLogError, match=said):
        decode_rows(SHOP, value_schema(SHOP), messages)


def test_a_foreign_message_among_ours_is_named() -> None:
    _, values = encoded(batch_of(2))

    with pytest.raises(CorruptLogError, match="message 2 of 3 does not begin as"):
        schema_ids(pa.array([*values.to_pylist(), b'{"id":1}'], pa.binary()))


def test_text_is_that_of_the_source() -> None:
    schema = replace(SHOP, columns=(SHOP.columns[0], Column("note", TextType(64, "utf8mb4"), nullable=True)))
    rows = pa.RecordBatch.from_pylist(
        [{"id": 1, "note": 'a"\\\n\0 é 😀 \u2028'}, {"id": 2, "note": ""}], schema=arrow_schema(schema)
    )
    batch = replace(batch_of(2), after=rows)

    _, values = encoded(batch)

    assert decode_rows(SHOP, value_schema(SHOP), values).rows.to_pylist() == rows.to_pylist()
