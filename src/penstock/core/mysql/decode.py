"""From ROWS events to columns.

Many rows go through the lockstep walk and whole-column conversions, few through
the plain decoder, which is also the one that says what is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.core.arrow_types import arrow_schema
from penstock.core.changes import Op, RowBatch
from penstock.core.errors import CorruptLogError, TableStoppedError
from penstock.core.mysql.bytes_reader import MalformedError
from penstock.core.mysql.log_items import TableMap
from penstock.core.mysql.row_layout import RowLayout, row_layout
from penstock.core.mysql.rows_columns import PADDING, Words, walk_events
from penstock.core.mysql.rows_image import PartialImageError, rows_begin
from penstock.core.mysql.rows_plain import BadCellError, decode_column, read_rows
from penstock.core.mysql.vectors import ColumnBytes, vector_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.core.mysql.log_items import RowsLogged
    from penstock.core.mysql.row_layout import Cell
    from penstock.core.tables import TableSchema

BatchKey: TypeAlias = tuple[TableMap, Op, str, int]
Decoded: TypeAlias = tuple[list[int], list[pa.Array]]
"""The number of rows of each event, and one array per column of each image."""

_PLAIN_BYTES_MAX: Final = 4096
"""With fewer bytes of rows than this the plain decoder is faster (measured)."""
_BYTES_MAX: Final = (1 << 31) - 1 - len(PADDING)
_LAYOUTS_MAX: Final = 1000
_layouts: dict[tuple[int, int], tuple[TableSchema, TableMap, RowLayout]] = {}


def batch_key(event: RowsLogged) -> BatchKey:
    """Return what the events of one `decode_rows` call must have in common."""
    return event.table_map, event.op, event.file, event.server_id


def decode_rows(schema: TableSchema, events: Sequence[RowsLogged]) -> RowBatch:
    """Decode `events`, at least one and all with the same `batch_key`, into one batch in their order.

    Raises TableStoppedError when the rows are not those of `schema`, lack columns,
    or hold a value that cannot be carried; CorruptLogError when bytes are no rows;
    ValueError for events that do not belong together or have over 2 GiB.
    """
    size_bytes = _check_together(events)
    layout = _layout(schema, events[0])
    begins = [_rows_begin(layout, event) for event in events]
    decode = _decode_plain if size_bytes <= _PLAIN_BYTES_MAX else _decode_columns
    counts, arrays = decode(layout, events, begins)
    return _batch(schema, events, counts, arrays)


def _check_together(events: Sequence[RowsLogged]) -> int:
    """Return how many bytes the events have."""
    first = events[0]
    size_bytes = 0
    for event in events:
        size_bytes += len(event.payload)
        same_map = event.table_map is first.table_map or event.table_map == first.table_map
        if not same_map or batch_key(event)[1:] != batch_key(first)[1:]:
            message = f"rows of {event.table_map.table} at {_where(event)} do not belong to those at {_where(first)}"
            raise ValueError(message)
    if size_bytes > _BYTES_MAX:
        message = f"rows of over 2 GiB from {_where(first)} on"
        raise ValueError(message)
    return size_bytes


def _layout(schema: TableSchema, event: RowsLogged) -> RowLayout:
    """Lay rows out once per pair of objects; comparing and hashing wide schemas for each batch would cost more."""
    key = (id(schema), id(event.table_map))
    known = _layouts.get(key)
    if known is not None and known[0] is schema and known[1] is event.table_map:
        return known[2]
    layout = row_layout(schema, event.table_map, _where(event))
    if len(_layouts) >= _LAYOUTS_MAX:
        _layouts.clear()
    _layouts[key] = (schema, event.table_map, layout)
    return layout


def _rows_begin(layout: RowLayout, event: RowsLogged) -> int:
    try:
        return rows_begin(event.payload, layout, _images(event))
    except MalformedError as error:
        raise _corrupt(event, str(error)) from error
    except PartialImageError as error:
        raise TableStoppedError(
            str(event.table_map.table),
            "",
            _where(event),
            "its rows were logged without all of their columns",
            "set binlog_row_image=FULL on the server, for every session, and copy the table again",
        ) from error


def _decode_plain(layout: RowLayout, events: Sequence[RowsLogged], begins: Sequence[int]) -> Decoded:
    counts: list[int] = []
    rows: list[list[bytes | None]] = []
    images = _images(events[0])
    for event, begin in zip(events, begins, strict=True):
        try:
            found = read_rows(event.payload, begin, layout, images)
        except MalformedError as error:
            raise _corrupt(event, str(error)) from error
        rows += found
        counts.append(len(found))
    cells = layout.cells * images
    columns: Iterable[Sequence[bytes | None]] = zip(*rows, strict=True) if rows else ([] for _ in cells)
    try:
        return counts, [decode_column(cell, raw) for cell, raw in zip(cells, columns, strict=True)]
    except BadCellError as error:
        raise _stopped(events, counts, error) from error


def _decode_columns(layout: RowLayout, events: Sequence[RowsLogged], begins: Sequence[int]) -> Decoded:
    buffer = b"".join([*(event.payload for event in events), PADDING])
    sizes = np.array([len(event.payload) for event in events], np.int64)
    ends = np.cumsum(sizes)
    cells = layout.cells * _images(events[0])
    try:
        found = walk_events(buffer, ends - sizes + np.array(begins, np.int64), ends, layout, _images(events[0]))
    except (MalformedError, IndexError):
        return _decode_plain(layout, events, begins)
    counts = found.counts.tolist()
    words = Words(buffer)
    columns = [
        ColumnBytes(words, starts, lengths, nulls)
        for starts, lengths, nulls in zip(found.starts, found.lengths, found.nulls, strict=True)
    ]
    try:
        return counts, [_column(cell, buffer, column) for cell, column in zip(cells, columns, strict=True)]
    except BadCellError as error:
        raise _stopped(events, counts, error) from error


def _column(cell: Cell, buffer: bytes, column: ColumnBytes) -> pa.Array:
    """Decode one column fast, or plainly where there is no fast way or a value is wrong."""
    array = vector_column(cell, column)
    if array is not None:
        return array
    spans = zip(column.starts.tolist(), column.lengths.tolist(), column.nulls.tolist(), strict=True)
    return decode_column(cell, [None if null else buffer[start : start + length] for start, length, null in spans])


def _images(event: RowsLogged) -> int:
    return 2 if event.op is Op.UPDATE else 1


def _batch(
    schema: TableSchema, events: Sequence[RowsLogged], counts: Sequence[int], arrays: Sequence[pa.Array]
) -> RowBatch:
    width = len(schema.columns)
    first = events[0]
    arrow = arrow_schema(schema)
    images = [pa.RecordBatch.from_arrays(arrays[i : i + width], schema=arrow) for i in range(0, len(arrays), width)]
    return RowBatch(
        schema=schema,
        op=first.op,
        before=None if first.op is Op.CREATE else images[0],
        after=None if first.op is Op.DELETE else images[-1],
        file=first.file,
        offsets=np.repeat(np.array([event.offset for event in events], np.int64), counts),
        rows=_row_numbers(counts),
        timestamps_ms=np.repeat(np.array([event.timestamp_ms for event in events], np.int64), counts),
        gtids=pa.array([event.gtid for event in events], pa.string()).take(np.repeat(np.arange(len(events)), counts)),
        server_id=first.server_id,
    )


def _row_numbers(counts: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Number the rows of each event from 0."""
    per_event = np.array(counts, np.int64)
    begins = np.cumsum(per_event) - per_event
    return (np.arange(per_event.sum()) - np.repeat(begins, per_event)).astype(np.int32)


def _stopped(events: Sequence[RowsLogged], counts: Sequence[int], error: BadCellError) -> TableStoppedError:
    """Name the event and the row of a value that cannot be carried."""
    event_index = int(np.searchsorted(np.cumsum(counts), error.index, side="right"))
    event = events[event_index]
    row = error.index - sum(counts[:event_index])
    where, cause = f"{_where(event)} row {row}", error.cause
    return TableStoppedError(str(event.table_map.table), error.cell.column.name, where, cause.reason, cause.hint)


def _corrupt(event: RowsLogged, reason: str) -> CorruptLogError:
    return CorruptLogError(
        f"the rows of {event.table_map.table} at {_where(event)} do not decode: {reason}",
        "check the server's disk (mysqlbinlog --verify-binlog-checksum), then copy the table again",
    )


def _where(event: RowsLogged) -> str:
    return f"{event.file}:{event.offset}"
