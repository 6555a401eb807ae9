"""What is inside a batch file, and what it is called.

A file holds changes of one topic partition with one schema, as Parquet: the
table's columns under their own names, with the types of
`penstock.core.arrow_types`, then columns of ours, whose names begin with
`__penstock_`:

`__penstock_op`      string  what happened to the row
`__penstock_offset`  int64   the Kafka offset of the change

and, where rows may lack columns,

`__penstock_lacks`   string  one character per column, `1` where the row lacks it; "" where it lacks none

A table with a key has one row per change, in offset order: the row as it is
after the change, or for `d` as it last was. A table without a key has one row
per row image, with `c` or `r` (after), `d` (before), and for an update `u-`
(before) followed by `u+` (after), and says where in the source's log the
change stands:

`__penstock_file`    string  log file
`__penstock_pos`     int64   byte offset of the event in that file
`__penstock_row`     int32   index of the row in its event
`__penstock_ts_ms`   int64   commit time in the source, Unix milliseconds
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core.arrow_types import arrow_schema
from penstock.core.errors import CorruptLogError, TableStoppedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.avro.envelope_decode import DecodedChanges
    from penstock.core.tables import TableSchema

META_PREFIX = "__penstock_"
OP = "__penstock_op"
OFFSET = "__penstock_offset"
LACKS = "__penstock_lacks"
FILE = "__penstock_file"
POS = "__penstock_pos"
ROW = "__penstock_row"
TS_MS = "__penstock_ts_ms"

_KEYED_META = (pa.field(OP, pa.string()), pa.field(OFFSET, pa.int64()))
_LOG_META = (
    *_KEYED_META,
    pa.field(FILE, pa.string()),
    pa.field(POS, pa.int64()),
    pa.field(ROW, pa.int32()),
    pa.field(TS_MS, pa.int64()),
)
_ROW_GROUP_ROWS = 122_880


def file_schema(schema: TableSchema) -> pa.Schema:
    """Return the Arrow schema of the batch files of a table.

    Raises TableStoppedError for a column whose name is ours or whose type has
    no Arrow type.
    """
    for column in schema.columns:
        if column.name.casefold().startswith(META_PREFIX):
            reason = f"names that begin with {META_PREFIX} are kept for our own columns"
            raise TableStoppedError(str(schema.table), column.name, "its schema", reason, "rename the column")
    try:
        rows = arrow_schema(schema)
    except ValueError as error:
        raise TableStoppedError(str(schema.table), "", "its schema", str(error), "leave the table out") from error
    columns = [field.with_nullable(nullable=True) for field in rows]
    lacking = [pa.field(LACKS, pa.string())] if schema.partial_rows else []
    return pa.schema([*columns, *(_KEYED_META if schema.key else _LOG_META), *lacking])


def file_rows(schema: TableSchema, changes: DecodedChanges, offsets: npt.NDArray[np.int64]) -> pa.Table:
    """Lay out n decoded changes as rows of a file; `offsets` (int64[n]) are their Kafka offsets.

    Raises CorruptLogError for a change that lacks the row image it needs.
    """
    ops = np.asarray(changes.op.to_pylist(), dtype="U2")
    change, is_before, labels = _row_images(ops, doubled=not schema.key)
    _check_images(schema, changes, change, is_before, offsets)
    images = pa.Table.from_batches([changes.after, changes.before.cast(changes.after.schema)])
    image = change + is_before.astype(np.int64) * len(ops)
    rows = images.take(pa.array(image))
    layout = file_schema(schema)
    arrays = [rows.column(column.name).combine_chunks() for column in schema.columns]
    arrays += [pa.array(labels, pa.string()), pa.array(offsets[change], pa.int64())]
    if not schema.key:
        arrays.append(changes.file.take(pa.array(change, pa.int64())))
        arrays += [pa.array(numbers[change]) for numbers in (changes.pos, changes.row, changes.ts_ms)]
    if schema.partial_rows:
        lists = pa.concat_arrays([changes.after_lacks, changes.before_lacks]).take(pa.array(image))
        arrays.append(_lacking(schema, lists))
    cast = [array.cast(field.type) for array, field in zip(arrays, layout, strict=True)]
    return pa.Table.from_arrays(cast, schema=layout)


def render_file(schema: TableSchema, rows: pa.Table) -> bytes:
    """Return the Parquet file of `rows`, which are laid out as `file_rows` does.

    The same rows give the same bytes under the same version of Arrow. Raises
    ValueError for rows of another layout.
    """
    layout = file_schema(schema)
    if not rows.schema.equals(layout):
        message = f"rows of {schema.table} have columns {rows.schema}, and a file has {layout}"
        raise ValueError(message)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, layout, compression="zstd", version="2.6") as writer:
        writer.write_table(rows.combine_chunks(), row_group_size=_ROW_GROUP_ROWS)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def parse_file(schema: TableSchema, content: bytes) -> pa.Table:
    """Return the rows of a file; ValueError if it is not a file of this table and schema."""
    rows = pq.read_table(pa.BufferReader(content))
    layout = file_schema(schema)
    if rows.schema.names != layout.names:
        message = f"the file has columns {rows.schema.names}, and {schema.table} has {layout.names}"
        raise ValueError(message)
    return rows.cast(layout)


def object_key(pipeline: str, source: str, topic: str, partition: int, offsets: tuple[int, int], schema_id: int) -> str:
    """Return the file's key: a folder per topic partition, then `START-END-SCHEMA.parquet`, offsets in 20 digits.

    Files of a partition sort by start offset. The end is in the key so that a
    file that was announced is never written again with other contents. Characters
    with a meaning in paths or URLs are percent-encoded.
    """
    start, end = offsets
    folders = [_folder(name) for name in (pipeline, source, topic)]
    return "/".join([*folders, str(partition), f"{start:020d}-{end:020d}-{schema_id}.parquet"])


def _lacking(schema: TableSchema, lists: pa.StringArray) -> pa.StringArray:
    """Turn JSON lists of names into one character per column of `schema`."""
    found = lists.dictionary_encode()
    flags = [_flags(schema, json.loads(text)) if text else "" for text in found.dictionary.to_pylist()]
    return pa.array(flags, pa.string()).take(found.indices)


def _flags(schema: TableSchema, lacking: Sequence[str]) -> str:
    return "".join("1" if column.name in lacking else "0" for column in schema.columns)


def _folder(name: str) -> str:
    # A name of dots alone would lead to another folder.
    return quote(name, safe="") if name.strip(".") else "%2E" * len(name)


def _row_images(
    ops: npt.NDArray[np.str_], *, doubled: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.str_]]:
    """Return for every row of the file: the change it is of, whether it is its before image, and its op.

    `doubled` gives an update two rows, `u-` and `u+`, in this order.
    """
    updates = (ops == "u") & doubled
    change = np.repeat(np.arange(len(ops), dtype=np.int64), 1 + updates)
    second = np.zeros(len(change), dtype=np.bool_)
    second[1:] = change[1:] == change[:-1]
    halves = updates[change]
    is_before = (ops[change] == "d") | (halves & ~second)
    labels = ops[change].copy()
    labels[halves] = np.where(second[halves], "u+", "u-")
    return change, is_before, labels


def _check_images(
    schema: TableSchema,
    changes: DecodedChanges,
    change: npt.NDArray[np.int64],
    is_before: npt.NDArray[np.bool_],
    offsets: npt.NDArray[np.int64],
) -> None:
    there = np.where(is_before, changes.has_before[change], changes.has_after[change])
    if not there.all():
        first = int(np.argmin(there))
        image = "before" if is_before[first] else "after"
        message = f"a change of {schema.table} at offset {offsets[change[first]]} lacks the row {image} it"
        raise CorruptLogError(message, "set binlog_row_image=FULL in the source and have the table copied again")
