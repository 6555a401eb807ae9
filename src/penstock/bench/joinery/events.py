"""The events that both sides join: upserts and deletes of 100 bytes and a bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from penstock.core.joins.events import DELETE, SCHEMA, UPSERT
from penstock.core.joins.keys import key_bytes

if TYPE_CHECKING:
    from penstock.core.avro.arrays import Flags, Integers

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_DELETE_EVERY: Final = 50
_ROW_BYTES: Final = 100
_ROWS_PER_KEY: Final = 5
_PARENT_EVERY: Final = 100


def join_events(first: int, count: int, rows: int, keys: int, inputs: int) -> pa.RecordBatch:
    """Events `first` and so on, of `rows` in all, over so many join keys. peers/FlinkJoin.java has the same rule.

    Event i is of input i mod `inputs`. Input 0 has a row for each join key; the rows of
    the others move between join keys. One in 50 is a delete.
    """
    i: Integers = np.arange(first, first + count, dtype=np.int64)
    key = ((i.astype(np.uint64) * _GOLDEN >> np.uint64(33)) % np.uint64(keys)).astype(np.int64)
    given, is_deleted = i % inputs, i % _DELETE_EVERY == 0
    ids = np.where(given == 0, key, i % (rows // 2))
    return _events(i, given, is_deleted, key, ids)


def state_events(first: int, count: int) -> pa.RecordBatch:
    """Events `first` and so on, every one of which is a row that stays: five for each join key, one behind the other.

    That is the order of an initial snapshot of rows that were made with their parents.
    One row in 100 is of input 0; the others are of input 1.
    """
    i: Integers = np.arange(first, first + count, dtype=np.int64)
    key = i // _ROWS_PER_KEY
    return _events(i, (i % _PARENT_EVERY != 0).astype(np.int64), np.zeros(count, np.bool_), key, i)


def _events(i: Integers, given: Integers, is_deleted: Flags, key: Integers, ids: Integers) -> pa.RecordBatch:
    count = len(i)
    content = [
        b"" if gone else b"x" * _ROW_BYTES + b"%d" % n for gone, n in zip(is_deleted.tolist(), i.tolist(), strict=True)
    ]
    columns: list[Any] = [
        pa.array(given.astype(np.uint8)),
        pa.array(np.where(is_deleted, DELETE, UPSERT).astype(np.uint8)),
        pa.array(np.zeros(count, np.int32)),
        pa.array(i),
        pa.array(i),
        pa.array(np.zeros(count, np.int32)),
        key_bytes([pa.array(key)]),
        key_bytes([pa.array(ids)]),
        pa.array(content, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
