"""What a binlog says, one item per event that matters to us."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from penstock.core.changes import Op
from penstock.core.mysql.column_codes import COMPRESSED, STRING
from penstock.core.mysql.executed import Executed
from penstock.core.mysql.sql_session import UNKNOWN_SESSION, SqlSession
from penstock.core.positions import binlog_position, file_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from penstock.core.mysql.gtid_columns import GtidColumn
    from penstock.core.mysql.rows_block import RowsBlock
    from penstock.core.positions import BinlogPosition, Position
    from penstock.core.tables import TableId

_ONE_BYTE_COLUMNS: Final = 251
_INFLATES_USUALLY: Final = 16
ROWS_BITS: Final = 23
ROWS_MASK: Final = (1 << ROWS_BITS) - 1
"""How `RowsLogged.inside` is split; see docs/decisions/0008-rows-within-one-event.md."""


@dataclass(frozen=True, slots=True)
class TableMap:
    """A TABLE_MAP event: how the rows events that follow lay out one table.

    `types` and `metadata` are the format's own codes, one entry per column
    (metadata already read to the width its type has; 0 where there is none).
    `metadata` is empty where columns of unknown types keep it from being read.
    `names`, `unsigned` are from the optional metadata, empty when the
    server writes binlog_row_metadata=MINIMAL without them (`unsigned` has one
    entry per column, False for non-numeric ones, when present). `charsets`,
    `labels` and `key` are as in `TableMetadata`.
    """

    table: TableId
    types: tuple[int, ...]
    metadata: tuple[int, ...]
    nullable: tuple[bool, ...]
    names: tuple[str, ...]
    unsigned: tuple[bool, ...]
    charsets: tuple[str, ...] = ()
    labels: tuple[tuple[str, ...], ...] = ()
    key: tuple[int, ...] | None = None

    @property
    def pads(self) -> bool:
        """Whether values may be padded to their width, of 255 bytes at most, which are not in the log."""
        return STRING in self.types

    @property
    def inflates(self) -> bool:
        """Whether values may be far longer than in the log: of MariaDB's compressed columns, by zlib, 1,030 times."""
        return not COMPRESSED.isdisjoint(self.types)


def weight(table_map: TableMap, size_bytes: int) -> int:
    """How many bytes of memory rows count for. Nobody knows of compressed values: they count as usual ones."""
    return size_bytes * (_INFLATES_USUALLY if table_map.inflates else 1)


