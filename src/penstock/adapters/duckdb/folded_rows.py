"""A table's changes, folded by key in a DuckDB file that lives as long as an audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.adapters.duckdb.database import DuckdbLimits, explained, open_database
from penstock.adapters.duckdb.texts import texts_of
from penstock.core.audit.dialects import DUCKDB
from penstock.core.files import OFFSET, OP

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

    from penstock.core.audit.dialects import AuditDialect

_LIMITS = DuckdbLimits(memory_mb=192)
_ARRIVED = "arrived"


class DuckdbFoldedRows:
    """See ports/folded_rows.FoldedRows."""

    def __init__(self, path: Path) -> None:
        """Make the file `path`, in a folder that the caller deletes."""
        self._path = path
        self._connection = open_database(path, _LIMITS)
        self._key: Sequence[str] = ()

    @property
    def dialect(self) -> AuditDialect:
        """See FoldedRows."""
        return DUCKDB

    @property
    def living(self) -> str:
        """See FoldedRows."""
        return "living"

    @property
    def newest(self) -> str:
        """See FoldedRows."""
        return "newest"

    def create(self, layout: pa.Schema, key: Sequence[str]) -> None:
        """See FoldedRows."""
        self._key = key
        self._with_rows(layout.empty_table(), ["CREATE TABLE newest AS SELECT * FROM arrived"])
        self._run(f"CREATE VIEW living AS SELECT * FROM newest WHERE {DUCKDB.quoted(OP)} <> 'd'")  # noqa: S608 - our own names

    def fold(self, rows: pa.Table) -> None:
        """See FoldedRows."""
        names = [DUCKDB.quoted(name) for name in self._key]
        same = " AND ".join(f"newest.{name} = arrived.{name}" for name in names)
        first = f"PARTITION BY {', '.join(names)} ORDER BY {DUCKDB.quoted(OFFSET)} DESC"
        statements = [
            "BEGIN TRANSACTION",
            f"DELETE FROM newest USING arrived WHERE {same}",  # noqa: S608 - names are quoted
            f"INSERT INTO newest SELECT * FROM arrived QUALIFY row_number() OVER ({first}) = 1",  # noqa: S608 - as above
            "COMMIT",
        ]
        self._with_rows(rows, statements)

    def clear(self) -> None:
        """See FoldedRows."""
        self._run("TRUNCATE newest")

    def fetch(self, query: str) -> Sequence[Sequence[Any]]:
        """See FoldedRows."""
        with explained(self._path):
            return self._connection.execute(query).fetchall()

    def fetch_texts(self, query: str) -> pa.Table:
        """See FoldedRows."""
        with explained(self._path):
            return texts_of(self._connection.sql(query))

    def close(self) -> None:
        """See FoldedRows."""
        self._connection.close()

    def _with_rows(self, rows: pa.Table, statements: Sequence[str]) -> None:
        self._connection.register(_ARRIVED, rows)
        try:
            for statement in statements:
                self._run(statement)
        finally:
            self._connection.unregister(_ARRIVED)

    def _run(self, statement: str) -> None:
        with explained(self._path):
            self._connection.execute(statement)
