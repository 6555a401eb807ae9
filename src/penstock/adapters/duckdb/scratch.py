"""DuckDB as a scratch database (ports/scratch.py), in a file that goes when it is closed."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.adapters.duckdb.database import DuckdbLimits, explained, open_database

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa


class DuckdbScratch:
    """Tables on disk; what a statement cannot hold in memory goes to disk, too."""

    def __init__(self, path: Path, limits: DuckdbLimits) -> None:
        """Make the file."""
        self._path = path
        self._connection = open_database(path, limits)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def run(self, statement: str) -> None:
        """See ports/scratch.Scratch."""
        with explained(self._path):
            self._connection.execute(statement)

    def add(self, table: str, rows: pa.RecordBatch) -> None:
        """See ports/scratch.Scratch."""
        with explained(self._path):
            self._connection.register("added", rows)
            self._connection.execute(f'INSERT INTO "{table}" FROM added')
            self._connection.unregister("added")

    def batches(self, query: str) -> Sequence[pa.RecordBatch]:
        """See ports/scratch.Scratch."""
        with explained(self._path):
            found: pa.Table = self._connection.sql(query).to_arrow_table()
            return found.combine_chunks().to_batches()

    def value(self, query: str) -> int:
        """See ports/scratch.Scratch."""
        (row,) = self.rows(query)
        return int(str(row[0]))

    def rows(self, query: str) -> Sequence[tuple[object, ...]]:
        """See ports/scratch.Scratch."""
        with explained(self._path):
            return self._connection.execute(query).fetchall()


@contextmanager
def open_scratch(folder: Path, limits: DuckdbLimits) -> Iterator[DuckdbScratch]:
    """Yield a scratch database below `folder`, of which nothing is left behind."""
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=folder) as home:
        scratch = DuckdbScratch(Path(home) / "scratch.duckdb", limits)
        try:
            yield scratch
        finally:
            scratch.close()
