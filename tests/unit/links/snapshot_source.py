"""A table under live writes, its log, and a reader of its rows: everything in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.core.arrow_types import arrow_schema
from penstock.core.changes import Op, RowBatch
from penstock.core.errors import UnavailableError, UsageError
from penstock.core.positions import BinlogPosition
from penstock.core.snapshots import Method, Reread, SnapshotOptions
from penstock.core.tables import Column, IntegerType, TableId, TableSchema
from penstock.ports.snapshots import Chunk, ChunkOrder, Definition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.core.positions import Position

TABLE = TableId("shop", "orders")
_INTEGER = IntegerType(32, unsigned=False)
_COLUMNS = (Column("id", _INTEGER, nullable=False), Column("n", _INTEGER, nullable=True))
SCHEMA = TableSchema(TABLE, _COLUMNS, ("id",), partial_rows=True)
_BYTES_EACH = 100


@dataclass(frozen=True, slots=True)
class Change:
    op: Op
    key: int
    value: int | None
    """None for an update that the log has without it."""
    copied_by: str = ""
    """The blackhole snapshot that had the row copied into the log."""


class Source:
    """A table, how it was at every place of the log, and the log: transactions of some changes each."""

    def __init__(self, rows: Mapping[int, int]) -> None:
        self.rows = dict(rows)
        self.log: list[list[Change]] = []
        self.states = [dict(rows)]
        self.rereads: dict[int, Reread] = {}
        """What is to be read again because of transactions of these indices."""
        self.is_locked = False

    def write(self, writes: Mapping[int, int | None]) -> None:
        """Commit values for keys, None for those that go."""
        changes = []
        for key, value in writes.items():
            if value is None and key in self.rows:
                changes.append(Change(Op.DELETE, key, self.rows.pop(key)))
            elif value is not None:
                changes.append(Change(Op.UPDATE if key in self.rows else Op.CREATE, key, value))
                self.rows[key] = value
        self.log.append(changes)
        self.states.append(dict(self.rows))

    def touch(self, keys: Iterable[int]) -> None:
        """Commit updates that leave values as they are, and that are logged without them."""
        self.log.append([Change(Op.UPDATE, key, None) for key in keys if key in self.rows])
        self.states.append(dict(self.rows))

    def cascade(self, writes: Mapping[int, int | None]) -> None:
        """Commit values for keys that there are, None for those that go, without a word of it in the log."""
        reread = Reread()
        for key, value in writes.items():
            if key in self.rows and value is None:
                del self.rows[key]
                reread |= Reread(gone=True)
            elif key in self.rows and value is not None:
                self.rows[key] = value
                reread |= Reread((f"n = {value}",))
        if reread != Reread():
            self.rereads[len(self.log)] = reread
        self.log.append([])
        self.states.append(dict(self.rows))

    def copy(self, rows: Mapping[int, int], snapshot_id: str) -> None:
        """Have the log say how rows are that stay as they are."""
        self.log.append([Change(Op.READ, key, value, snapshot_id) for key, value in rows.items()])
        self.states.append(dict(self.rows))

    def at(self, index: int) -> BinlogPosition:
        """The place before the transaction of this index."""
        return BinlogPosition("binlog.000001", 4 + index * _BYTES_EACH)


def index_of(position: Position) -> int:
    return (position.order[1] - 4) // _BYTES_EACH


class Reader:
    """A `RowReader` of the source as it is when it reads; it may fail before it does."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.failures = 0
        self.late: UnavailableError | None = None
        """What chunks wait for."""
        self.rows_fitting = 1000
        """How many rows fit into memory."""
        self.is_reordered = False
        """Whether cursors say nothing any more to whoever reads next."""
        self._holds = False
        self._rest: list[tuple[int, int]] | None = None

    def read(self, order: ChunkOrder) -> Chunk:
        if self.failures:
            self.failures -= 1
            message = "the source is away"
            raise UnavailableError(message, "try again")
        if self.late is not None:
            return Chunk(None, None, order.low, order.cursor, waits=self.late)
        if order.options.method is Method.FULL_LOCK:
            return self._read_locked(order)
        rows, count = self._source.rows, min(order.options.chunk_rows, self.rows_fitting)
        high = self._source.at(len(self._source.log))
        assert high.order >= order.low.order
        if order.options.keys:
            start = int(order.cursor or 0)
            asked = [int(key) for key in order.options.keys[start : start + count]]
            there = {key: rows[key] for key in asked if key in rows}
            gone = {key: 0 for key in asked if key not in rows}
            cursor = str(start + count) if start + count < len(order.options.keys) else None
            return Chunk(batch_of(Op.READ, there), batch_of(Op.DELETE, gone), high, cursor)
        if self.is_reordered and order.cursor and order.options.method is Method.READ_ONLY:
            self.is_reordered = False
            return Chunk(None, None, high, None, begins_again=True)
        values = [int(part.removeprefix("n = ")) for part in order.options.where.split(" OR ") if part]
        found = [key for key, value in rows.items() if not values or value in values]
        begin, until = int(order.cursor or -1), int(order.until or 1 << 30)
        behind = sorted(key for key in found if begin < key <= until)
        chunk = {key: rows[key] for key in behind[:count]}
        cursor = str(behind[count - 1]) if len(behind) > count else None
        ends = [str(key) for key in behind[2 * count - 1 :: count]][: order.ahead]
        if order.options.method is Method.BLACKHOLE:
            self._source.copy(chunk, order.snapshot_id)
            end = self._source.at(len(self._source.log))
            return Chunk(None, None, end, cursor, len(rows), len(chunk), high)
        return Chunk(batch_of(Op.READ, chunk), None, high, cursor, len(rows), ahead=ends if cursor else ())

    def _read_locked(self, order: ChunkOrder) -> Chunk:
        """Read on over the connection of the lock: what is on its way comes also when the lock is lost."""
        message, count = "the lock is lost", order.options.chunk_rows
        if self._rest is None:
            if not (self._holds and self._source.is_locked):
                raise UnavailableError(message, "lock it again")
            self._rest = sorted(self._source.rows.items())
        chunk, self._rest = dict(self._rest[:count]), self._rest[count:]
        if not self._rest and not self._source.is_locked:
            raise UnavailableError(message, "lock it again")
        high = self._source.at(len(self._source.log)) if self._source.is_locked else order.low
        return Chunk(batch_of(Op.READ, chunk), None, high, "more" if self._rest else None, len(chunk))

    def lock(self, table: TableId, low: Position) -> Definition:
        self.release()
        found = self.define(table, low, SnapshotOptions())
        self._holds = self._source.is_locked = True
        return found

    def holds(self, table: TableId) -> bool:
        return self._holds and table == TABLE

    def release(self) -> None:
        self._holds = self._source.is_locked = False
        self._rest = None

    def sweep(self, is_over: Callable[[str], bool]) -> None:
        """Nothing is made."""

    def check(self, table: TableId, options: SnapshotOptions) -> None:
        """Nobody asks wrongly."""

    def define(self, table: TableId, low: Position, options: SnapshotOptions) -> Definition:
        del low, options
        if table != TABLE:
            message = f"there is no table {table}"
            raise UsageError(message, "look at its name")
        return Definition(SCHEMA, "", self._source.at(len(self._source.log)))

    def waits(self) -> UnavailableError | None:
        return self.late

    def tables(self) -> Sequence[TableId]:
        return [TABLE]

    def close(self) -> None:
        self.release()


def batch_of(op: Op, rows: Mapping[int, int | None]) -> RowBatch | None:
    count = len(rows)
    values = pa.RecordBatch.from_arrays(
        [pa.array(list(rows), pa.int32()), pa.array(list(rows.values()), pa.int32())], schema=arrow_schema(SCHEMA)
    )
    before, after = (values, None) if op is Op.DELETE else (None, values)
    offsets, numbers = np.zeros(count, np.int64), np.arange(count, dtype=np.int32)
    times, gtids = np.zeros(count, np.int64), pa.array([""] * count, pa.string())
    return RowBatch(SCHEMA, op, before, after, "binlog.000001", offsets, numbers, times, gtids, 1)
