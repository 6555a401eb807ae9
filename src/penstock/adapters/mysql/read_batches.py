"""Printed rows as READ batches, and listed keys of which there is no row as DELETE batches."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.core.arrow_types import arrow_schema
from penstock.core.changes import Op, RowBatch
from penstock.core.errors import TableStoppedError
from penstock.core.key_alone import blank
from penstock.core.mysql.types.key_literals import key_values
from penstock.core.mysql.types.text_values import parse_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.mysql.types.text_rows import PrintedRows
    from penstock.core.tables import TableSchema


def read_batch(schema: TableSchema, fetched: PrintedRows, position: str) -> RowBatch:
    """Return rows as one READ batch. Raises TableStoppedError, which names `position`, for what cannot be carried."""
    arrays = []
    for column, values in zip(schema.columns, fetched.columns, strict=True):
        try:
            arrays.append(parse_values(column.type, values, in_key=column.name in schema.key))
        except ValueError as error:
            hint = "correct the value in the source, then type: penstock snapshot FILE TABLE"
            raise TableStoppedError(str(schema.table), column.name, position, f"{error}", hint) from error
    return _batch(schema, Op.READ, arrays)


def deleted_batch(schema: TableSchema, asked: Sequence[tuple[object, ...]], found: RowBatch | None) -> RowBatch | None:
    """Return the keys of `asked` that are not among those `found`, as rows that went; None for none.

    Nobody knows their other columns: they are NULL, or the zero of their type where they may not be.
    """
    columns = [schema.column(name) for name in schema.key]
    arrays = [key_values(column, values) for column, values in zip(columns, zip(*asked, strict=True), strict=True)]
    there = set()
    if found is not None and found.after is not None:
        there = set(zip(*(found.after.column(name).to_pylist() for name in schema.key), strict=True))
    listed = enumerate(zip(*(array.to_pylist() for array in arrays), strict=True))
    gone = pa.array([index for index, key in listed if key not in there], pa.int64())
    if not len(gone):
        return None
    keys = {name: array.take(gone) for name, array in zip(schema.key, arrays, strict=True)}
    others = {column.name: blank(column, len(gone)) for column in schema.image_columns if column.name not in keys}
    lacks = tuple(others) if schema.partial_rows else ()
    return _batch(schema, Op.DELETE, [{**keys, **others}[column.name] for column in schema.columns], lacks)


def _batch(schema: TableSchema, op: Op, arrays: Sequence[pa.Array[Any]], lacks: tuple[str, ...] = ()) -> RowBatch:
    rows = pa.RecordBatch.from_arrays(list(arrays), schema=arrow_schema(schema))
    before, after = (rows, None) if op is Op.DELETE else (None, rows)
    count, now_ms = rows.num_rows, time.time_ns() // 1_000_000
    return RowBatch(
        schema=schema,
        op=op,
        before=before,
        after=after,
        file="",
        offsets=np.zeros(count, np.int64),
        rows=np.zeros(count, np.int32),
        timestamps_ms=np.full(count, now_ms, np.int64),
        gtids=pa.array([""] * count, pa.string()),
        server_id=0,
        before_lacks=lacks,
    )
