"""Rows as a binlog has them: the layout of a table, and one event of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.changes import Op
from penstock.core.mysql.types.column_codes import COMPRESSED, STRING

if TYPE_CHECKING:
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
class RowsLogged:
    """One ROWS event of a table that is wanted.

    `payload` begins after the event's post-header and extra data, at the
    column count, and ends before the checksum. `offset` in `file` is the start of
    the event, or of the event that holds it: then `inside` tells the events in
    there apart, and has at least as many numbers for each as it has rows.
    `partial` says that it is a PARTIAL_UPDATE_ROWS event, `cascades_logged` that the server
    that wrote it did itself what foreign keys say, so that the log has those rows as well.
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
    cascades_logged: bool = False

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
