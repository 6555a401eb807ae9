"""From ROWS events to columns.

Many rows go through the lockstep walk and whole-column conversions, few through
the plain decoder, which is also the one that says what is wrong, and that knows
differences of JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import numpy as np

from penstock.core.arrow_types import arrow_schema
from penstock.core.changes import Op, RowBatch
from penstock.core.errors import START_ANEW, TableStoppedError
from penstock.core.mysql.rows.rows_block import RowsBlock, join_rows
from penstock.core.mysql.rows.rows_columns import PADDING, WordViews, walk_events
from penstock.core.mysql.rows.rows_image import RowImages, read_images
from penstock.core.mysql.rows.rows_lacking import find_lacking, put_together
from penstock.core.mysql.rows.rows_partial import LackingDocumentError, read_partial_rows
from penstock.core.mysql.rows.rows_plain import ArrowArray, BadCellError, PlainColumn, read_rows
from penstock.core.mysql.rows.vectors import ColumnBytes, vector_column
from penstock.core.mysql.types import column_codes as codes
from penstock.core.mysql.types.bad_values import BadValueError
from penstock.core.mysql.types.bytes_reader import MalformedError
from penstock.core.mysql.types.logged_rows import RowsLogged, TableMap
from penstock.core.mysql.types.row_layout import RowLayout, row_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from penstock.core.mysql.rows.rows_lacking import Lacking
    from penstock.core.tables import TableSchema

BatchKey: TypeAlias = tuple[TableMap, Op, str, int, bool, bool, bytes]
Decoded: TypeAlias = tuple[list[int], list[ArrowArray]]
"""The number of rows of each event, and one array per cell of each image."""

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
    has_json: bool
    images: dict[tuple[bool, bytes], RowImages] = field(default_factory=dict)


_Raw = TypeVar("_Raw")

_plans: dict[tuple[int, int], _Plan] = {}


def batch_key(event: RowsLogged | RowsBlock) -> BatchKey:
    """Return what the events of one `decode_rows` call must have in common."""
    return event.table_map, event.op, event.file, event.server_id, event.partial, event.cascades_logged, event.front


def decode_rows(schema: TableSchema, events: Sequence[RowsLogged | RowsBlock]) -> RowBatch:
    """Decode `events`, at least one and all with the same `batch_key`, into one batch in their order.

    Raises TableStoppedError when the rows are not those of `schema`, lack columns,
    do not decode, or hold a value that cannot be carried; ValueError for events
    that do not belong together or have over 2 GiB.
    """
    size_bytes = _check_together(events)
    block = join_rows(events)
    first = block[0]
    plan = _plan(schema, first)
    images = _read_images(plan, first)
    lacking = find_lacking(schema, first.op, images.known, _where(first))
    is_plain = size_bytes <= _PLAIN_BYTES_MAX or (first.partial and plan.has_json)
    decode = _decode_plain if is_plain else _decode_columns
    counts, arrays = decode(plan, block, images)
    _require_not_null(plan, block, images, counts, arrays)
    rows = put_together(schema, plan.arrow, images.columns, arrays)
    return _batch(plan, block, counts, rows, lacking)


def _check_together(events: Sequence[RowsLogged | RowsBlock]) -> int:
    """Return how many bytes the events have."""
    first, front = events[0], events[0].front
    size_bytes = 0
    for event in events:
        size_bytes += event.size_bytes
        if (
            (event.table_map is not first.table_map and event.table_map != first.table_map)
            or event.op is not first.op
            or event.file != first.file
            or event.server_id != first.server_id
            or event.partial != first.partial
            or event.cascades_logged != first.cascades_logged
            or event.front != front
        ):
            message = f"rows of {event.table_map.table} at {_where(event)} do not belong to those at {_where(first)}"
            raise ValueError(message)
    if size_bytes > _BYTES_MAX:
        message = f"rows of over 2 GiB from {_where(first)} on"
        raise ValueError(message)
    return size_bytes


def _plan(schema: TableSchema, event: RowsLogged) -> _Plan:
    """Plan once per pair of objects: to compare and hash wide schemas for each batch would cost too much."""
    key = (id(schema), id(event.table_map))
    plan = _plans.get(key)
    if plan is not None and plan.schema is schema and plan.table_map is event.table_map:
        return plan
    layout = row_layout(schema, event.table_map, _where(event))
    plain = tuple(PlainColumn.of(cell) for cell in layout.cells)
    has_json = any(cell.code == codes.JSON for cell in layout.cells)
    plan = _Plan(schema, event.table_map, layout, arrow_schema(schema), plain, has_json)
    if len(_plans) >= _PLANS_MAX:
        _plans.clear()
    _plans[key] = plan
    return plan


def _read_images(plan: _Plan, event: RowsLogged) -> RowImages:
    is_update = event.op is Op.UPDATE
    # The front of an update that is cut short may be that of an insert.
    key = (is_update, event.front)
    images = plan.images.get(key)
    if images is None:
        try:
            images = read_images(event.payload, plan.layout, 2 if is_update else 1)
        except MalformedError as error:
            raise _undecodable(event, str(error)) from error
        if len(plan.images) >= _PLANS_MAX:
            plan.images.clear()
        plan.images[key] = images
    return images


def _decode_plain(plan: _Plan, block: RowsBlock, images: RowImages) -> Decoded:
    if block.partial:
        layout = plan.layout
        return _decode_each(
            plan,
            block,
            images,
            lambda payload: read_partial_rows(payload, images, layout),
            PlainColumn.decode_changed,
        )
    return _decode_each(plan, block, images, lambda payload: read_rows(payload, images), PlainColumn.decode)


def _decode_each(
    plan: _Plan,
    block: RowsBlock,
    images: RowImages,
    read: Callable[[bytes], list[list[_Raw]]],
    decode: Callable[[PlainColumn, Sequence[_Raw]], ArrowArray],
) -> Decoded:
    """Decode value by value: `read` cuts an event into them, `decode` is for a column."""
    counts: list[int] = []
    rows: list[list[_Raw]] = []
    for event in block:
        try:
            found = read(event.payload)
        except MalformedError as error:
            raise _undecodable(event, str(error)) from error
        except LackingDocumentError as error:
            raise _without_document(event, error) from error
        rows += found
        counts.append(len(found))
    readers = _readers(plan, images)
    columns: Iterable[Sequence[_Raw]] = zip(*rows, strict=True) if rows else ([] for _ in readers)
    try:
        return counts, [decode(reader, raw) for reader, raw in zip(readers, columns, strict=True)]
    except BadCellError as error:
        raise _stopped(block, counts, error) from error


def _decode_columns(plan: _Plan, block: RowsBlock, images: RowImages) -> Decoded:
    buffer = b"".join([block.content, PADDING])
    try:
        begins = block.starts + images.begin
        found = walk_events(buffer, begins, block.ends, images.layouts, partial=block.partial)
    except (MalformedError, IndexError):
        return _decode_plain(plan, block, images)
    counts = found.counts.tolist()
    words = WordViews(buffer)
    columns = [
        ColumnBytes(words, starts, lengths, nulls)
        for starts, lengths, nulls in zip(found.starts, found.lengths, found.nulls, strict=True)
    ]
    try:
        readers = _readers(plan, images)
        return counts, [_column(plain, buffer, data) for plain, data in zip(readers, columns, strict=True)]
    except BadCellError as error:
        raise _stopped(block, counts, error) from error


def _column(plain: PlainColumn, buffer: bytes, column: ColumnBytes) -> ArrowArray:
    """Decode one column fast, or plainly where there is no fast way or a value is wrong."""
    array = vector_column(plain.cell, plain.arrow, column)
    if array is not None:
        return array
    spans = zip(column.starts.tolist(), column.lengths.tolist(), column.nulls.tolist(), strict=True)
    return plain.decode([None if null else buffer[start : start + length] for start, length, null in spans])


def _readers(plan: _Plan, images: RowImages) -> list[PlainColumn]:
    return [plan.plain[index] for present in images.columns for index in present]


def _batch(
    plan: _Plan, block: RowsBlock, counts: Sequence[int], rows: Sequence[pa.RecordBatch], lacking: Lacking
) -> RowBatch:
    schema, row_counts = plan.schema, np.array(counts, np.int64)
    event = np.arange(len(block)).repeat(row_counts)
    before = np.cumsum(row_counts) - row_counts
    return RowBatch(
        schema=schema,
        op=block.op,
        before=None if block.op in {Op.CREATE, Op.READ} else rows[0],
        after=None if block.op is Op.DELETE else rows[-1],
        file=block.file,
        offsets=block.rows_offsets[event],
        rows=((block.first_rows - before)[event] + np.arange(len(event))).astype(np.int32),
        timestamps_ms=block.timestamps_ms[event],
        gtids=block.gtids if (row_counts == 1).all() else block.gtids.take(event),
        server_id=block.server_id,
        before_lacks=tuple(schema.columns[index].name for index in lacking.before),
        after_lacks=tuple(schema.columns[index].name for index in lacking.after),
    )


def _require_not_null(
    plan: _Plan, block: RowsBlock, images: RowImages, counts: Sequence[int], arrays: Sequence[ArrowArray]
) -> None:
    """Stop the table at a NULL in a column that has none: it is a sign of another schema."""
    for plain, array in zip(_readers(plan, images), arrays, strict=True):
        if array.null_count and not plain.cell.column.nullable:
            index = array.is_null().index(True).as_py()
            cause = BadValueError("there is a NULL in a column that is NOT NULL", START_ANEW)
            raise _stopped(block, counts, BadCellError(plain.cell, index, cause))


def _stopped(block: RowsBlock, counts: Sequence[int], error: BadCellError) -> TableStoppedError:
    """Name the event and the row of a value that cannot be carried."""
    event_index = int(np.searchsorted(np.cumsum(counts), error.index, side="right"))
    event = block[event_index]
    row = error.index - sum(counts[:event_index])
    where, cause = f"{_where(event)} row {row}", error.cause
    return TableStoppedError(str(event.table_map.table), error.cell.column.name, where, cause.reason, cause.hint)


def _undecodable(event: RowsLogged, reason: str) -> TableStoppedError:
    """Name an event whose bytes are no rows: its checksum was right, so this table's layout is one we do not know."""
    hint = f"{START_ANEW}; if it stops again, report this layout as a defect and leave the table out"
    return TableStoppedError(str(event.table_map.table), "", _where(event), f"its rows do not decode: {reason}", hint)


def _without_document(event: RowsLogged, error: LackingDocumentError) -> TableStoppedError:
    """Name an event that only whoever has the row could read."""
    reason = "a JSON document was logged as differences, without the document from before"
    hint = f"set binlog_row_image=FULL, or binlog_row_value_options='', for every session, and {START_ANEW}"
    return TableStoppedError(str(event.table_map.table), error.cell.column.name, _where(event), reason, hint)


def _where(event: RowsLogged | RowsBlock) -> str:
    offset = event.offset if isinstance(event, RowsLogged) else event.offsets[0]
    return f"{event.file}:{offset}"
