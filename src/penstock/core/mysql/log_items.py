"""What a binlog says, one item per event that matters to us."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.core.changes import Op
from penstock.core.positions import file_number

if TYPE_CHECKING:
    from penstock.core.positions import BinlogPosition
    from penstock.core.tables import TableId

_ROWS_BITS: Final = 23
_ONE_BYTE_COLUMNS: Final = 251
_ROWS_MASK: Final = (1 << _ROWS_BITS) - 1


@dataclass(frozen=True, slots=True)
class TableMap:
    """A TABLE_MAP event: how the rows events that follow lay out one table.

    `types` and `metadata` are the format's own codes, one entry per column
    (metadata already read to the width its type has; 0 where there is none).
    `names`, `unsigned` are from the optional metadata, empty when the
    server writes binlog_row_metadata=MINIMAL without them (`unsigned` has one
    entry per column, False for non-numeric ones, when present).
    """

    table: TableId
    types: tuple[int, ...]
    metadata: tuple[int, ...]
    nullable: tuple[bool, ...]
    names: tuple[str, ...]
    unsigned: tuple[bool, ...]


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
        return self.offset + (self.inside >> _ROWS_BITS)

    @property
    def first_row(self) -> int:
        """...and here the number of the first row under that offset, 0 for an event on its own."""
        return self.inside & _ROWS_MASK


@dataclass(frozen=True, slots=True)
class StatementLogged:
    """A QUERY event that is neither BEGIN nor COMMIT: DDL, most of the time.

    `begin` is the position to read from to see it again, `end` the one after it.
    `inside` is where it ends in a compressed transaction, 0 for one on its own.
    """

    sql: str
    default_schema: str
    begin: BinlogPosition
    end: BinlogPosition
    timestamp_ms: int
    inside: int = 0

    @property
    def order(self) -> tuple[int, int, int]:
        """(file number, offset, row) behind every row before the statement, at most that of the first row behind it.

        No other statement has it, not even the one right before in the log.
        """
        start = (self.end.rows_from or self.end.offset) - self.inside
        return file_number(self.end.file), start + (self.inside >> _ROWS_BITS), self.inside & _ROWS_MASK


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """A commit (XID, COMMIT or ROLLBACK): `end` is the boundary after it."""

    end: BinlogPosition
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class LogAdvanced:
    """Nothing for us up to `end`, a boundary: a new file, a heartbeat, transactions of other tables."""

    end: BinlogPosition


LogItem: TypeAlias = TransactionBegan | RowsLogged | StatementLogged | TransactionEnded | LogAdvanced
