"""What PostgreSQL's log says, one item per message that matters to us."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.core.positions import WalPosition
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from penstock.core.changes import Op
    from penstock.core.postgres.messages import Cells, Relation

STEPS_PER_ROW: Final = 4
"""See RowLogged."""
CELL_BYTES: Final = 8
"""What a cell counts for besides its text, a NULL too: it takes a place in each form that rows have."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """The transaction that items are of: `lsn` is where its COMMIT begins."""

    lsn: int
    xid: int
    timestamp_ms: int

    @property
    def place(self) -> WalPosition:
        """The boundary before it."""
        return WalPosition(self.lsn)


class _OfOneTable:
    """What a row and rows that follow each other have alike."""

    __slots__ = ()
    relation: Relation
    transaction: Transaction
    size_bytes: int

    @property
    def table(self) -> TableId:
        """Whose they are."""
        return TableId(self.relation.schema, self.relation.name)

    @property
    def weight_bytes(self) -> int:
        """How many bytes of memory they count for."""
        return self.size_bytes

    @property
    def newest_ms(self) -> int:
        """When they were committed, Unix milliseconds."""
        return self.transaction.timestamp_ms


@dataclass(frozen=True, slots=True)
class RowLogged(_OfOneTable):
    """A changed row. `old` is None for a new row, and where the log lacks it.

    `number` is its place in its transaction: row k has 4k + 3, and what comes to light
    ahead of it one of the three numbers before. `serial` goes up through the stream.
    """

    relation: Relation
    op: Op
    old: Cells | None
    is_old_whole: bool
    new: Cells | None
    transaction: Transaction
    number: int
    serial: int
    size_bytes: int

    @property
    def last_number(self) -> int:
        """Its number: it is the one row that there is."""
        return self.number


@dataclass(frozen=True, slots=True)
class RowsLogged(_OfOneTable):
    """Rows of one table that follow each other in one transaction, changed in the same way, as they were sent.

    `image` is the letter of the one row image that each message has: N for a new row, K for an old key, O for an
    old row. `number` and `serial` are those of the first row: see RowLogged.
    """

    relation: Relation
    op: Op
    image: str
    messages: tuple[bytes, ...]
    transaction: Transaction
    number: int
    serial: int
    size_bytes: int

    @property
    def last_number(self) -> int:
        """The number of the last row."""
        return self.number + (len(self.messages) - 1) * STEPS_PER_ROW


@dataclass(frozen=True, slots=True)
class RelationSeen:
    """A table's shape, for the rows behind it: those with `number` and higher ones."""

    relation: Relation
    transaction: Transaction
    number: int


@dataclass(frozen=True, slots=True)
class TablesTruncated:
    """Tables that are emptied by what has the number of a row."""

    relations: tuple[Relation, ...]
    transaction: Transaction
    number: int


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """A commit: `end` is the boundary behind it."""

    end: WalPosition
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class LogAdvanced:
    """Nothing for us up to `end`, a boundary."""

    end: WalPosition


PostgresItem: TypeAlias = RowLogged | RowsLogged | RelationSeen | TablesTruncated | TransactionEnded | LogAdvanced


def size_of(cells: Cells | None) -> int:
    """How many bytes of memory cells take, about."""
    return 0 if cells is None else sum(CELL_BYTES + (len(cell) if isinstance(cell, bytes) else 0) for cell in cells)
