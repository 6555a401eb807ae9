"""A database with a landing zone, as the warehouse spolt needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.ports.warehouse import StateDatabase

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from contextlib import AbstractContextManager

    from penstock.core.tables import TableId


class LandingDatabase(StateDatabase, Protocol):
    """One connection, for one thread, in which a statement commits by itself outside of a transaction.

    Every method raises SinkError or UnavailableError where the database fails;
    RefusedStatementError is a SinkError that is about the tables of the statement.
    """

    def transaction(self, name: str) -> AbstractContextManager[None]:
        """Commit all statements of a `with` block, or none; none of them may define anything.

        One that is called the same, in whatever process, waits until this one is over, and sees what it did. The
        schema of our state tables is there.

        `name` is what it is called for `end_transactions`: letters, digits and underscores.
        """
        ...

    def end_transactions(self, name: str) -> None:
        """Roll back what other sessions have open under this name: a process that was killed leaves it so."""
        ...

    def present(self, tables: Sequence[TableId]) -> Collection[TableId]:
        """Return which of `tables` are there, in one question."""
        ...

    def has_stream(self, schema: str, name: str) -> bool:
        """Whether there is such a stream."""
        ...

    def task_definition(self, schema: str, name: str) -> str | None:
        """Return what a task runs; None if there is no such task."""
        ...

    def copied(self, texts: Iterator[str]) -> AbstractContextManager[str] | None:
        """Let statements of a transaction read `texts`, JSON each, in the column `row` of the (quoted) table returned.

        None, and `texts` are as they were, where rows are brought as parameters of statements.
        """
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...
