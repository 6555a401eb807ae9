"""Avro's integers, one by one and many at once."""

from __future__ import annotations

import io

import fastavro
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.core.avro.lockstep import Cursors
from penstock.core.avro.varints import varint, varint_words
from penstock.core.avro.words import concatenated
from penstock.core.errors import CorruptLogError

LONGS = st.integers(-(2**63), 2**63 - 1)
EDGES = [sign * 2**power + step for power in range(63) for sign in (-1, 1) for step in (-1, 0, 1)]


@given(LONGS)
def test_one_integer_is_encoded_as_fastavro_does(value: int) -> None:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, "long", value)

    assert varint(value) == stream.getvalue()


@given(st.lists(LONGS | st.integers(-70, 70), min_size=1))
@example(EDGES)
@example([-(2**63), 2**63 - 1])
@example([2**55 - 1, -(2**55)])
def test_many_integers_are_encoded_as_each_alone(values: list[int]) -> None:
    encoded = concatenated(varint_words(np.array(values, dtype=np.int64)))

    assert encoded.to_pylist() == [varint(value) for value in values]


@given(st.lists(LONGS | st.integers(-70, 70), min_size=1))
@example(EDGES)
def test_many_integers_are_read_back(values: list[int]) -> None:
    encoded = [varint(value) for value in values]
    ends = np.cumsum([len(each) for each in encoded])
    octets = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    cursors = Cursors(octets, np.concatenate([[0], ends[:-1]]), ends)

    assert cursors.read_numbers(None, "n").tolist() == values
    cursors.finish()


@pytest.mark.parametrize("octets", [b"\xff" * 10, b"\xff" * 9 + b"\x02", b"\x80" * 20])
def test_an_integer_of_more_than_64_bits_is_refused(octets: bytes) -> None:
    cursors = Cursors(np.frombuffer(octets, dtype=np.uint8), np.array([0]), np.array([len(octets)]))

    with pytest.raises(CorruptLogError, match="longer than 64 bits"):
        cursors.read_numbers(None, "n")


def test_an_int_of_more_than_32_bits_is_refused() -> None:
    octets = varint(2**31)
    cursors = Cursors(np.frombuffer(octets, dtype=np.uint8), np.array([0]), np.array([len(octets)]))

    with pytest.raises(CorruptLogError, match="it is no int"):
        cursors.read_numbers(None, "n", 32)
