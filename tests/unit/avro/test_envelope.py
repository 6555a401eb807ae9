"""Encoding and decoding give what fastavro gives, for small batches and large ones."""

from __future__ import annotations

import io
import json
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.arrow_types import arrow_schema
from penstock.core.avro import envelope_decode
from penstock.core.avro.envelope_decode import DecodedChanges, decode_changes
from penstock.core.avro.envelope_encode import RELEASE, EncodableTable, encode_changes
from penstock.core.avro.names import avro_name
from penstock.core.avro.schemas import key_schema, value_schema
from penstock.core.avro.wire import frame
from penstock.core.changes import Op, RowBatch
from penstock.core.errors import CorruptLogError, PenstockError, TableStoppedError
from penstock.core.tables import (
    BitType,
    Column,
    DateTimeType,
    DateType,
    IntegerType,
    TableId,
    TableSchema,
    TextType,
    TimestampType,
    TimeType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.core.avro.arrays import ArrowArray

PROCESSED_AT_MS = 1_790_000_000_500
LARGE_ROWS = 150
SHOP = TableSchema(
    TableId("shop", "orders"),
    (
        Column("id", IntegerType(64, unsigned=False), nullable=False),
        Column("note", TextType(64, "utf8mb4"), nullable=True),
    ),
    ("id",),
)


@given(st.from_type(RowBatch))
def test_small_batches_are_encoded_as_fastavro_does(batch: RowBatch) -> None:
    keys, values = encode_changes(encodable(batch.schema), batch, PROCESSED_AT_MS)

    assert values.to_pylist() == written_values(batch)
    assert keys.to_pylist() == written_keys(batch)


@given(st.from_type(RowBatch))
def test_large_batches_are_encoded_as_fastavro_does(batch: RowBatch) -> None:
    large = repeated(batch, LARGE_ROWS)

    keys, values = encode_changes(encodable(batch.schema), large, PROCESSED_AT_MS)

    assert values.to_pylist() == list(np.resize(np.array(written_values(batch), dtype=object), LARGE_ROWS))
    assert keys.to_pylist() == list(np.resize(np.array(written_keys(batch), dtype=object), LARGE_ROWS))


@given(st.from_type(RowBatch))
def test_a_batch_comes_back_from_its_messages(batch: RowBatch) -> None:
    _, values = encode_changes(encodable(batch.schema), batch, PROCESSED_AT_MS)

    changes = decode_changes(batch.schema, value_schema(batch.schema), values)

    assert_same(changes, batch)


@given(st.from_type(RowBatch))
def test_messages_are_decoded_as_fastavro_does(batch: RowBatch) -> None:
    messages = written_values(batch)

    changes = decode_changes(batch.schema, value_schema(batch.schema), binary(messages))

    parsed = fastavro.parse_schema(json.loads(value_schema(batch.schema)))
    read = [
        cast("dict[str, Any]", fastavro.schemaless_reader(io.BytesIO(message[5:]), parsed, None))
        for message in messages
    ]
    assert [_values(envelope["before"]) for envelope in read] == rows_of(changes.before, changes.has_before)
    assert [_values(envelope["after"]) for envelope in read] == rows_of(changes.after, changes.has_after)
    assert [envelope["source"]["gtid"] or "" for envelope in read] == changes.gtid.to_pylist()
    assert [envelope["op"] for envelope in read] == changes.op.to_pylist()


@given(st.from_type(RowBatch))
@settings(max_examples=50)
def test_messages_of_every_operation_are_decoded_together(batch: RowBatch) -> None:
    others = [replace(batch, op=Op.CREATE, before=None, after=batch.after or batch.before)]
    others.append(replace(batch, op=Op.DELETE, before=batch.before or batch.after, after=None))
    parts = [encode_changes(encodable(batch.schema), part, PROCESSED_AT_MS)[1] for part in (batch, *others)]
    mixed = pa.concat_arrays(parts).take(pa.array(np.random.default_rng(1).permutation(3 * len(batch)), pa.int64()))

    changes = decode_changes(batch.schema, value_schema(batch.schema), mixed)
    with messages_at_once(2):
        in_pieces = decode_changes(batch.schema, value_schema(batch.schema), mixed)

    assert in_pieces.before.equals(changes.before)
    assert in_pieces.after.equals(changes.after)
    assert in_pieces.op.equals(changes.op)
    assert in_pieces.pos.tolist() == changes.pos.tolist()
    for place, message in enumerate(mixed):
        assert changes.part(place, place + 1).after.equals(changes.after.slice(place, 1))
        alone = decode_changes(batch.schema, value_schema(batch.schema), binary([message.as_py()]))
        assert alone.before.equals(changes.before.slice(place, 1))
        assert alone.after.equals(changes.after.slice(place, 1))
        assert alone.op[0] == changes.op[place]


@given(st.from_type(RowBatch), st.data())
@settings(max_examples=200)
def test_damaged_messages_decode_or_are_named(batch: RowBatch, data: st.DataObject) -> None:
    _, values = encode_changes(encodable(batch.schema), batch, PROCESSED_AT_MS)
    messages = [bytearray(value) for value in contents(values)]
    for _ in range(data.draw(st.integers(1, 4))):
        message = messages[data.draw(st.integers(0, len(messages) - 1))]
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    cut = messages[data.draw(st.integers(0, len(messages) - 1))]
    del cut[data.draw(st.integers(1, len(cut))) :]

    outcome = decoded_or_refused(batch.schema, binary(map(bytes, messages)))

    if isinstance(outcome, CorruptLogError):
        assert f"of {len(messages)} does not" in outcome.message
    else:
        outcome.before.validate(full=True)
        outcome.after.validate(full=True)


@contextmanager
def messages_at_once(count: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envelope_decode, "_MESSAGES_AT_ONCE", count)
        yield


@pytest.mark.parametrize("damaged", range(5))
def test_a_message_is_named_by_its_place_among_all(damaged: int) -> None:
    messages = list(contents(encode_changes(encodable(SHOP), batch_of(5), PROCESSED_AT_MS)[1]))
    messages[damaged] += b"\0"

    with messages_at_once(2), pytest.raises(CorruptLogError, match=f"message {damaged} of 5 does not decode"):
        decode_changes(SHOP, value_schema(SHOP), binary(messages))


@pytest.mark.parametrize("extra", [b"\0", b"\0" * 300])
def test_a_message_with_bytes_left_over_is_named(extra: bytes) -> None:
    _, values = encode_changes(encodable(SHOP), batch_of(3), PROCESSED_AT_MS)
    first, second, third = contents(values)

    with pytest.raises(CorruptLogError, match="message 1 of 3 does not decode at its end"):
        decode_changes(SHOP, value_schema(SHOP), binary([first, second + extra, third]))


def test_every_shorter_form_of_a_message_is_refused() -> None:
    _, values = encode_changes(encodable(SHOP), batch_of(1), PROCESSED_AT_MS)
    (message,) = contents(values)

    for length in range(len(message)):
        with pytest.raises(CorruptLogError, match="message 0 of 1 does not"):
            decode_changes(SHOP, value_schema(SHOP), binary([message[:length]]))


def test_a_tombstone_among_messages_is_named() -> None:
    _, values = encode_changes(encodable(SHOP), batch_of(1), PROCESSED_AT_MS)

    with pytest.raises(CorruptLogError, match=r"message 1 of 2 .* tombstone"):
        decode_changes(SHOP, value_schema(SHOP), binary([values[0].as_py(), None]))


def test_messages_of_two_schemas_are_not_decoded_together() -> None:
    _, values = encode_changes(encodable(SHOP), batch_of(2), PROCESSED_AT_MS)
    first, second = contents(values)

    with pytest.raises(CorruptLogError, match="message 1 of 2 does not decode at its schema id"):
        decode_changes(SHOP, value_schema(SHOP), binary([first, frame(99) + second[5:]]))


def test_text_that_is_not_utf8_is_named() -> None:
    _, values = encode_changes(encodable(SHOP), batch_of(2), PROCESSED_AT_MS)
    first, second = contents(values)

    with pytest.raises(CorruptLogError, match="message 1 of 2 does not decode at note"):
        decode_changes(SHOP, value_schema(SHOP), binary([first, second.replace(b"note", b"n\xffte")]))


def test_the_schema_of_another_table_is_refused() -> None:
    _, values = encode_changes(encodable(SHOP), batch_of(1), PROCESSED_AT_MS)
    other = replace(SHOP, columns=SHOP.columns[:1])

    with pytest.raises(PenstockError, match="not the one this release writes"):
        decode_changes(other, value_schema(SHOP), values)


def test_no_messages_decode_to_no_changes() -> None:
    keys, values = encode_changes(encodable(SHOP), batch_of(0), PROCESSED_AT_MS)

    changes = decode_changes(SHOP, value_schema(SHOP), values)

    assert (len(keys), len(values), len(changes), changes.after.num_rows) == (0, 0, 0, 0)


@pytest.mark.parametrize("rows", [1, LARGE_ROWS])
def test_a_null_in_a_column_without_nulls_stops_the_table(rows: int) -> None:
    nulls = pa.RecordBatch.from_arrays([pa.nulls(rows, pa.int64()), pa.nulls(rows, pa.string())], ["id", "note"])

    with pytest.raises(TableStoppedError, match=r"shop\.orders\.id stopped at bin\.000001:100: .*NOT NULL"):
        encode_changes(encodable(SHOP), replace(batch_of(rows), after=nulls), PROCESSED_AT_MS)


def test_a_column_of_another_type_stops_the_table() -> None:
    narrow = pa.RecordBatch.from_arrays([pa.array([1], pa.int32()), pa.array(["x"])], ["id", "note"])

    with pytest.raises(TableStoppedError, match="came as int32, not int64"):
        encode_changes(encodable(SHOP), replace(batch_of(1), after=narrow), PROCESSED_AT_MS)


def test_the_release_in_the_messages_is_that_of_the_package() -> None:
    assert version("penstock") == RELEASE


def decoded_or_refused(schema: TableSchema, values: pa.BinaryArray) -> DecodedChanges | CorruptLogError:
    try:
        return decode_changes(schema, value_schema(schema), values)
    except CorruptLogError as error:
        return error


def binary(messages: Iterable[bytes | None]) -> pa.BinaryArray:
    return pa.array(list(messages), pa.binary())


def contents(values: pa.BinaryArray) -> list[bytes]:
    return [message for message in values.to_pylist() if message is not None]


def encodable(schema: TableSchema) -> EncodableTable:
    return EncodableTable("shopdb", "mysql", schema, 7 if schema.key else None, 70_000)


def batch_of(rows: int) -> RowBatch:
    after = pa.RecordBatch.from_pylist([{"id": i, "note": "note"} for i in range(rows)], schema=arrow_schema(SHOP))
    return RowBatch(
        schema=SHOP,
        op=Op.CREATE,
        before=None,
        after=after,
        file="bin.000001",
        offsets=np.full(rows, 100, dtype=np.int64),
        rows=np.arange(rows, dtype=np.int32),
        timestamps_ms=np.zeros(rows, dtype=np.int64),
        gtids=pa.array([""] * rows, pa.string()),
        server_id=1,
    )


def repeated(batch: RowBatch, rows: int) -> RowBatch:
    places = np.resize(np.arange(len(batch)), rows)
    taken = pa.array(places, pa.int64())
    return replace(
        batch,
        before=None if batch.before is None else batch.before.take(taken),
        after=None if batch.after is None else batch.after.take(taken),
        offsets=batch.offsets[places],
        rows=batch.rows[places],
        timestamps_ms=batch.timestamps_ms[places],
        gtids=batch.gtids.take(taken),
    )


def written_values(batch: RowBatch) -> list[bytes]:
    """Write the batch with fastavro."""
    count = len(batch)
    nothing: list[dict[str, object] | None] = [None] * count
    before, after = (avro_rows(batch.schema, rows) or nothing for rows in (batch.before, batch.after))
    envelopes: list[dict[str, object]] = [
        {
            "before": before[i],
            "after": after[i],
            "source": {
                "version": RELEASE,
                "connector": "mysql",
                "name": "shopdb",
                "ts_ms": int(batch.timestamps_ms[i]),
                "db": batch.schema.table.schema,
                "table": batch.schema.table.name,
                "server_id": batch.server_id,
                "gtid": batch.gtids[i].as_py() or None,
                "file": batch.file,
                "pos": int(batch.offsets[i]),
                "row": int(batch.rows[i]),
            },
            "op": str(batch.op),
            "ts_ms": PROCESSED_AT_MS,
            "before_lacks": json.dumps(batch.before_lacks) if batch.before_lacks else None,
            "after_lacks": json.dumps(batch.after_lacks) if batch.after_lacks else None,
        }
        for i in range(count)
    ]
    return written(value_schema(batch.schema), 70_000, envelopes)


def written_keys(batch: RowBatch) -> Sequence[bytes | None]:
    text = key_schema(batch.schema)
    if text is None:
        return [None] * len(batch)
    rows = avro_rows(batch.schema, batch.before if batch.op is Op.DELETE else batch.after)
    names = [avro_name(name) for name in batch.schema.key]
    return written(text, 7, [{name: row[name] for name in names} for row in rows])


def written(schema: str, schema_id: int, records: Sequence[dict[str, object]]) -> list[bytes]:
    parsed = fastavro.parse_schema(json.loads(schema))
    messages = []
    for record in records:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, record)
        messages.append(frame(schema_id) + stream.getvalue())
    return messages


