"""What is inside a batch file, and what it is called.

A file holds changes of one topic partition with one schema, as Parquet or CSV
(`penstock.core.file_formats`): the table's columns under their own names, with the types of
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
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.core.arrow_types import arrow_schema, arrow_type
from penstock.core.avro.envelope_decode import DecodedRows
from penstock.core.changes import Op
from penstock.core.errors import START_ANEW, CorruptLogError, TableStoppedError
from penstock.core.tables import Column, IntegerType, TextType

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.core.avro.arrays import ArrowArray
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

_SHORT = TextType(255, "utf8mb4")
_LACKS_COLUMN = Column(LACKS, _SHORT, nullable=True)
_KEYED_COLUMNS = (
    Column(OP, _SHORT, nullable=False),
    Column(OFFSET, IntegerType(64, unsigned=False), nullable=False),
)
LOG_FILE_COLUMNS = (
    *_KEYED_COLUMNS,
    Column(FILE, _SHORT, nullable=False),
    Column(POS, IntegerType(64, unsigned=False), nullable=False),
    Column(ROW, IntegerType(32, unsigned=False), nullable=False),
    Column(TS_MS, IntegerType(64, unsigned=False), nullable=False),
)
"""The columns of ours in a file of a table without a key; those of others have the first ones."""
_ROW_GROUP_ROWS = 122_880
_SAMPLE_ROWS = 4_096
_SAMPLE_BYTES_MAX = 8 << 20
"""Of a column; counting larger values takes twice their memory."""
_REPEATS_MIN = 4
"""How often a value must be there on the average for a dictionary."""


def file_columns(schema: TableSchema) -> tuple[Column, ...]:
    """Return the columns of the batch files of a table, in their order, as a warehouse may stage them."""
    lacking = (_LACKS_COLUMN,) if schema.partial_rows else ()
    return (*schema.columns, *(_KEYED_COLUMNS if schema.key else LOG_FILE_COLUMNS), *lacking)


def staged_columns(schema: TableSchema, names: Collection[str]) -> list[Column]:
    """Return the columns of rows to be staged, in their order, of which there are those called `names`."""
    known = {column.name: column for column in (*file_columns(schema), *LOG_FILE_COLUMNS) if column.name in names}
    return list(known.values())


def file_schema(schema: TableSchema) -> pa.Schema:
    """Return the Arrow schema of the batch files of a table.

    Raises TableStoppedError for a column whose name is ours or whose type has
    no Arrow type.
    """
    for column in schema.columns:
        if column.name.casefold().startswith(META_PREFIX):
            reason = f"names that begin with {META_PREFIX} are kept for Penstock's own columns"
            raise TableStoppedError(str(schema.table), column.name, "its schema", reason, "rename the column")
    try:
        rows = arrow_schema(schema)
    except ValueError as error:
        raise TableStoppedError(str(schema.table), "", "its schema", str(error), "leave the table out") from error
    columns = [field.with_nullable(nullable=True) for field in rows]
    ours = [pa.field(column.name, arrow_type(column.type)) for column in file_columns(schema)[len(columns) :]]
    return pa.schema([*columns, *ours])


def file_rows(schema: TableSchema, changes: DecodedChanges | DecodedRows, offsets: npt.NDArray[np.int64]) -> pa.Table:
    """Lay out n decoded changes as rows of a file; `offsets` (int64[n]) are their Kafka offsets.

    A table without a key needs both rows of its changes. Raises CorruptLogError for
    a change that lacks the row it needs.
    """
    if isinstance(changes, DecodedRows):
        return _changed_rows(schema, changes, offsets)
    ops = np.asarray(changes.op.to_pylist(), dtype="U2")
    change, is_before, labels = _row_images(ops)
    there = np.where(is_before, changes.has_before[change], changes.has_after[change])
    _require_rows(schema, there, is_before, offsets[change])
    images = pa.Table.from_batches([changes.after, changes.before.cast(changes.after.schema)])
    image = pa.array(change + is_before.astype(np.int64) * len(ops))
    arrays = [column.combine_chunks() for column in images.take(image).columns]
    arrays += [pa.array(labels, pa.string()), pa.array(offsets[change], pa.int64())]
    arrays.append(changes.file.take(pa.array(change, pa.int64())))
    arrays += [pa.array(numbers[change]) for numbers in (changes.pos, changes.row, changes.ts_ms)]
    if schema.partial_rows:
        arrays.append(_lacking(schema, pa.concat_arrays([changes.after_lacks, changes.before_lacks]).take(image)))
    return _laid_out(schema, arrays)


def _changed_rows(schema: TableSchema, changes: DecodedRows, offsets: npt.NDArray[np.int64]) -> pa.Table:
    is_delete = pc.equal(changes.op, pa.scalar(Op.DELETE.value)).to_numpy(zero_copy_only=False)
    _require_rows(schema, is_delete == changes.is_before, is_delete, offsets)
    lacks = [_lacking(schema, changes.lacks)] if schema.partial_rows else []
    return _laid_out(schema, [*changes.rows.columns, changes.op, pa.array(offsets, pa.int64()), *lacks])


def _laid_out(schema: TableSchema, arrays: Sequence[ArrowArray]) -> pa.Table:
    layout = file_schema(schema)
    cast = [array.cast(field.type) for array, field in zip(arrays, layout, strict=True)]
    return pa.Table.from_arrays(cast, schema=layout)


def render_file(schema: TableSchema, rows: pa.Table) -> bytes:
    """Return the Parquet file of `rows`, which are laid out as `file_rows` does.

    The same rows give the same bytes under the same version of Arrow. Raises
    ValueError for rows of another layout.
    """
    layout = require_layout(schema, rows)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        layout,
        compression="zstd",
        version="2.6",
        use_dictionary=_repetitive_columns(rows),  # type: ignore[arg-type]  # names, too, says its documentation
        # All rows of a file are read, so nobody looks for them; of large values they take six times their memory.
        write_statistics=False,
    ) as writer:
        writer.write_table(rows.combine_chunks(), row_group_size=_ROW_GROUP_ROWS)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def require_layout(schema: TableSchema, rows: pa.Table) -> pa.Schema:
    """Return the columns of the files of `schema`; ValueError for rows that have others."""
    layout = file_schema(schema)
    if not rows.schema.equals(layout):
        message = f"rows of {schema.table} have columns {rows.schema}, and a file has {layout}"
        raise ValueError(message)
    return layout


def _repetitive_columns(rows: pa.Table) -> list[str]:
    """Name the columns whose values repeat, as the first rows show: for others a dictionary costs and saves nothing."""
    sample = rows.slice(0, _SAMPLE_ROWS)
    most = sample.num_rows // _REPEATS_MIN
    plain = [
        field.name
        for field, column in zip(sample.schema, sample.columns, strict=True)
        if not pa.types.is_nested(field.type) and column.nbytes <= _SAMPLE_BYTES_MAX
    ]
    return [name for name in plain if pc.count_distinct(sample.column(name)).as_py() <= most]


def parse_file(schema: TableSchema, content: bytes) -> pa.Table:
    """Return the rows of a Parquet file; ValueError if it is not a file of this table and schema."""
    rows = pq.read_table(pa.BufferReader(content))
    layout = file_schema(schema)
    if rows.schema.names != layout.names:
        message = f"the file has columns {rows.schema.names}, and {schema.table} has {layout.names}"
        raise ValueError(message)
    return rows.cast(layout)


def object_key(pipeline: str, source: str, topic: str, partition: int, offsets: tuple[int, int], schema_id: int) -> str:
    """Return the file's key without its ending: a folder per topic partition, then `START-END-SCHEMA`.

    Offsets have 20 digits, so files of a partition sort by start offset. The end is in the key so that a
    file that was announced is never written again with other contents. Characters
    with a meaning in paths or URLs are percent-encoded.
    """
    start, end = offsets
    folders = [key_folder(name) for name in (pipeline, source, topic)]
    return "/".join([*folders, str(partition), f"{start:020d}-{end:020d}-{schema_id}"])


def key_folder(name: str) -> str:
    """Return `name` as a folder of a key."""
    # A name of dots alone would lead to another folder.
    return quote(name, safe="") if name.strip(".") else "%2E" * len(name)


def _lacking(schema: TableSchema, lists: pa.StringArray) -> pa.StringArray:
    """Turn JSON lists of names into one character per column of `schema`."""
    found = lists.dictionary_encode()
    flags = [_flags(schema, json.loads(text)) if text else "" for text in found.dictionary.to_pylist()]
    return pa.array(flags, pa.string()).take(found.indices)


def _flags(schema: TableSchema, lacking: Sequence[str]) -> str:
    return "".join("1" if column.name in lacking else "0" for column in schema.columns)


def _row_images(
    ops: npt.NDArray[np.str_],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.str_]]:
    """Return for every row of the file: the change it is of, whether it is its before image, and its op.

    An update has two rows, `u-` and `u+`, in this order.
    """
    updates = ops == "u"
    change = np.repeat(np.arange(len(ops), dtype=np.int64), 1 + updates)
    second = np.zeros(len(change), dtype=np.bool_)
    second[1:] = change[1:] == change[:-1]
    halves = updates[change]
    is_before = (ops[change] == "d") | (halves & ~second)
    labels = ops[change].copy()
    labels[halves] = np.where(second[halves], "u+", "u-")
    return change, is_before, labels


def _require_rows(
    schema: TableSchema,
    there: npt.NDArray[np.bool_],
    is_before: npt.NDArray[np.bool_],
    offsets: npt.NDArray[np.int64],
) -> None:
    if not there.all():
        first = int(np.argmin(there))
        image = "before" if is_before[first] else "after"
        message = f"a change of {schema.table} at offset {offsets[first]} lacks the row {image} it"
        raise CorruptLogError(message, f"set binlog_row_image=FULL in the source and {START_ANEW}")
