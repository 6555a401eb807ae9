"""What any source's log says, once its own form is read: whatever stands in it has a place with an order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.positions import Order, Position
    from penstock.core.tables import TableId


class LoggedRows(Protocol):
    """Changed rows of one table, in the form of the source's log: only who read them knows how to decode them."""

    @property
    def table(self) -> TableId:
        """Whose rows they are."""
        ...

    @property
    def weight_bytes(self) -> int:
        """How many bytes of memory they count for, decoded."""
        ...

    @property
    def newest_ms(self) -> int:
        """The newest commit time among them, Unix milliseconds."""
        ...


class LoggedStatement(Protocol):
    """Something in the log that may change tables: a statement, or what a source logs in its place. See `Replay`."""

    @property
    def begin(self) -> Position:
        """The position to read from to see it again."""
        ...

    @property
    def end(self) -> Position:
        """The position behind it."""
        ...

    @property
    def order(self) -> Order:
        """Behind every row before it, at most that of the first row behind it; no other statement on a table has it."""
        ...

    @property
    def timestamp_ms(self) -> int:
        """When it was committed, Unix milliseconds."""
        ...

    def ending_at(self, end: Position) -> Self:
        """Return it with another `end`, which tells more of the same place."""
        ...


@dataclass(frozen=True, slots=True)
class RowsRead:
    """Rows of a transaction that has not ended."""

    rows: LoggedRows


@dataclass(frozen=True, slots=True)
class TransactionsRead:
    """The end of a transaction, or of several, at the boundary `end`: `rows` are theirs that did not come before."""

    end: Position
    rows: Sequence[LoggedRows] = ()


@dataclass(frozen=True, slots=True)
class StatementRead:
    """A statement: what came before it in its own transaction ends at `begin`."""

    begin: Position
    statement: LoggedStatement


@dataclass(frozen=True, slots=True)
class LogPassed:
    """Nothing for us up to `end`, a boundary."""

    end: Position


LogStep: TypeAlias = RowsRead | TransactionsRead | StatementRead | LogPassed
