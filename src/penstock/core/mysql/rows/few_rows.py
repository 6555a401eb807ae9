"""A few rows, from their bytes in the log straight to the bytes of their messages.

To make columns of a few rows costs more than the rows themselves, and the live
tail publishes a few rows many times a second. So there is this shorter way, with
one function per column that takes a value from one form to the other. It knows
only whole rows that keep their key and have nothing wrong with them. All others
are left to `core.mysql.rows.decode` and `core.avro.envelope_encode`, which are the
reference, and which say what is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.core.avro.envelope_encode import EncodableTable, envelope_end, source_front, source_names
from penstock.core.avro.value_bytes import NOT_NULL, NULL, optional_text, sized_text, value_encoder
from penstock.core.avro.varints import varint
from penstock.core.avro.wire import frame
from penstock.core.changes import Messages, Op
from penstock.core.errors import TableStoppedError
from penstock.core.key_changes import order_of_one
from penstock.core.mysql.rows.rows_image import read_images
from penstock.core.mysql.types.bytes_reader import MalformedError
from penstock.core.mysql.types.logged_rows import RowsLogged, TableMap
from penstock.core.mysql.types.packed_values import packed_integer
from penstock.core.mysql.types.row_layout import row_layout
from penstock.core.mysql.types.values import value_reader
from penstock.core.tables import DecimalType, FloatType, IntegerType, TextType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.core.mysql.rows.rows_block import RowsBlock
    from penstock.core.mysql.types.row_layout import Cell
    from penstock.core.tables import Column

_BYTES_MAX: Final = 16 << 10
"""With more bytes of rows of one table than this, columns are faster (measured)."""
_PLANS_MAX: Final = 1000

CellEncoder: TypeAlias = "Callable[[bytes], bytes]"
_PlanKey: TypeAlias = tuple[int, int, Op, bytes, str, int]


class _UnusualError(ValueError):
    """A row that the reference must judge."""


class FewRows:
    """Encodes rows a few at a time. What it works out about a table's rows it keeps."""

    def __init__(self) -> None:
        """Know no table yet."""
        self._plans: dict[_PlanKey, tuple[EncodableTable, TableMap, _Plan | None]] = {}

    def encode(
        self, table: EncodableTable, topic: str, events: Sequence[RowsLogged | RowsBlock], processed_at_ms: int
    ) -> Messages | None:
        """Return the messages of all rows of `events`, which are of `table`, in their order.

        None if there are many rows, or anything is unusual about one of them.
        """
        if sum([event.size_bytes for event in events]) > _BYTES_MAX:
            return None
        found = _Found(processed_at_ms, {}, [], [], [])
        plan: _Plan | None = None
        try:
            for event in events:
                if not isinstance(event, RowsLogged) or event.partial:
                    return None
                if plan is None or not plan.suits(event):
                    plan = self._plan(table, event)
                if plan is None:
                    return None
                plan.encode(event, found)
        except ValueError:
            return None
        return Messages(topic, found.keys, found.values, found.order)

    def _plan(self, table: EncodableTable, event: RowsLogged) -> _Plan | None:
        """Plan once per pair of objects: to compare and hash wide tables for each event would cost too much."""
        key = (id(table), id(event.table_map), event.op, event.front, event.file, event.server_id)
        known = self._plans.get(key)
        if known is None or known[0] is not table or known[1] is not event.table_map:
            if len(self._plans) >= _PLANS_MAX:
                self._plans.clear()
            known = self._plans[key] = (table, event.table_map, _make_plan(table, event))
        return known[2]


@dataclass(frozen=True, slots=True)
class _Found:
    """What goes into the messages so far, and the ends of envelopes of each op."""

    processed_at_ms: int
    ends: dict[Op, bytes]
    keys: list[bytes | None]
    values: list[bytes]
    order: list[int]
    times: dict[int, bytes] = field(default_factory=dict)

    def encode_time(self, timestamp_ms: int) -> bytes:
        """Encode a commit time: most transactions of a publication have the same, to the second, or to the moment."""
        time = self.times.get(timestamp_ms)
        if time is None:
            time = self.times[timestamp_ms] = varint(timestamp_ms)
        return time


