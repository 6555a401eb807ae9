"""Confluent's frame around a message."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.avro.wire import frame, schema_ids, split
from penstock.core.errors import CorruptLogError

IDS = st.integers(0, 2**31 - 1)


@given(IDS, st.binary())
def test_a_framed_message_is_split_again(schema_id: int, payload: bytes) -> None:
    assert split(frame(schema_id) + payload) == (schema_id, payload)


@given(st.lists(st.tuples(IDS, st.binary())))
def test_the_ids_of_many_messages_are_read_at_once(messages: list[tuple[int, bytes]]) -> None:
    # The first is left out again, so that the array begins inside its buffers.
    framed = [frame(1), *(frame(schema_id) + payload for schema_id, payload in messages)]

    assert schema_ids(pa.array(framed, pa.binary()).slice(1)).tolist() == [schema_id for schema_id, _ in messages]


def test_the_frame_is_the_one_confluent_documents() -> None:
    assert frame(258) == b"\x00\x00\x00\x01\x02"


@pytest.mark.parametrize("message", [b"", b"\0\0\0\0", b"\1\0\0\0\1", b'{"id":1}'])
def test_a_message_without_a_frame_is_refused(message: bytes) -> None:
    with pytest.raises(CorruptLogError, match="does not begin with a schema id"):
        split(message)
    with pytest.raises(CorruptLogError, match="message 1 of 3 does not begin with a schema id"):
        schema_ids(pa.array([frame(1), message, frame(2)], pa.binary()))


def test_a_tombstone_has_no_schema_id() -> None:
    with pytest.raises(CorruptLogError, match=r"message 1 of 2 .* tombstone"):
        schema_ids(pa.array([frame(1), None], pa.binary()))
