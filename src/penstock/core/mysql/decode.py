"""From ROWS events to columns.

Many rows go through the lockstep walk and whole-column conversions, few through
the plain decoder, which is also the one that says what is wrong, and that knows
differences of JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from penstock.core.arrow_types import arrow_schema
from penstock.core.changes import Op, RowBatch
from penstock.core.errors import TableStoppedError
from penstock.core.mysql import column_codes as codes
from penstock.core.mysql.bad_values import BadValueError
from penstock.core.mysql.bytes_reader import MalformedError
from penstock.core.mysql.log_items import RowsLogged, TableMap
from penstock.core.mysql.row_layout import RowLayout, row_layout
from penstock.core.mysql.rows_block import RowsBlock, join_rows
from penstock.core.mysql.rows_columns import PADDING, Words, walk_events
from penstock.core.mysql.rows_image import PartialImageError, rows_begin
from penstock.core.mysql.rows_partial import read_partial_rows
from penstock.core.mysql.rows_plain import ArrowArray, BadCellError, PlainColumn, read_rows
from penstock.core.mysql.vectors import ColumnBytes, vector_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.core.tables import TableSchema

BatchKey: TypeAlias = tuple[TableMap, Op, str, int, bool]
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
    has_json: bool


_Raw = TypeVar("_Raw")

_plans: dict[tuple[int, int], _Plan] = {}


def batch_key(event: RowsLogged | RowsBlock) -> BatchKey:
    """Return what the events of one `decode_rows` call must have in common."""
    return event.table_map, event.op, event.file, event.server_id, event.partial


def decode_rows(schema: TableSchema, events: Sequence[RowsLogged | RowsBlock]) -> RowBatch:
    """Decode `events`, at least one and all with the same `batch_key`, into one batch in their order.

    Raises TableStoppedError when the rows are not those of `schema`, lack columns,
    do not decode, or hold a value that cannot be carried; ValueError for events
    that do not belong together or have over 2 GiB.
    """
    size_bytes = _check_together(events)
    block = join_rows(events)
    plan = _plan(schema, events[0])
    begins = _begins(plan.layout, events)
    is_plain = size_bytes <= _PLAIN_BYTES_MAX or (block.partial and plan.has_json)
    counts, arrays = (_decode_plain if is_plain else _decode_columns)(plan, block, begins)
    return _batch(plan, block, counts, arrays)


def _check_together(events: Sequence[RowsLogged | RowsBlock]) -> int:
    """Return how many bytes the events have."""
    first = events[0]
    size_bytes = 0
    for event in events:
        size_bytes += event.size_bytes
        if (
            (event.table_map is not first.table_map and event.table_map != first.table_map)
            or event.op is not first.op
            or event.file != first.file
            or event.server_id != first.server_id
            or event.partial != first.partial
        ):
            message = f"rows of {event.table_map.table} at {_where(event)} do not belong to those at {_where(first)}"
            raise ValueError(message)
    if size_bytes > _BYTES_MAX:
        message = f"rows of over 2 GiB from {_where(first)} on"
        raise ValueError(message)
    return size_bytes


def _plan(schema: TableSchema, event: RowsLogged | RowsBlock) -> _Plan:
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


def _begins(layout: RowLayout, events: Sequence[RowsLogged | RowsBlock]) -> list[int]:
    """Return where in each payload its rows begin, which is the same in a whole block."""
    begins: list[int] = []
    for event in events:
        first, count = (event, 1) if isinstance(event, RowsLogged) else (event[0], len(event))
        begins += [_rows_begin(layout, first)] * count
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


def _decode_plain(plan: _Plan, block: RowsBlock, begins: Sequence[int]) -> Decoded:
    layout, images = plan.layout, _images(block)
    if block.partial:
        return _decode_each(
            plan,
            block,
            begins,
            lambda payload, begin: read_partial_rows(payload, begin, layout),
            PlainColumn.decode_changed,
        )
    return _decode_each(
        plan, block, begins, lambda payload, begin: read_rows(payload, begin, layout, images), PlainColumn.decode
    )


def _decode_each(
    plan: _Plan,
    block: RowsBlock,
    begins: Sequence[int],
    read: Callable[[bytes, int], list[list[_Raw]]],
    decode: Callable[[PlainColumn, Sequence[_Raw]], ArrowArray],
) -> Decoded:
    """Decode value by value: `read` cuts an event, from where its rows begin, into them; `decode` is for a column."""
    counts: list[int] = []
    rows: list[list[_Raw]] = []
    for event, begin in zip(block, begins, strict=True):
        try:
            found = read(event.payload, begin)
        except MalformedError as error:
            raise _undecodable(event, str(error)) from error
        rows += found
        counts.append(len(found))
    readers = plan.plain * _images(block)
    columns: Iterable[Sequence[_Raw]] = zip(*rows, strict=True) if rows else ([] for _ in readers)
    try:
        return counts, [decode(reader, raw) for reader, raw in zip(readers, columns, strict=True)]
    except BadCellError as error:
        raise _stopped(block, counts, error) from error


def _decode_columns(plan: _Plan, block: RowsBlock, begins: Sequence[int]) -> Decoded:
    buffer = b"".join([block.content, PADDING])
    images = _images(block)
    try:
        begins_at = block.starts + np.array(begins, np.int64)
        found = walk_events(buffer, begins_at, block.ends, plan.layout, images, partial=block.partial)
    except (MalformedError, IndexError):
        return _decode_plain(plan, block, begins)
    counts = found.counts.tolist()
    words = Words(buffer)
    columns = [
        ColumnBytes(words, starts, lengths, nulls)
        for starts, lengths, nulls in zip(found.starts, found.lengths, found.nulls, strict=True)
    ]
    try:
        return counts, [_column(plain, buffer, data) for plain, data in zip(plan.plain * images, columns, strict=True)]
    except BadCellError as error:
        raise _stopped(block, counts, error) from error


def _column(plain: PlainColumn, buffer: bytes, column: ColumnBytes) -> ArrowArray:
    """Decode one column fast, or plainly where there is no fast way or a value is wrong."""
    array = vector_column(plain.cell, plain.arrow, column)
    if array is not None:
        return array
    spans = zip(column.starts.tolist(), column.lengths.tolist(), column.nulls.tolist(), strict=True)
    return plain.decode([None if null else buffer[start : start + length] for start, length, null in spans])


def _images(event: RowsLogged | RowsBlock) -> int:
    return 2 if event.op is Op.UPDATE else 1


def _batch(plan: _Plan, block: RowsBlock, counts: Sequence[int], arrays: Sequence[ArrowArray]) -> RowBatch:
    width = len(plan.arrow)
    images = [_image(plan, arrays[i : i + width], block, counts) for i in range(0, len(arrays), width)]
    rows_of = np.array(counts, np.int64)
    event = np.arange(len(block)).repeat(rows_of)
    first = np.cumsum(rows_of) - rows_of
    return RowBatch(
        schema=plan.schema,
        op=block.op,
        before=None if block.op is Op.CREATE else images[0],
        after=None if block.op is Op.DELETE else images[-1],
        file=block.file,
        offsets=block.rows_offsets[event],
        rows=((block.first_rows - first)[event] + np.arange(len(event))).astype(np.int32),
        timestamps_ms=block.timestamps_ms[event],
        gtids=block.gtids if (rows_of == 1).all() else block.gtids.take(event),
        server_id=block.server_id,
    )


def _image(plan: _Plan, arrays: Sequence[ArrowArray], block: RowsBlock, counts: Sequence[int]) -> pa.RecordBatch:
    """Put the columns of one image together. A NULL in a column that has none is a sign of another schema."""
    for plain, array in zip(plan.plain, arrays, strict=True):
        if array.null_count and not plain.cell.column.nullable:
            index = array.is_null().index(True).as_py()
            cause = BadValueError("there is a NULL in a column that is NOT NULL", "copy the table again")
            raise _stopped(block, counts, BadCellError(plain.cell, index, cause))
    return pa.RecordBatch.from_arrays(list(arrays), schema=plan.arrow)


def _stopped(block: RowsBlock, counts: Sequence[int], error: BadCellError) -> TableStoppedError:
    """Name the event and the row of a value that cannot be carried."""
    event_index = int(np.searchsorted(np.cumsum(counts), error.index, side="right"))
    event = block[event_index]
    row = error.index - sum(counts[:event_index])
    where, cause = f"{_where(event)} row {row}", error.cause
    return TableStoppedError(str(event.table_map.table), error.cell.column.name, where, cause.reason, cause.hint)


def _undecodable(event: RowsLogged, reason: str) -> TableStoppedError:
    """Name an event whose bytes are no rows: its checksum was right, so this table's layout is one we do not know."""
    hint = "copy the table again; if it stops again, report this layout as a mistake of ours and leave the table out"
    return TableStoppedError(str(event.table_map.table), "", _where(event), f"its rows do not decode: {reason}", hint)


def _where(event: RowsLogged | RowsBlock) -> str:
    offset = event.offset if isinstance(event, RowsLogged) else event.offsets[0]
    return f"{event.file}:{offset}"
