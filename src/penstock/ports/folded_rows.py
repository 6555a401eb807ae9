"""Somewhere a table's changes are folded by key, for an audit to compare what comes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.core.audit.dialects import AuditDialect


class FoldedRows(Protocol):
    """Keeps the newest change of each key on disk. It is for one table and one audit, and nothing of it stays."""

    @property
    def dialect(self) -> AuditDialect:
        """How its SQL is written."""
        ...

    @property
    def living(self) -> str:
        """What stands behind FROM for the rows that are there: the newest change of the others is a delete."""
        ...

    @property
    def newest(self) -> str:
        """What stands behind FROM for the newest change of each key, deletes too."""
        ...

    def create(self, layout: pa.Schema, key: Sequence[str]) -> None:
        """Begin with no rows; `layout` is as core/audit/stage_columns has it."""
        ...

    def fold(self, rows: pa.Table) -> None:
        """Take changes, each of which is newer than all of its key that were taken before, but for those in `rows`.

        Of the latter the one with the highest offset is the newest; they are of one topic.
        """
        ...

    def clear(self) -> None:
        """Forget all rows: the table was emptied, or begins anew."""
        ...

    def fetch(self, query: str) -> Sequence[Sequence[Any]]:
        """Return the rows of a query. Raises SinkError for a refused one."""
        ...

    def fetch_texts(self, query: str) -> pa.Table:
        """Return the rows of a query, whose columns are all texts, as columns. Raises SinkError for a refused one."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...