@dataclass(frozen=True, slots=True)
class _Plan:
    """How to encode the rows of events that are like `event` but for their place.

    `cells` are those of each image: the bytes of the value's length, or those of the
    value itself, how to encode it, and how to encode NULL (None where there may be none).
    `key` has the places of the key's columns, and `key_front` what stands before them.
    `fronts` are the bytes before the cells of each image. Behind the last, `source`
    and `names` are before the time and the GTID, `file` behind it.
    """

    table: EncodableTable
    event: RowsLogged
    op: Op
    front: bytes
    begin: int
    null_bytes: int
    cells: tuple[tuple[int, int, CellEncoder, bytes | None], ...]
    key: tuple[int, ...]
    key_front: bytes | None
    fronts: tuple[bytes, ...]
    source: bytes
    names: bytes
    file: bytes

    def suits(self, event: RowsLogged) -> bool:
        """Whether an event of the same table is alike."""
        mine = self.event
        return (
            event.table_map is mine.table_map
            and event.op is mine.op
            and event.server_id == mine.server_id
            and event.file == mine.file
            and event.payload.startswith(self.front)
        )

    def encode(self, event: RowsLogged, found: _Found) -> None:
        """Add the messages of one event; ValueError if a row has to be left to the reference."""
        payload, at, end = event.payload, self.begin, len(event.payload)
        offset, row = event.rows_offset, event.first_row
        gtid, time = optional_text(event.gtid), found.encode_time(event.timestamp_ms)
        before_row = b"".join([self.source, time, self.names, gtid, self.file, varint(offset)])
        behind_row = self._end(event, found)
        while at < end:
            pieces: list[bytes] = []
            key: list[bytes] = []
            for front in self.fronts:
                pieces.append(front)
                first = len(pieces)
                at = self._image(payload, at, end, pieces)
                key_before, key = key, [pieces[first + index] for index in self.key]
                if key_before and key_before != key:
                    raise _UnusualError
            order = order_of_one(self.op, offset, row)
            if order is None:
                raise _UnusualError
            pieces += before_row, varint(row), behind_row
            found.keys.append(None if self.key_front is None else self.key_front + b"".join(key))
            found.values.append(b"".join(pieces))
            found.order.append(order)
            row += 1

    def _end(self, event: RowsLogged, found: _Found) -> bytes:
        """Encode what stands behind the place of a row: mostly the same for all of a publication."""
        if self.table.repeatable:
            return envelope_end(self.table, self.op, event.timestamp_ms)
        end = found.ends.get(self.op)
        if end is None:
            end = found.ends[self.op] = envelope_end(self.table, self.op, found.processed_at_ms)
        return end

    def _image(self, payload: bytes, at: int, end: int, pieces: list[bytes]) -> int:
        """Encode the row image at `at`, and return where it ends."""
        nulls = int.from_bytes(payload[at : at + self.null_bytes], "little")
        at += self.null_bytes
        for length_bytes, fixed_bytes, encode, null in self.cells:
            if nulls & 1:
                if null is None:
                    raise _UnusualError
                pieces.append(null)
            else:
                begin = at + length_bytes
                at = begin + (fixed_bytes or int.from_bytes(payload[at:begin], "little"))
                if at > end:
                    raise _UnusualError
                pieces.append(encode(payload[begin:at]))
            nulls >>= 1
        return at


def _make_plan(table: EncodableTable, event: RowsLogged) -> _Plan | None:
    """Plan; None for rows that are not what the table's schema says, or that lack columns."""
    schema, op = table.schema, event.op
    try:
        images = read_images(event.payload, row_layout(schema, event.table_map, ""), 2 if op is Op.UPDATE else 1)
    except (TableStoppedError, MalformedError):
        return None
    nullable = {column.name: column.nullable for column in schema.columns}
    columns = schema.image_columns
    places = {column.name: index for index, column in enumerate(columns)}
    key = [columns[places[name]] for name in schema.key]
    # A float is not the same in the key where it is -0.0.
    is_same_in_key = all(
        column.nullable == nullable[column.name] and not isinstance(column.type, FloatType) for column in key
    )
    if not images.are_whole(len(columns)) or not is_same_in_key:
        return None
    value_front = frame(table.value_schema_id)
    row = images.layouts[0]
    return _Plan(
        table=table,
        event=event,
        op=op,
        front=event.front,
        begin=images.begin,
        null_bytes=row.null_bytes,
        cells=tuple(
            (cell.length_bytes, cell.fixed_bytes, _encoder(cell, column), NULL if cell.column.nullable else None)
            for cell, column in zip(row.cells, columns, strict=True)
        ),
        key=tuple(places[name] for name in schema.key),
        key_front=None if table.key_schema_id is None else frame(table.key_schema_id),
        fronts=_fronts(op, value_front),
        source=(NULL if op is Op.DELETE else b"") + source_front(table),
        names=source_names(table, event.server_id),
        file=sized_text(event.file),
    )


def _fronts(op: Op, value_front: bytes) -> tuple[bytes, ...]:
    """Return what stands before each image: which of the two there are."""
    if op is Op.UPDATE:
        return value_front + NOT_NULL, NOT_NULL
    return (value_front + (NOT_NULL if op is Op.DELETE else NULL + NOT_NULL),)


def _encoder(cell: Cell, column: Column) -> CellEncoder:
    """Return the function from the bytes of a value in the log to those in a message."""
    there = NOT_NULL if column.nullable else b""
    # The usual ones in one step.
    match column.type:
        case IntegerType(unsigned=False) if not cell.compressed:
            return lambda raw: there + varint(int.from_bytes(raw, "little", signed=True))
        case TextType(charset="utf8mb4") if not cell.compressed:
            return lambda raw: there + _sized_utf8(raw)
        case _:
            return _encoder_by_value(cell, column, there)


def _sized_utf8(raw: bytes) -> bytes:
    """Return text as Avro's string; ValueError if it is none."""
    raw.decode()
    return varint(len(raw)) + raw


def _encoder_by_value(cell: Cell, column: Column, there: bytes) -> CellEncoder:
    read, write = _integer_reader(cell) or value_reader(cell), value_encoder(column.type)

    def encode(raw: bytes) -> bytes:
        value = read(raw)
        if value is not None:
            return there + write(value)
        if cell.column.nullable:
            return NULL
        raise _UnusualError

    return encode


def _integer_reader(cell: Cell) -> Callable[[bytes], int] | None:
    """Return the function that reads a decimal without its point; None for any other type."""
    match cell.column.type:
        case DecimalType(precision, scale):
            return lambda raw: packed_integer(raw, precision, scale)
        case _:
            return None