def avro_rows(schema: TableSchema, rows: pa.RecordBatch | None) -> list[dict[str, object]]:
    """Return the rows as fastavro takes them: dates and times as the integers Avro has for them."""
    if rows is None:
        return []
    columns = [avro_values(array, column) for array, column in zip(rows.columns, schema.columns, strict=True)]
    names = [avro_name(column.name) for column in schema.columns]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def avro_values(array: ArrowArray, column: Column) -> Sequence[object]:
    match column.type:
        case DateType():
            return cast("pa.Int32Array", array.view(pa.int32())).to_pylist()
        case TimeType() | DateTimeType() | TimestampType():
            return cast("pa.Int64Array", array.view(pa.int64())).to_pylist()
        case IntegerType() | BitType() if array.type == pa.uint64():
            values = cast("pa.UInt64Array", array).to_pylist()
            return [None if value is None else Decimal(value) for value in values]
        case _:
            return cast("pa.StringArray", array).to_pylist()


def _values(row: dict[str, object] | None) -> list[object] | None:
    """The values of a record; fastavro makes a UUID of its text."""
    return None if row is None else [str(value) if isinstance(value, UUID) else value for value in row.values()]


def rows_of(rows: pa.RecordBatch, there: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[list[object] | None]:
    spans = pa.types.is_duration
    columns = [(column.view(pa.int64()) if spans(column.type) else column).to_pylist() for column in rows.columns]
    return [list(row) if flag else None for flag, row in zip(there, zip(*columns, strict=True), strict=True)]


def assert_same(changes: DecodedChanges, batch: RowBatch) -> None:
    for rows, there, expected in (
        (changes.before, changes.has_before, batch.before),
        (changes.after, changes.has_after, batch.after),
    ):
        assert there.tolist() == [expected is not None] * len(batch)
        if expected is not None:
            assert rows.columns == expected.columns
    assert changes.op.to_pylist() == [str(batch.op)] * len(batch)
    assert changes.file.to_pylist() == [batch.file] * len(batch)
    assert changes.pos.tolist() == batch.offsets.tolist()
    assert changes.row.tolist() == batch.rows.tolist()
    assert changes.ts_ms.tolist() == batch.timestamps_ms.tolist()
    assert changes.gtid.equals(batch.gtids)
    for lists, names in ((changes.before_lacks, batch.before_lacks), (changes.after_lacks, batch.after_lacks)):
        assert lists.to_pylist() == [json.dumps(names) if names else ""] * len(batch)
    assert set(changes.db.to_pylist()) == {batch.schema.table.schema}
    assert set(changes.table.to_pylist()) == {batch.schema.table.name}
