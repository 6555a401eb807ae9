"""A database for one comparison: tables larger than memory, gone when it is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


class Scratch(Protocol):
    """Runs statements of its own dialect over tables that are kept on disk, in bounded memory.

    Every method raises SinkError for what fails, a full disk included.
    """

    def run(self, statement: str) -> None:
        """Run a statement that answers nothing."""
        ...

    def add(self, table: str, rows: pa.RecordBatch) -> None:
        """Append rows to a table, column by column in its order."""
        ...

    def batches(self, query: str) -> Sequence[pa.RecordBatch]:
        """All that a query answers, which is little."""
        ...

    def value(self, query: str) -> int:
        """The one number that a query answers."""
        ...

    def rows(self, query: str) -> Sequence[tuple[object, ...]]:
        """All rows that a query answers: few."""
        ...
