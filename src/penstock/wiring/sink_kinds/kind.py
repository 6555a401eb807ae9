"""What a pipeline asks of a sink, whichever kind it is of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.config.specs import LinkSpec
    from penstock.ports.audited import AuditedDatabase
    from penstock.ports.queries import QueryResult, ReadLimits
    from penstock.ports.warehouse import Warehouse


class SinkKind(Protocol):
    """A sink of a pipeline's file, as its kind sees it. Nothing is connected before a method is called."""

    def explain(self) -> Iterator[str]:
        """Yield lines for `penstock check`: first what and where it is, then how it is reached. Connects to nothing."""
        ...

    def examine(self) -> str:
        """Ask it whether it can be a target, and change nothing; return what is well.

        Raises UsageError for what its owner has to change, UnavailableError for one that is away.
        """
        ...


class QueriedKind(SinkKind, Protocol):
    """A sink that answers SQL."""

    def query(self, statement: str, limits: ReadLimits) -> QueryResult:
        """Run one reading statement, whether or not the pipeline runs.

        Raises UsageError for one that does not read or has a mistake, SinkError and UnavailableError.
        """
        ...


class SqlKind(QueriedKind, Protocol):
    """A sink that takes SQL in transactions."""

    @property
    def connections(self) -> int:
        """How many tables are loaded side by side, each over a connection of its own."""
        ...

    @property
    def transaction_rows_max(self) -> int | None:
        """How many rows a transaction has at most; None for the usual bound."""
        ...

    def is_new(self) -> bool:
        """Whether there is nothing to read yet, and the first load makes it."""
        ...

    def open(self, link: LinkSpec, *, serve_queries: bool) -> Warehouse:
        """Open it for the loads of `link`.

        `serve_queries` lets other processes query it through us where only one may open it.
        """
        ...

    def open_to_read(self, link: LinkSpec) -> Warehouse:
        """Open what `link` loads, to change nothing in it."""
        ...

    def open_audited(self) -> AuditedDatabase:
        """Open it for an audit, which changes nothing. Raises UsageError where a kind cannot be audited yet."""
        ...


class TasksKind(SqlKind, Protocol):
    """A sink that can have tasks."""

    def open_for_tasks(self) -> Warehouse:
        """Open it for its tasks, whose transactions take turns with each other and not with those of loads."""
        ...