@dataclass(frozen=True, slots=True)
class TransactionBegan:
    """A GTID event (or BEGIN where there is none): `offset` in `file` is where it starts."""

    file: str
    offset: int
    gtid: str
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class RowsLogged:
    """One ROWS event of a table that is wanted.

    `payload` begins after the event's post-header and extra data, at the
    column count, and ends before the checksum. `offset` in `file` is the start of
    the event, or of the event that holds it: then `inside` tells the events in
    there apart, and has at least as many numbers for each as it has rows.
    `partial` says that it is a PARTIAL_UPDATE_ROWS event.
    """

    table_map: TableMap
    op: Op
    payload: bytes
    file: str
    offset: int
    timestamp_ms: int
    gtid: str
    server_id: int
    inside: int = 0
    partial: bool = False

    @property
    def table(self) -> TableId:
        """Whose rows they are."""
        return self.table_map.table

    @property
    def size_bytes(self) -> int:
        """How many bytes the payload has."""
        return len(self.payload)

    @property
    def weight_bytes(self) -> int:
        """How many bytes of memory they count for."""
        return weight(self.table_map, len(self.payload))

    @property
    def newest_ms(self) -> int:
        """When they were committed."""
        return self.timestamp_ms

    @property
    def front(self) -> bytes:
        """The payload's first bytes, which say what columns its rows have: the same bytes, the same columns."""
        columns = len(self.table_map.types)
        bitmaps = (2 if self.op is Op.UPDATE else 1) * ((columns + 7) // 8)
        return self.payload[: (1 if columns < _ONE_BYTE_COLUMNS else 3) + bitmaps]

    @property
    def rows_from(self) -> int:
        """The `BinlogPosition.rows_from` from which on reading begins with this event."""
        return self.offset + self.inside

    @property
    def rows_offset(self) -> int:
        """With `first_row`, what orders rows within their file and names them: here the offset..."""
        return self.offset + (self.inside >> ROWS_BITS)

    @property
    def first_row(self) -> int:
        """...and here the number of the first row under that offset, 0 for an event on its own."""
        return self.inside & ROWS_MASK


@dataclass(frozen=True, slots=True)
class StatementLogged:
    """A QUERY event that is neither BEGIN nor COMMIT: DDL, most of the time.

    `begin` is the position to read from to see it again, `end` the one after it.
    `inside` is where it ends in a compressed transaction, 0 for one on its own.
    `gtid` is that of its transaction, "" where there is none; `session` the one that wrote it.
    `of_session` says that it depends on what that session alone had: temporary tables, or its number.
    """

    sql: str
    default_schema: str
    begin: BinlogPosition
    end: BinlogPosition
    timestamp_ms: int
    inside: int = 0
    gtid: str = ""
    session: SqlSession = UNKNOWN_SESSION
    of_session: bool = False

    @property
    def order(self) -> tuple[int, int, int]:
        """(file number, offset, row) behind every row before the statement, at most that of the first row behind it.

        No other statement has it, not even the one right before in the log.
        """
        start = (self.end.rows_from or self.end.offset) - self.inside
        return file_number(self.end.file), start + (self.inside >> ROWS_BITS), self.inside & ROWS_MASK

    def ending_at(self, end: Position) -> StatementLogged:
        """Return it with another `end`, which tells more of the same place."""
        return replace(self, end=binlog_position(end))


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """A commit (XID, COMMIT or ROLLBACK): `end` is the boundary after it."""

    end: BinlogPosition
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class LogAdvanced:
    """Nothing for us up to `end`, a boundary: a new file, a heartbeat, transactions of other tables."""

    end: BinlogPosition


@dataclass(frozen=True, slots=True, eq=False)
class TransactionsLogged:
    """Whole transactions of one file, one behind the other: what stands for all items of theirs.

    `begin` is the boundary before the first, `end` the one behind the last. `ends`
    (int64[t]) is the offset of the boundary behind each of them, `times_ms`
    (int64[t]) its commit time and `gtids` its GTID. `blocks` has those rows that
    are wanted, in no order between blocks: the offsets of their events tell.
    """

    begin: BinlogPosition
    end: BinlogPosition
    ends: npt.NDArray[np.int64]
    times_ms: npt.NDArray[np.int64]
    gtids: GtidColumn
    blocks: tuple[RowsBlock, ...]

    @property
    def stretches(self) -> Iterable[tuple[str, int, int]]:
        """All GTIDs as origins with consecutive numbers, [first, last]."""
        return self.gtids.stretches()

    def first(self, count: int) -> TransactionsLogged:
        """The first `count` transactions, at least one."""
        offset = int(self.ends[count - 1])
        gtids = self.gtids.first(count)
        executed = Executed(self.begin.gtids)
        executed.add_all(gtids.stretches())
        end = replace(self.end, offset=offset, gtids=executed.text)
        counts = ((block, int(np.searchsorted(block.offsets, offset))) for block in self.blocks)
        blocks = tuple(block.first(events) for block, events in counts if events)
        return TransactionsLogged(self.begin, end, self.ends[:count], self.times_ms[:count], gtids, blocks)

    def until(self, stop: BinlogPosition) -> TransactionsLogged:
        """The transactions up to the first that ends at `stop` or behind it, which `end` must do."""
        file, _, rows_from = self.end.order
        count = next(i for i, offset in enumerate(self.ends.tolist(), 1) if (file, offset, rows_from) >= stop.order)
        return self if count == len(self.ends) else self.first(count)


@dataclass(frozen=True, slots=True, eq=False)
class FewTransactions:
    """Whole transactions of one file, one behind the other, as `TransactionsLogged`, but too few for columns.

    `begin` is the boundary before the first, `end` the one behind the last. Each of
    `places` is where a transaction starts and ends in the file, with its GTID and its
    commit time (Unix ms). `stretches` has all GTIDs as origins (`domain-server-` or
    `uuid:`) with consecutive numbers, [first, last]. `rows` has those that are wanted.
    """

    begin: BinlogPosition
    end: BinlogPosition
    places: tuple[tuple[int, int, str, int], ...]
    stretches: tuple[tuple[str, int, int], ...]
    rows: tuple[RowsLogged, ...]

    def singly(self) -> Iterator[TransactionBegan | RowsLogged | TransactionEnded]:
        """The items of each transaction, as they are where transactions are read one by one."""
        executed, at = Executed(self.begin.gtids), 0
        for start, end, gtid, timestamp_ms in self.places:
            first = at
            while at < len(self.rows) and self.rows[at].offset < end:
                at += 1
            if at > first:
                yield TransactionBegan(self.begin.file, start, gtid, timestamp_ms)
                yield from self.rows[first:at]
            if gtid:
                executed.add(gtid)
            yield TransactionEnded(replace(self.end, offset=end, gtids=executed.text), timestamp_ms)


LogItem: TypeAlias = (
    TransactionBegan
    | RowsLogged
    | StatementLogged
    | TransactionEnded
    | LogAdvanced
    | TransactionsLogged
    | FewTransactions
)
