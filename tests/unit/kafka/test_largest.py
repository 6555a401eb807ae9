"""Messages that no broker takes."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa

from penstock.core.changes import Messages
from penstock.core.kafka.largest import too_large


def messages(*values: bytes | None) -> Messages:
    order = np.arange(len(values), dtype=np.int64)
    return Messages("t", pa.nulls(len(values), pa.binary()), pa.array(values, pa.binary()), order)


def test_a_message_is_too_large_that_stays_so_when_it_is_compressed() -> None:
    random = os.urandom(2_000)

    assert too_large(messages(b"a", random, None), 1_000) == [1]
    assert too_large(messages(b"a" * 2_000, None), 1_000) == []
    assert too_large(messages(random), 2_000) == []
    assert too_large(messages(), 1_000) == []
