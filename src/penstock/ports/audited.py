"""A database that an audit reads, and what a target says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.core.audit.dialects import AuditDialect
    from penstock.core.audit.table_plan import KnownTarget
    from penstock.core.positions import Position
    from penstock.core.tables import TableId, TableSchema


class AuditedDatabase(Protocol):
    """Answers queries, and changes nothing.

    Where the database can, all queries from one `renew` to the next see one
    committed state. Where another process has it open they may see newer states:
    each sees one.
    """

    @property
    def dialect(self) -> AuditDialect:
        """How its SQL is written."""
        ...

    def renew(self) -> None:
        """See what is committed now. Call it before the first query."""
        ...

    def fetch(self, query: str) -> Sequence[Sequence[Any]]:
        """Return the rows of a query. Raises UnavailableError, and SinkError or UnfitServerError for a refused one."""
        ...

    def fetch_texts(self, query: str) -> pa.Table:
        """Return the rows of a query, whose columns are all texts, as columns; raises what `fetch` does.

        It is for many rows; of none, there may be no columns.
        """
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...


class AuditedSource(AuditedDatabase, Protocol):
    """A pipeline's source, whose snapshots have a place in its log, behind all that is in them.

    A replica may be read in its place. A snapshot has all that the source's log had when `renew` was called, which
    raises ReplicaLagError for a replica that has not.
    """

    @property
    def position(self) -> Position:
        """The place of the snapshot that `renew` has taken last."""
        ...

    def release(self) -> None:
        """Let go of the snapshot, and of the tables that it kept from being altered; `renew` comes before it is read.

        Until then each query is by itself.
        """
        ...

    def limit(self, query_seconds: int, ends_at: float | None = None) -> None:
        """Have the server end queries that take longer than this; `fetch` says so then.

        At `ends_at`, by the monotonic clock, `renew` waits for a replica no more; None for as long as it may.
        """
        ...

    def tables(self) -> Sequence[TableId]:
        """Every table of the source."""
        ...

    def schema(self, table: TableId) -> TableSchema | None:
        """A table as it is carried; None if it is not there."""
        ...

    def row_bytes(self, table: TableId) -> int:
        """About how many bytes a row takes on disk, as the server's statistics have it; 0 where it has none."""
        ...

    def rows_of(self, schema: TableSchema) -> str:
        """What stands behind FROM for those rows of a table that are carried."""
        ...


class AuditedState(Protocol):
    """What the target of one link says of itself. Tables are called as the source calls them."""

    def batch_offset(self) -> int:
        """From which offset of the batch topic the target reads on, as is committed now."""
        ...

    def waiting(self) -> frozenset[TableId]:
        """Tables that do not go on with the others."""
        ...

    def table(self, table: TableId) -> KnownTarget | None:
        """What the target knows of one of its tables, None for none of them. Its schema has the target's own name."""
        ...

    def living(self) -> list[TableId]:
        """Every table that is there."""
        ...
