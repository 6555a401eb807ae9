"""What PostgreSQL's log says, one item per message that matters to us."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.core.postgres.place import lsn_file, lsn_offset

if TYPE_CHECKING:
    from penstock.core.changes import Op
    from penstock.core.postgres.messages import Cells, Relation
    from penstock.core.postgres.place import PostgresPosition

_CELL_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Transaction:
    """The transaction that items are of: `lsn` is where its COMMIT begins."""

    lsn: int
    xid: int
    timestamp_ms: int

    @property
    def file(self) -> str:
        """The name that stands for the log's file in messages."""
        return lsn_file(self.lsn)

    @property
    def offset(self) -> int:
        """What stands for the offset in it."""
        return lsn_offset(self.lsn)


@dataclass(frozen=True, slots=True)
class RowLogged:
    """A changed row, number `number` of its transaction. `old` is None for a new row, and where the log lacks it."""

    relation: Relation
    op: Op
    old: Cells | None
    is_old_whole: bool
    new: Cells | None
    transaction: Transaction
    number: int
    size_bytes: int


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

    end: PostgresPosition
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class LogAdvanced:
    """Nothing for us up to `end`, a boundary."""

    end: PostgresPosition


PostgresItem: TypeAlias = RowLogged | RelationSeen | TablesTruncated | TransactionEnded | LogAdvanced


def size_of(cells: Cells | None) -> int:
    """How many bytes of memory cells take, about."""
    return 0 if cells is None else sum(_CELL_BYTES + (len(cell) if isinstance(cell, bytes) else 0) for cell in cells)
