"""A few rows are encoded as the reference encodes them, or are left to it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.mysql_log.random_tables import tables

from penstock.core.avro.envelope_encode import EncodableTable, encode_changes
from penstock.core.changes import Op
from penstock.core.errors import TableStoppedError
from penstock.core.key_changes import message_order, split_key_changes
from penstock.core.mysql.rows.decode import decode_rows
from penstock.core.mysql.rows.few_rows import FewRows
from penstock.core.tables import (
    Column,
    DateTimeType,
    DecimalType,
    FloatType,
    IntegerType,
    TableId,
    TableSchema,
    TextType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.unit.mysql_log.conftest import RowWriter

    from penstock.core.changes import Messages
    from penstock.core.mysql.types.logged_rows import RowsLogged

NOW_MS = 1_700_000_000_000
OPS = st.sampled_from([Op.CREATE, Op.UPDATE, Op.DELETE])
BIGINT = IntegerType(64, unsigned=False)


def encodable(schema: TableSchema) -> EncodableTable:
    return EncodableTable("shop", "mysql", schema, 3 if schema.key else None, 4)


def by_the_reference(
    table: EncodableTable, events: Sequence[RowsLogged]
) -> list[tuple[bytes | None, bytes | None, int]]:
    """Key, value and order of every message."""
    (batch,) = split_key_changes(decode_rows(table.schema, events))
    keys, values = encode_changes(table, batch, NOW_MS)
    return list(zip(keys.to_pylist(), values.to_pylist(), message_order(batch).tolist(), strict=True))


def listed(messages: Messages) -> list[tuple[bytes | None, bytes | None, int]]:
    return list(zip(messages.keys.to_pylist(), messages.values.to_pylist(), messages.order.tolist(), strict=True))


@given(drawn=tables(), op=OPS, partial=st.booleans(), key=st.booleans(), repeatable=st.booleans())
def test_every_type_is_encoded_as_by_columns(
    row_writer: type[RowWriter],
    drawn: tuple[TableSchema, list[list[list[object]]]],
    op: Op,
    *,
    partial: bool,
    key: bool,
    repeatable: bool,
) -> None:
    schema, events_rows = drawn
    columns = (*schema.columns, Column("id", BIGINT, nullable=False))
    schema = replace(schema, columns=columns, key=("id",) if key else (), partial_rows=partial)
    writer, images = row_writer(schema), 2 if op is Op.UPDATE else 1
    events = [
        replace(
            writer.event([[*row, number] for row in rows for _ in range(images)], op, 1000 + number),  # type: ignore[list-item]
            timestamp_ms=NOW_MS - number,
        )
        for number, rows in enumerate(events_rows)
    ]
    table = replace(encodable(schema), repeatable=repeatable)

    found = FewRows().encode(table, "topic", events, NOW_MS)

    assert found is not None
    assert listed(found) == by_the_reference(table, events)


def a_writer(row_writer: type[RowWriter], *, key: bool = True) -> RowWriter:
    columns = (
        Column("id", BIGINT, nullable=False),
        Column("price", DecimalType(12, 2), nullable=True),
        Column("at", DateTimeType(0, zero_is_null=True), nullable=True),
        Column("name", TextType(40, "utf8mb4"), nullable=False),
    )
    return row_writer(TableSchema(TableId("shop", "t"), columns, ("id",) if key else ()))


def test_a_date_that_no_calendar_has_becomes_null_where_it_is_to(row_writer: type[RowWriter]) -> None:
    writer = a_writer(row_writer)
    event, zero = writer.event([[1, None, None, "é"]]), (1 << 39).to_bytes(5, "big")
    payload = event.payload
    event = replace(event, payload=payload[:2] + bytes([payload[2] & ~4]) + payload[3:11] + zero + payload[11:])
    table = encodable(writer.schema)

    found = FewRows().encode(table, "topic", [event], NOW_MS)

    assert found is not None
    assert listed(found) == by_the_reference(table, [event])


def test_what_is_unusual_is_left_to_the_reference(row_writer: type[RowWriter]) -> None:
    writer = a_writer(row_writer)
    usual = writer.event([[1, None, None, "a"]])
    unusual = {
        "another key": writer.event([[1, None, None, "a"], [2, None, None, "a"]], Op.UPDATE),
        "no text": replace(usual, payload=usual.payload.replace(b"\x01a", b"\x01\xff")),
        "cut short": replace(usual, payload=usual.payload[:-1]),
        "a NULL": replace(usual, payload=usual.payload[:2] + b"\x0f" + usual.payload[3:]),
        "differences": replace(writer.event([[1, None, None, "a"]] * 2, Op.UPDATE), partial=True),
        "a lacking column": writer.event([[1, None, None, "a"]], lacks=[{1}]),
        "an offset beyond all": replace(usual, offset=1 << 38),
        "another table": replace(usual, table_map=replace(usual.table_map, types=usual.table_map.types[:3])),
        "many rows": writer.event([[number, None, None, "a" * 40] for number in range(400)]),
    }
    few, table = FewRows(), encodable(writer.schema)

    for name, event in unusual.items():
        assert few.encode(table, "topic", [usual, event], NOW_MS) is None, name
    assert few.encode(table, "topic", [usual], NOW_MS) is not None


def test_a_table_without_a_key_may_change_every_column(row_writer: type[RowWriter]) -> None:
    writer = a_writer(row_writer, key=False)
    event = writer.event([[1, None, None, "a"], [2, None, None, "b"]], Op.UPDATE)
    table = encodable(writer.schema)

    found = FewRows().encode(table, "topic", [event], NOW_MS)

    assert found is not None
    assert listed(found) == by_the_reference(table, [event])


@given(st.data())
def test_damaged_rows_are_never_encoded_otherwise_than_by_the_reference(
    row_writer: type[RowWriter], data: st.DataObject
) -> None:
    writer = a_writer(row_writer)
    event = writer.event([[1, Decimal("1.50"), None, "é" * 9], [2, None, None, ""]])
    payload = bytearray(event.payload)
    for _ in range(data.draw(st.integers(0, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    damaged = replace(event, payload=bytes(payload[: data.draw(st.integers(0, len(payload)))]))
    table = encodable(writer.schema)

    found = FewRows().encode(table, "topic", [damaged], NOW_MS)

    if found is not None:
        assert listed(found) == by_the_reference(table, [damaged])


def test_minus_zero_in_a_key_is_left_to_the_reference(row_writer: type[RowWriter]) -> None:
    columns = (Column("x", FloatType(64), nullable=False),)
    writer = row_writer(TableSchema(TableId("shop", "t"), columns, ("x",)))

    assert FewRows().encode(encodable(writer.schema), "topic", [writer.event([[-0.0]])], NOW_MS) is None


def test_a_plan_is_of_one_schema_of_one_table(row_writer: type[RowWriter]) -> None:
    writer = a_writer(row_writer)
    event = writer.event([[1, None, None, "a"]])
    few, table = FewRows(), encodable(writer.schema)
    other = replace(table, value_schema_id=5)

    first, second = (few.encode(each, "topic", [event], NOW_MS) for each in (table, other))

    assert first is not None
    assert second is not None
    assert listed(first) == by_the_reference(table, [event])
    assert listed(second) == by_the_reference(other, [event])


def test_the_reference_says_what_is_wrong(row_writer: type[RowWriter]) -> None:
    writer = a_writer(row_writer)
    event = writer.event([[1, None, None, "a"]])
    damaged = replace(event, payload=event.payload.replace(b"\x01a", b"\x01\xff"))

    with pytest.raises(TableStoppedError, match="no utf8mb4 text"):
        by_the_reference(encodable(writer.schema), [damaged])
