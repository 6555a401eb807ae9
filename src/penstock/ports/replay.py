"""What a capture does with the statements of a source's log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.core.log_items import LoggedStatement
    from penstock.core.positions import Position
    from penstock.core.publication import StoppedTable
    from penstock.core.schema_changes import SchemaChange
    from penstock.core.tables import TableId


@dataclass(frozen=True, slots=True)
class StatementOutcome:
    """What a statement means for the pipeline: tables with a new schema, and tables that cannot go on."""

    schema_changes: tuple[SchemaChange, ...] = ()
    stopped: tuple[tuple[TableId, StoppedTable], ...] = ()


class Replay(Protocol):
    """Brings the catalog past the log's statements, one at a time, each after everything before it was published.

    What it replays on need not be transactional: a crash in the middle of a statement
    is undone by `recover`, before anything else is asked.
    """

    def take_over(self) -> None:
        """Become the only one who replays. When it returns, nobody before us changes anything any more."""
        ...

    def start_empty(self) -> None:
        """Begin before the first table was made."""
        ...

    def start_with(self, creates: str) -> Mapping[TableId, str]:
        """Begin with the tables of a copy (TableCopy.creates); return those that are refused, with the reasons."""
        ...

    def is_half_done(self) -> bool:
        """Whether a crash left a statement that may be half applied."""
        ...

    def recover(self, position: Position) -> None:
        """Undo a statement that a crash left half applied, given the committed `position`."""
        ...

    def replays(self, statement: LoggedStatement) -> bool:
        """Whether `apply` may change what is replayed on: only whoever still has the link may, after `take_over`."""
        ...

    def concerns(self, statement: LoggedStatement, table: TableId) -> bool:
        """Whether `statement` may have made another table of `table`, or other rows of its rows."""
        ...

    def apply(self, statement: LoggedStatement, stopped: Collection[str]) -> StatementOutcome:
        """Bring the catalog past `statement`; the caller then commits the outcome and calls `settle`.

        Of tables that are `stopped` already, the rows are not known.
        """
        ...

    def settle(self, statement: LoggedStatement) -> None:
        """Its outcome is committed: what `recover` would need of it is no longer needed."""
        ...

    def close(self) -> None:
        """Let go of what only the replay needs."""
        ...
