"""Rows that may lack columns as bytes that can be put together: the Avro bytes of each column, its cell.

A row is a list of nullable `bytes` of Avro: first the message it came in, if the row
lacks anything, else null; then a cell for each column that the plan needs, null where
the row lacks it. A value that is NULL has a cell, which says so. Put together, they are
the row: the kernel does that (jvm/join/Cells.java), and `merge_cells`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.joins.rows import decode_stored, encode_stored
from penstock.core.tables import BytesType, Column, TableId, TableSchema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.avro.arrays import ArrowArray, Flags
    from penstock.core.joins.plan import PlannedInput

_BLOB: Final = BytesType(2**31 - 1, fixed=False)


def encode_cells(given: PlannedInput, rows: pa.RecordBatch, lacking: Mapping[str, Flags]) -> Sequence[pa.BinaryArray]:
    """The cell of each column that an input needs, null where `lacking` says that the row has no value of it.

    Raises PenstockError for rows that the plan does not fit any more.
    """
    cells: list[pa.BinaryArray] = []
    for column in given.needed:
        encoded: Any = encode_stored(_of_columns(given, [column]), rows)
        if column.name in lacking:
            encoded = pc.if_else(pa.array(lacking[column.name]), pa.scalar(None, pa.binary()), encoded)
        cells.append(encoded)
    return cells


def decode_cells(given: PlannedInput, cells: Sequence[Any]) -> pa.RecordBatch:
    """Rows of their cells, with the columns that the input needs: null where there is no cell."""
    columns = [
        decode_stored(_of_columns(given, [column]), each)[0] for column, each in zip(given.needed, cells, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=[column.name for column in given.needed])


def join_cells(given: PlannedInput, messages: ArrowArray, cells: Sequence[ArrowArray]) -> pa.BinaryArray:
    """Rows as bytes: see above. `messages` are null for whole rows."""
    names = [column.name for column in _blobs(given)]
    return encode_stored(_of_columns(given, _blobs(given)), pa.RecordBatch.from_arrays([messages, *cells], names=names))


def split_cells(given: PlannedInput, rows: pa.BinaryArray) -> tuple[ArrowArray, Sequence[ArrowArray]]:
    """What `join_cells` put together: messages, and cells."""
    messages, *cells = decode_stored(_of_columns(given, _blobs(given)), rows)
    return messages, cells


def lacks_cells(row: bytes) -> bool:
    """Whether a row lacks anything: its message is there."""
    return row[0] != 0


def merge_cells(older: bytes, newer: bytes) -> bytes:
    """A row that lacks cells with those that the whole row before it has."""
    (_, *known), (_, *told) = _cells_of(older), _cells_of(newer)
    return b"".join([b"\0", *(was if now == b"\0" else now for was, now in zip(known, told, strict=True))])


def _cells_of(row: bytes) -> Sequence[bytes]:
    found, at = [], 0
    while at < len(row):
        start, length = at, 0
        if row[at]:
            shift = 0
            while True:
                at += 1
                length |= (row[at] & 127) << shift
                shift += 7
                if not row[at] & 128:
                    break
        # Avro's lengths are zigzag: twice what they are.
        at += 1 + (length >> 1)
        found.append(row[start:at])
    return found


def _blobs(given: PlannedInput) -> Sequence[Column]:
    return [Column(f"c{number}", _BLOB, nullable=True) for number in range(len(given.needed) + 1)]


def _of_columns(given: PlannedInput, columns: Sequence[Column]) -> PlannedInput:
    """The input as if it kept these, of which any may be null."""
    stored = TableSchema(TableId("state", "cells"), tuple(replace(each, nullable=True) for each in columns), ())
    return replace(given, stored=stored)


def lacking_anything(lacking: Mapping[str, Flags], count: int) -> Flags:
    """Whether each of `count` rows lacks any column."""
    found: Flags = np.zeros(count, np.bool_)
    for flags in lacking.values():
        found = found | flags
    return found
