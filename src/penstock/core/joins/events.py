"""Changes of an input as the join's events: which row, under which join key, and what is kept of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import CorruptLogError
from penstock.core.joins.keys import key_bytes
from penstock.core.joins.rows import encode_stored, find_seen, join_key_values, key_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from penstock.core.avro.arrays import ArrowArray, Flags, Integers
    from penstock.core.joins.plan import JoinPlan
    from penstock.core.positions import Order

UPSERT: Final = 1
DELETE: Final = 2
TRUNCATE: Final = 3

_FIELDS: Final[Sequence[pa.Field[Any]]] = (
    pa.field("input", pa.uint8(), nullable=False),
    pa.field("op", pa.uint8(), nullable=False),
    pa.field("part", pa.int32(), nullable=False),
    pa.field("position", pa.int64(), nullable=False),
    pa.field("place", pa.int64(), nullable=False),
    pa.field("place_row", pa.int32(), nullable=False),
    pa.field("join_key", pa.binary(), nullable=False),
    pa.field("row_key", pa.binary(), nullable=False),
    pa.field("row", pa.binary(), nullable=False),
)
SCHEMA: Final = pa.schema(_FIELDS)
"""`position` rises strictly within (input, part); `place` and `place_row` are where in its source's log it stands."""

ANNOUNCED_PART: Final = 2**31 - 1
"""The part of what was announced, of which no topic has so many."""

_BEHIND_ALL: Final = (2**63 - 1, 2**31 - 1)
"""The place of what stands at none in its source's log: behind all that does."""

_TIMELINE_BITS, _FILE_BITS, _OFFSET_BITS = 6, 20, 37
_ORDER_FILE_BITS = 32


@dataclass(frozen=True, slots=True)
class Changed:
    """n rows of one message schema, those of deletes as they last were.

    `offsets` are those in the Kafka `partition`, `orders` in the source's log: (file
    number with its timeline, offset, row), int64[n, 3].
    """

    rows: pa.RecordBatch
    is_deleted: Flags
    partition: int
    offsets: Integers
    orders: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Marks:
    """Where each of n events stands: the columns of SCHEMA that say so."""

    part: ArrowArray
    position: ArrowArray
    place: ArrowArray
    place_row: ArrowArray


def row_events(plan: JoinPlan, index: int, changed: Changed) -> pa.RecordBatch:
    """The events of changes of the input `index`, whose rows are whole. Raises as `whole_events`."""
    return whole_events(plan, index, changed.rows, changed.is_deleted, marks_of(changed))


def marks_of(changed: Changed) -> Marks:
    """Where changes stand. Raises CorruptLogError for places that a join cannot order."""
    return Marks(
        pa.array(np.full(changed.rows.num_rows, changed.partition, np.int32)),
        pa.array(changed.offsets),
        pa.array(_places(changed.orders)),
        pa.array(changed.orders[:, 2].astype(np.int32)),
    )


def whole_events(plan: JoinPlan, index: int, rows: pa.RecordBatch, is_deleted: Flags, marks: Marks) -> pa.RecordBatch:
    """The events of rows of the input `index`.

    A row with a null in its join key joins with nothing, as if deleted, or under a join
    key of its own where the input `keeps_nulls`. One that the input's condition does
    not hold for is as if deleted.

    Raises PenstockError for rows that the plan does not fit any more.
    """
    given = plan.inputs[index]
    join_key: Any = key_bytes(join_key_values(given, rows))
    row_key: Any = key_bytes(key_values(given, given.row_key, rows))
    if given.keeps_nulls:
        # Other join keys begin with a digit.
        alone: Any = pc.binary_join_element_wise(pa.scalar(b"\0"), row_key, pa.scalar(b"", pa.binary()))
        join_key = pc.if_else(pc.is_null(join_key), alone, join_key)
    is_gone: Any = pc.or_(pa.array(is_deleted), pc.is_null(join_key))
    if given.where:
        is_gone = pc.or_(is_gone, pa.array(~find_seen(given, rows)))
    nothing = pa.scalar(b"", pa.binary())
    stored = pc.if_else(is_gone, nothing, encode_stored(given, rows))
    blobs: Sequence[Any] = (pc.fill_null(join_key, nothing), row_key, stored)
    return event_batch(index, np.asarray(is_gone), marks, blobs)


def event_batch(index: int, is_gone: Flags, marks: Marks, blobs: Sequence[ArrowArray]) -> pa.RecordBatch:
    """Events of an input; `blobs` are their join keys, row keys and rows."""
    op = np.where(is_gone, DELETE, UPSERT).astype(np.uint8)
    places = (marks.part, marks.position, marks.place, marks.place_row)
    columns = [pa.array(np.full(len(op), index, np.uint8)), pa.array(op), *places, *blobs]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def tombstone_events(
    plan: JoinPlan, index: int, keys: pa.RecordBatch, partition: int, offsets: Integers
) -> pa.RecordBatch:
    """The events of tombstones, which say that rows of the input `index` are gone, and nothing of them but `keys`.

    They do not say where in the source's log that was. All messages of a row are in one
    partition, so a row that comes back stands behind them there; and whether a truncate
    stands before or behind them, the row is gone. So their place may be behind all others.
    """
    given, count = plan.inputs[index], keys.num_rows
    # Where the key does not tell the join key, it is known by what the row was before, as with any delete.
    tells = not (given.remembered or given.is_partial)
    nothing: Any = pa.array([b""] * count, pa.binary())
    join_key = key_bytes(join_key_values(given, keys)) if tells else nothing
    place, place_row = _BEHIND_ALL
    marks = Marks(
        pa.array(np.full(count, partition, np.int32)),
        pa.array(offsets),
        pa.array(np.full(count, place, np.int64)),
        pa.array(np.full(count, place_row, np.int32)),
    )
    blobs = [join_key, key_bytes(key_values(given, given.row_key, keys)), nothing]
    return event_batch(index, np.ones(count, np.bool_), marks, blobs)


def truncate_event(index: int, offset: int, order: Order) -> pa.RecordBatch:
    """The event that takes all rows of an input before a place in its source's log, announced at `offset`."""
    (place,) = _places(np.array([order], np.int64)).tolist()
    values = (index, TRUNCATE, ANNOUNCED_PART, offset, place, order[2], b"", b"", b"")
    columns = [pa.array([value], field.type) for value, field in zip(values, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _places(orders: npt.NDArray[np.int64]) -> Integers:
    """One number for each order (file number with its timeline, offset, row; int64[n, 3]), which sorts events of a log.

    Rows of one event have the same. Raises CorruptLogError for places beyond 64 timelines,
    1,048,576 files or 128 GiB in a file.
    """
    timeline, file, offset = orders[:, 0] >> _ORDER_FILE_BITS, orders[:, 0] & (2**_ORDER_FILE_BITS - 1), orders[:, 1]
    for values, bits in ((timeline, _TIMELINE_BITS), (file, _FILE_BITS), (offset, _OFFSET_BITS)):
        if len(values) and (int(values.max()) >> bits or int(values.min()) < 0):
            message = f"a position in a source's log is beyond what a join can order: {orders.max(axis=0).tolist()}"
            raise CorruptLogError(message, "report it; without this input the join goes on")
    places: Integers = (timeline << (_FILE_BITS + _OFFSET_BITS)) | (file << _OFFSET_BITS) | offset
    return places
