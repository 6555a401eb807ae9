"""Messages that no broker takes."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.changes import Messages
from penstock.core.kafka.largest import too_large
from penstock.core.kafka.records import encode_listed


def messages(*values: bytes | None) -> Messages:
    order = np.arange(len(values), dtype=np.int64)
    return Messages("t", pa.nulls(len(values), pa.binary()), pa.array(values, pa.binary()), order)


def test_a_message_is_too_large_that_stays_so_when_it_is_compressed() -> None:
    random = os.urandom(2_000)

    assert too_large(messages(b"a", random, None), 1_000) == [1]
    assert too_large(messages(b"a" * 2_000, None), 1_000) == []
    assert too_large(messages(random), 2_000) == []
    assert too_large(messages(), 1_000) == []


@given(st.binary(max_size=300), st.integers(1, 1_500), st.integers(1_000, 100_000))
def test_what_is_sent_is_measured(page: bytes, copies: int, bytes_max: int) -> None:
    value = page * copies
    (sent,) = encode_listed([None], [value])

    assert bool(too_large(messages(value), bytes_max)) == (len(value) > bytes_max and len(sent.content) > bytes_max)


def test_a_page_that_comes_again_and_again_is_as_large_as_its_blocks_are_sent() -> None:
    value = os.urandom(40_000) * 30

    assert too_large(messages(value), 500_000) == [0]
