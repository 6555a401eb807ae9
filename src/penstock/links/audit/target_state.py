"""What a target says of itself, read as an audit reads it: without changing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.core.audit.table_plan import KnownTarget
from penstock.core.tables import TableId
from penstock.core.transforms.column_history import ColumnHistory
from penstock.core.warehouse.schema_text import parse_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ports.audited import AuditedDatabase


class TargetState:
    """The state rows of one pipeline and source in a target that keeps them in a schema: an `AuditedState`."""

    def __init__(self, database: AuditedDatabase, pipeline: str, source: str, schema: str) -> None:
        """Ask `database`, which the caller renews and closes. Names are of letters, digits, `_` and `-`."""
        self._database = database
        self._schema = schema
        named = (database.dialect.quoted(name) for name in ("pipeline", "source"))
        self._mine = " AND ".join(f"{name} = '{value}'" for name, value in zip(named, (pipeline, source), strict=True))

    def batch_offset(self) -> int:
        """See `AuditedState`."""
        self._database.renew()
        rows = self._select("batches", "next_batch_offset")
        return int(rows[0][0]) if rows else 0

    def waiting(self) -> frozenset[TableId]:
        """See `AuditedState`."""
        return frozenset(TableId.parse(str(name)) for (name,) in self._select("waiting", "source_table"))

    def table(self, table: TableId) -> KnownTarget | None:
        """See `AuditedState`."""
        return self._tables().get(table)

    def living(self) -> list[TableId]:
        """See `AuditedState`."""
        return [table for table, known in self._tables().items() if not known.ended]

    def _tables(self) -> dict[TableId, KnownTarget]:
        treated = {str(name): ColumnHistory.from_json(str(text)).treated for name, text in self._histories()}
        return {
            TableId.parse(str(name)): KnownTarget(
                parse_schema(str(text)),
                "soft" if deletes == "soft" else "hard",
                bool(ended),
                int(out_of_range),
                treated.get(str(name), {}),
            )
            for name, text, deletes, ended, out_of_range in self._select(
                "tables", "source_table, schema, deletes, ended, misfits"
            )
        }

    def _histories(self) -> Sequence[Sequence[Any]]:
        return self._select("columns", "source_table, history")

    def _select(self, table: str, columns: str) -> Sequence[Sequence[Any]]:
        exists = f"table_schema = '{self._schema}' AND table_name = '{table}'"
        if not self._database.fetch(f"SELECT 1 FROM information_schema.tables WHERE {exists}"):  # noqa: S608 - ours
            return ()
        quoted = ", ".join(self._database.dialect.quoted(name) for name in columns.split(", "))
        path = self._database.dialect.quoted(self._schema, table)
        return self._database.fetch(f"SELECT {quoted} FROM {path} WHERE {self._mine}")  # noqa: S608 - ours
