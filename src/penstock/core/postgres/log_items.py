"""What PostgreSQL's log says, one item per message that matters to us."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.core.positions import WalPosition
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.changes import Op
    from penstock.core.positions import Position
    from penstock.core.postgres.messages import Cells, Relation

STEPS_PER_ROW: Final = 4
"""See RowLogged."""
CELL_BYTES: Final = 8
"""What a cell counts for besides its text, a NULL too: it takes a place in each form that rows have."""

_OFFSET_BITS: Final = 32
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1


@dataclass(frozen=True, slots=True)
class Transaction:
    """The transaction that items are of: `lsn` is where its COMMIT begins.

    It was read in `server_timeline` (0: not known), which began at `timeline_from`.
    """

    lsn: int
    xid: int
    timestamp_ms: int
    server_timeline: int = 0
    timeline_from: int = 0

    @property
    def place(self) -> WalPosition:
        """The boundary before it."""
        return WalPosition(self.lsn)

    @property
    def offset(self) -> int:
        """That of `place`."""
        return self.lsn & _OFFSET_MASK

    @property
    def name(self) -> str:
        """What stands for its GTID."""
        return f"{self.lsn >> _OFFSET_BITS:X}/{self.lsn & _OFFSET_MASK:X}:{self.xid}"


class _OfOneTable:
    """What a row and rows that follow each other have alike."""

    __slots__ = ()
    relation: Relation

    @property
    def table(self) -> TableId:
        """Whose they are."""
        return TableId(self.relation.schema, self.relation.name)


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
    weight_bytes: int

    @property
    def newest_ms(self) -> int:
        """When it was committed, Unix milliseconds."""
        return self.transaction.timestamp_ms

    @property
    def last_number(self) -> int:
        """Its number: it is the one row that there is."""
        return self.number


@dataclass(frozen=True, slots=True)
class RowsLogged(_OfOneTable):
    """Rows of one table that were changed in the same way, as they were sent, with log order among themselves.

    `image` is the letter of the first row image that each message has: N for a new row, K for an old key and O for an
    old row, behind which an update has the new row. Each message has its transaction, `number` and `serial`: see
    RowLogged. The transactions are of one file: they have the upper half of their LSNs in common.
    """

    relation: Relation
    op: Op
    image: str
    messages: Sequence[bytes]
    transactions: Sequence[Transaction]
    numbers: Sequence[int]
    serials: Sequence[int]

    @property
    def transaction(self) -> Transaction:
        """That of the last row."""
        return self.transactions[-1]

    @property
    def newest_ms(self) -> int:
        """The newest commit time among them, Unix milliseconds."""
        return max(transaction.timestamp_ms for transaction in self.transactions)

    @property
    def weight_bytes(self) -> int:
        """How many bytes of memory they count for."""
        return sum(map(len, self.messages)) + len(self.messages) * CELL_BYTES * len(self.relation.columns)

    @property
    def last_number(self) -> int:
        """The number of the last row."""
        return self.numbers[-1]

    def through(self, transaction: Transaction) -> RowsLogged | None:
        """What of them was committed up to a transaction, that one included; None for nothing."""
        count = bisect_right(self.transactions, transaction.lsn, key=attrgetter("lsn"))
        if not count:
            return None
        return replace(
            self,
            messages=self.messages[:count],
            transactions=self.transactions[:count],
            numbers=self.numbers[:count],
            serials=self.serials[:count],
        )


@dataclass(frozen=True, slots=True)
class RelationSeen:
    """A table's shape, for the rows behind it: those with `number` and higher ones.

    `ahead_of` is the number of what comes next in the log: higher for a TRUNCATE of several tables.
    """

    relation: Relation
    transaction: Transaction
    number: int
    ahead_of: int


@dataclass(frozen=True, slots=True)
class TableAltered:
    """What an event trigger wrote down of a table, which see written_table: it is a row, and has the number of one."""

    written: bytes
    transaction: Transaction
    number: int


@dataclass(frozen=True, slots=True)
class TablesTruncated:
    """Tables that are emptied by what counts as many rows as there are tables, and has the number of the last."""

    relations: tuple[Relation, ...]
    transaction: Transaction
    number: int


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """A commit: `end` is the boundary behind it."""

    end: WalPosition
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ShortTransactions:
    """Transactions that follow each other, with all of their rows; `ends` are the places behind their commits.

    They have nothing but rows of tables that were described before.
    """

    transactions: Sequence[Transaction]
    ends: Sequence[int]
    rows: Sequence[RowsLogged]
    end: WalPosition

    def until(self, stop: Position) -> ShortTransactions:
        """Return what is up to the first end at `stop` or behind it, where there is one."""
        count = bisect_left(self.ends, stop.order, key=lambda end: WalPosition(end).order) + 1
        if count >= len(self.ends):
            return self
        transactions, ends = self.transactions[:count], self.ends[:count]
        cut = (run.through(transactions[-1]) for run in self.rows)
        rows = tuple(run for run in cut if run is not None)
        return ShortTransactions(transactions, ends, rows, replace(self.end, lsn=ends[-1]))


@dataclass(frozen=True, slots=True)
class LogAdvanced:
    """Nothing for us up to `end`, a boundary."""

    end: WalPosition


PostgresItem: TypeAlias = (
    RowLogged
    | RowsLogged
    | RelationSeen
    | TableAltered
    | TablesTruncated
    | TransactionEnded
    | ShortTransactions
    | LogAdvanced
)


def size_of(cells: Cells | None) -> int:
    """How many bytes of memory cells take, about."""
    return 0 if cells is None else sum(CELL_BYTES + (len(cell) if isinstance(cell, bytes) else 0) for cell in cells)


def items_until(items: Sequence[PostgresItem], stop: Position | None) -> Sequence[PostgresItem]:
    """Return what of `items` is up to the first end at `stop` or behind it; `items` itself if that is all."""
    if stop is not None:
        for index, item in enumerate(items):
            if isinstance(item, TransactionEnded | ShortTransactions | LogAdvanced) and item.end.order >= stop.order:
                last = item.until(stop) if isinstance(item, ShortTransactions) else item
                return items if last is items[-1] else [*items[:index], last]
    return items
