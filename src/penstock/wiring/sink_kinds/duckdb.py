"""Sinks of kind `duckdb`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.errors import UsageError
from penstock.wiring.ground import writable_ground

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.config.sinks import DuckdbSinkSpec
    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.ports.audited import AuditedDatabase
    from penstock.ports.queries import QueryResult, ReadLimits
    from penstock.ports.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class DuckdbKind:
    """See `SqlKind`."""

    spec: PipelineSpec
    sink: DuckdbSinkSpec
    connections: int = 1
    transaction_rows_max: int | None = None

    def explain(self) -> Iterator[str]:
        """See `SinkKind`."""
        yield f"the DuckDB file {self.sink.path}"
        yield from (f"task     {task.meaning}" for task in self.sink.tasks)

    def examine(self) -> str:
        """See `SinkKind`."""
        file = self.sink.path
        if file.exists() and not (file.is_file() and os.access(file, os.R_OK | os.W_OK)):
            message = f"{file} is not a file that this user may read and write"
            raise UsageError(message, "correct its rights, or give the sink another path")
        writable_ground(file.parent)
        return f"{file} can be written to" if file.exists() else f"{file} can be made"

    def is_new(self) -> bool:
        """See `SqlKind`."""
        return not self.sink.path.exists()

    def open(self, link: LinkSpec, *, serve_queries: bool) -> Warehouse:
        """See `SqlKind`."""
        from penstock.adapters.duckdb.query_wire import run_file  # noqa: PLC0415 - drivers are slow to import
        from penstock.adapters.duckdb.warehouse import DuckdbWarehouse  # noqa: PLC0415

        del link
        warehouse = DuckdbWarehouse(self.sink.path)
        if serve_queries:
            warehouse.serve_queries(run_file(self.spec.home, self.sink.name))
        return warehouse

    def open_for_tasks(self) -> Warehouse:
        """See `TasksKind`: a file has one writer at a time, whoever it is."""
        from penstock.adapters.duckdb.warehouse import DuckdbWarehouse  # noqa: PLC0415 - drivers are slow to import

        return DuckdbWarehouse(self.sink.path)

    def open_to_read(self, link: LinkSpec) -> Warehouse:
        """See `SqlKind`."""
        from penstock.adapters.duckdb.warehouse import DuckdbWarehouse  # noqa: PLC0415 - drivers are slow to import

        del link
        return DuckdbWarehouse(self.sink.path, read_only=True)

    def query(self, statement: str, limits: ReadLimits) -> QueryResult:
        """See `SqlKind`."""
        from penstock.adapters.duckdb.query import query  # noqa: PLC0415 - drivers are slow to import
        from penstock.adapters.duckdb.query_wire import run_file  # noqa: PLC0415

        return query(self.sink.path, run_file(self.spec.home, self.sink.name), statement, limits)

    def open_audited(self) -> AuditedDatabase:
        """See `SqlKind`."""
        from penstock.adapters.duckdb.audited import AuditedDuckdb  # noqa: PLC0415 - drivers are slow to import
        from penstock.adapters.duckdb.query_wire import run_file  # noqa: PLC0415

        return AuditedDuckdb(self.sink.path, run_file(self.spec.home, self.sink.name))
