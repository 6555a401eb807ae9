"""Decoding gives what fastavro gives, and names what does not decode."""

from __future__ import annotations

import io
import json
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.avro.envelopes import (
    PROCESSED_AT_MS,
    SHOP,
    batch_of,
    binary,
    contents,
    encodable,
    of_every_operation,
    written,
    written_values,
)

from penstock.core.avro import envelope_decode
from penstock.core.avro.envelope_decode import DecodedChanges, DecodedRows, decode_changes, decode_rows
from penstock.core.avro.envelope_encode import encode_changes
from penstock.core.avro.schemas import value_schema
from penstock.core.avro.wire import frame
from penstock.core.changes import RowBatch
from penstock.core.errors import CorruptLogError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from penstock.core.tables import (
        TableSchema,
    )


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
@settings(max_examples=settings().max_examples // 2)
def test_messages_of_every_operation_are_decoded_together(batch: RowBatch) -> None:
    mixed = of_every_operation(batch)

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


@given(st.from_type(RowBatch), st.sampled_from([2, 8192]))
def test_one_row_of_each_message_is_that_after_the_change_or_the_last_one(batch: RowBatch, at_once: int) -> None:
    mixed = of_every_operation(batch)
    changes = decode_changes(batch.schema, value_schema(batch.schema), mixed)

    with messages_at_once(at_once):
        rows = decode_rows(batch.schema, value_schema(batch.schema), mixed)

    assert rows.is_before.tolist() == [op == "d" for op in changes.op.to_pylist()]
    for place, is_before in enumerate(rows.is_before):
        image = changes.before if is_before else changes.after
        lacks = changes.before_lacks if is_before else changes.after_lacks
        assert rows.rows.slice(place, 1).equals(image.slice(place, 1))
        assert rows.lacks[place] == lacks[place]
    for name in ("op", "source", "file"):
        assert getattr(rows, name).equals(getattr(changes, name))
    for name in ("pos", "row", "ts_ms"):
        assert getattr(rows, name).tolist() == getattr(changes, name).tolist()


def test_a_message_without_any_row_is_named() -> None:
    _, values = encode_changes(encodable(SHOP), batch_of(3), PROCESSED_AT_MS)
    first, second, third = contents(values)
    parsed = fastavro.parse_schema(json.loads(value_schema(SHOP)))
    envelope = cast("dict[str, Any]", fastavro.schemaless_reader(io.BytesIO(second[5:]), parsed, None))
    (nothing,) = written(value_schema(SHOP), 70_000, [{**envelope, "before": None, "after": None}])

    with pytest.raises(CorruptLogError, match="message 1 of 3 does not decode at after: it has no row"):
        decode_rows(SHOP, value_schema(SHOP), binary([first, nothing, third]))


@given(st.from_type(RowBatch), st.data())
@settings(max_examples=2 * settings().max_examples)
def test_damaged_messages_decode_or_are_named(batch: RowBatch, data: st.DataObject) -> None:
    _, values = encode_changes(encodable(batch.schema), batch, PROCESSED_AT_MS)
    messages = [bytearray(value) for value in contents(values)]
    for _ in range(data.draw(st.integers(1, 4))):
        message = messages[data.draw(st.integers(0, len(messages) - 1))]
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    cut = messages[data.draw(st.integers(0, len(messages) - 1))]
    del cut[data.draw(st.integers(1, len(cut))) :]

    for decode in (decode_changes, decode_rows):
        outcome = decoded_or_refused(decode, batch.schema, binary(map(bytes, messages)))
        match outcome:
            case CorruptLogError():
                assert f"of {len(messages)} does not" in outcome.message
            case DecodedRows():
                outcome.rows.validate(full=True)
            case DecodedChanges():
                outcome.before.validate(full=True)
                outcome.after.validate(full=True)


def decoded_or_refused(
    decode: Callable[[TableSchema, str, pa.BinaryArray], DecodedChanges | DecodedRows],
    schema: TableSchema,
    values: pa.BinaryArray,
) -> DecodedChanges | DecodedRows | CorruptLogError:
    try:
        return decode(schema, value_schema(schema), values)
    except CorruptLogError as error:
        return error


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
