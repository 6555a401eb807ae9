"""From ROWS events to columns.

Many rows go through the lockstep walk and whole-column conversions, few through
the plain decoder, which is also the one that says what is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.core.arrow_types import arrow_schema
from penstock.core.changes import Op, RowBatch
from penstock.core.errors import TableStoppedError
from penstock.core.mysql.bad_values import BadValueError
from penstock.core.mysql.bytes_reader import MalformedError
from penstock.core.mysql.log_items import RowsLogged, TableMap
from penstock.core.mysql.row_layout import RowLayout, row_layout
from penstock.core.mysql.rows_block import RowsBlock, join_rows
from penstock.core.mysql.rows_columns import PADDING, Words, walk_events
from penstock.core.mysql.rows_image import PartialImageError, rows_begin
from penstock.core.mysql.rows_plain import ArrowArray, BadCellError, PlainColumn, read_rows
from penstock.core.mysql.vectors import ColumnBytes, vector_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.core.tables import TableSchema

BatchKey: TypeAlias = tuple[TableMap, Op, str, int]
Decoded: TypeAlias = tuple[list[int], list[ArrowArray]]
"""The number of rows of each event, and one array per column of each image."""

_PLAIN_BYTES_MAX: Final = 4096
"""With fewer bytes of rows than this the plain decoder is faster (measured)."""
_BYTES_MAX: Final = (1 << 31) - 1 - len(PADDING)
_PLANS_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class _Plan:
    """How to decode rows of one table map as one schema, worked out once."""

    schema: TableSchema
    table_map: TableMap
    layout: RowLayout
    arrow: pa.Schema
    plain: tuple[PlainColumn, ...]


_plans: dict[tuple[int, int], _Plan] = {}


def batch_key(event: RowsLogged | RowsBlock) -> BatchKey:
    """Return what the events of one `decode_rows` call must have in common."""
    return event.table_map, event.op, event.file, event.server_id


def decode_rows(schema: TableSchema, events: Sequence[RowsLogged | RowsBlock]) -> RowBatch:
    """Decode `events`, at least one and all with the same `batch_key`, into one batch in their order.

    Raises TableStoppedError when the rows are not those of `schema`, lack columns,
    do not decode, or hold a value that cannot be carried; ValueError for events
    that do not belong together or have over 2 GiB.
    """
    _check_together(events)
    rows = join_rows(events)
    plan = _plan(schema, rows[0])
    begins = _begins(plan.layout, events)
    decode = _decode_plain if rows.size_bytes <= _PLAIN_BYTES_MAX else _decode_columns
    counts, arrays = decode(plan, rows, begins)
    return _batch(plan, rows, counts, arrays)


def _check_together(events: Sequence[RowsLogged | RowsBlock]) -> None:
    first = events[0]
    size_bytes = 0
    for event in events:
        size_bytes += event.size_bytes
        if (
            (event.table_map is not first.table_map and event.table_map != first.table_map)
            or event.op is not first.op
            or event.file != first.file
            or event.server_id != first.server_id
        ):
            message = f"rows of {event.table_map.table} at {_where(event)} do not belong to those at {_where(first)}"
            raise ValueError(message)
    if size_bytes > _BYTES_MAX:
        message = f"rows of over 2 GiB from {_where(first)} on"
        raise ValueError(message)


def _plan(schema: TableSchema, event: RowsLogged) -> _Plan:
    """Plan once per pair of objects: to compare and hash wide schemas for each batch would cost too much."""
    key = (id(schema), id(event.table_map))
    plan = _plans.get(key)
    if plan is not None and plan.schema is schema and plan.table_map is event.table_map:
        return plan
    layout = row_layout(schema, event.table_map, _where(event))
    plain = tuple(PlainColumn.of(cell) for cell in layout.cells)
    plan = _Plan(schema, event.table_map, layout, arrow_schema(schema), plain)
    if len(_plans) >= _PLANS_MAX:
        _plans.clear()
    _plans[key] = plan
    return plan


def _begins(layout: RowLayout, events: Sequence[RowsLogged | RowsBlock]) -> list[int]:
    """Return where in each payload its rows begin."""
    begins: list[int] = []
    for event in events:
        if isinstance(event, RowsLogged):
            begins.append(_rows_begin(layout, event))
        else:
            begins += [_rows_begin(layout, event[0])] * len(event)
    return begins


def _rows_begin(layout: RowLayout, event: RowsLogged) -> int:
    try:
        return rows_begin(event.payload, layout, _images(event))
    except MalformedError as error:
        raise _undecodable(event, str(error)) from error
    except PartialImageError as error:
        raise TableStoppedError(
            str(event.table_map.table),
            "",
            _where(event),
            "its rows were logged without all of their columns",
            "set binlog_row_image=FULL on the server, for every session, and copy the table again",
        ) from error


def _decode_plain(plan: _Plan, events: RowsBlock, begins: Sequence[int]) -> Decoded:
    counts: list[int] = []
    rows: list[list[bytes | None]] = []
    images = _images(events[0])
    for event, begin in zip(events, begins, strict=True):
        try:
            found = read_rows(event.payload, begin, plan.layout, images)
        except MalformedError as error:
            raise _undecodable(event, str(error)) from error
        rows += found
        counts.append(len(found))
    readers = plan.plain * images
    columns: Iterable[Sequence[bytes | None]] = zip(*rows, strict=True) if rows else ([] for _ in readers)
    try:
        return counts, [reader.decode(raw) for reader, raw in zip(readers, columns, strict=True)]
    except BadCellError as error:
        raise _stopped(events, counts, error) from error


def _decode_columns(plan: _Plan, events: RowsBlock, begins: Sequence[int]) -> Decoded:
    buffer = b"".join([events.content, PADDING])
    images = _images(events[0])
    try:
        found = walk_events(buffer, events.starts + np.array(begins, np.int64), events.ends, plan.layout, images)
    except (MalformedError, IndexError):
        return _decode_plain(plan, events, begins)
    counts = found.counts.tolist()
    words = Words(buffer)
    columns = [
        ColumnBytes(words, starts, lengths, nulls)
        for starts, lengths, nulls in zip(found.starts, found.lengths, found.nulls, strict=True)
    ]
    try:
        return counts, [_column(plain, buffer, data) for plain, data in zip(plan.plain * images, columns, strict=True)]
    except BadCellError as error:
        raise _stopped(events, counts, error) from error


def _column(plain: PlainColumn, buffer: bytes, column: ColumnBytes) -> ArrowArray:
    """Decode one column fast, or plainly where there is no fast way or a value is wrong."""
    array = vector_column(plain.cell, plain.arrow, column)
    if array is not None:
        return array
    spans = zip(column.starts.tolist(), column.lengths.tolist(), column.nulls.tolist(), strict=True)
    return plain.decode([None if null else buffer[start : start + length] for start, length, null in spans])


def _images(event: RowsLogged) -> int:
    return 2 if event.op is Op.UPDATE else 1


def _batch(plan: _Plan, events: RowsBlock, counts: Sequence[int], arrays: Sequence[ArrowArray]) -> RowBatch:
    width = len(plan.arrow)
    images = [_image(plan, arrays[i : i + width], events, counts) for i in range(0, len(arrays), width)]
    event = np.arange(len(events)).repeat(counts)
    first = np.cumsum(counts) - counts
    return RowBatch(
        schema=plan.schema,
        op=events.op,
        before=None if events.op is Op.CREATE else images[0],
        after=None if events.op is Op.DELETE else images[-1],
        file=events.file,
        offsets=events.rows_offsets[event],
        rows=(events.first_rows[event] + np.arange(len(event)) - first[event]).astype(np.int32),
        timestamps_ms=events.timestamps_ms[event],
        gtids=events.gtids.take(event),
        server_id=events.server_id,
    )


def _image(plan: _Plan, arrays: Sequence[ArrowArray], events: RowsBlock, counts: Sequence[int]) -> pa.RecordBatch:
    """Put the columns of one image together. A NULL in a column that has none is a sign of another schema."""
    for plain, array in zip(plan.plain, arrays, strict=True):
        if array.null_count and not plain.cell.column.nullable:
            index = array.is_null().index(True).as_py()
            cause = BadValueError("there is a NULL in a column that is NOT NULL", "copy the table again")
            raise _stopped(events, counts, BadCellError(plain.cell, index, cause))
    return pa.RecordBatch.from_arrays(list(arrays), schema=plan.arrow)


def _stopped(events: RowsBlock, counts: Sequence[int], error: BadCellError) -> TableStoppedError:
    """Name the event and the row of a value that cannot be carried."""
    event_index = int(np.searchsorted(np.cumsum(counts), error.index, side="right"))
    event = events[event_index]
    row = error.index - sum(counts[:event_index])
    where, cause = f"{_where(event)} row {row}", error.cause
    return TableStoppedError(str(event.table_map.table), error.cell.column.name, where, cause.reason, cause.hint)


def _undecodable(event: RowsLogged, reason: str) -> TableStoppedError:
    """Name an event whose bytes are no rows: its checksum was right, so this table's layout is one we do not know."""
    hint = "copy the table again; if it stops again, report this layout as a mistake of ours and leave the table out"
    return TableStoppedError(str(event.table_map.table), "", _where(event), f"its rows do not decode: {reason}", hint)


def _where(event: RowsLogged | RowsBlock) -> str:
    first = event if isinstance(event, RowsLogged) else event[0]
    return f"{first.file}:{first.offset}"
