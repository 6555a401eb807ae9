"""Sinks of kind `postgres`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.config.secrets import secret

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.adapters.postgres.connection import PostgresServer
    from penstock.config.sinks import PostgresSinkSpec
    from penstock.config.spec import TlsSpec
    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.ports.audited import AuditedDatabase
    from penstock.ports.queries import QueryResult, ReadLimits
    from penstock.ports.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class PostgresKind:
    """See `SqlKind`."""

    spec: PipelineSpec
    sink: PostgresSinkSpec
    transaction_rows_max: int | None = None

    @property
    def connections(self) -> int:
        """See `SqlKind`."""
        return self.sink.connections

    def explain(self) -> Iterator[str]:
        """See `SinkKind`."""
        sink = self.sink
        yield f"the database {sink.database} of the PostgreSQL server {sink.host}:{sink.port}"
        yield f"login    {sink.user}, with the password in {sink.password_env}"
        yield f"tls      {sink.tls.meaning if sink.tls else 'only if the server offers it'}"
        yield from (f"task     {task.meaning}" for task in self.sink.tasks)

    def examine(self) -> str:
        """See `SinkKind`."""
        from penstock.adapters.postgres.preflight import examine_database  # noqa: PLC0415 - drivers are slow to import

        return examine_database(self.server())

    def is_new(self) -> bool:
        """See `SqlKind`."""
        return False

    def open(self, link: LinkSpec, *, serve_queries: bool) -> Warehouse:
        """See `SqlKind`."""
        from penstock.adapters.postgres.warehouse import PostgresWarehouse  # noqa: PLC0415 - drivers are slow to import

        del serve_queries
        return PostgresWarehouse(self.server(), f"{self.spec.pipeline}/{link.source}")

    def open_for_tasks(self) -> Warehouse:
        """See `TasksKind`."""
        from penstock.adapters.postgres.warehouse import PostgresWarehouse  # noqa: PLC0415 - drivers are slow to import

        return PostgresWarehouse(self.server(), f"{self.spec.pipeline}/tasks of {self.sink.name}")

    def open_to_read(self, link: LinkSpec) -> Warehouse:
        """See `SqlKind`."""
        warehouse = self.open(link, serve_queries=False)
        warehouse.run("SET default_transaction_read_only = on")
        return warehouse

    def query(self, statement: str, limits: ReadLimits) -> QueryResult:
        """See `SqlKind`."""
        from penstock.adapters.postgres.query import query  # noqa: PLC0415 - drivers are slow to import

        return query(self.server(), statement, limits)

    def open_audited(self) -> AuditedDatabase:
        """See `SqlKind`."""
        from penstock.adapters.postgres.audited import AuditedPostgres  # noqa: PLC0415 - drivers are slow to import

        return AuditedPostgres(self.server())

    def server(self) -> PostgresServer:
        """The database and our login to it."""
        from penstock.adapters.postgres.connection import PostgresServer  # noqa: PLC0415 - drivers are slow to import

        sink = self.sink
        tls = {} if sink.tls is None else libpq_tls(sink.tls)
        return PostgresServer(sink.host, sink.port, sink.database, sink.user, secret(sink.password_env), tls)


def libpq_tls(tls: TlsSpec) -> dict[str, str]:
    """Return what `tls` asks for as parameters of libpq."""
    mode = {"full": "verify-full", "ca": "verify-ca", "none": "require"}[tls.verify]
    # Without a file of its own libpq trusts the machine's authorities only where the host is looked at, too.
    given = {"sslrootcert": tls.ca or ("system" if tls.verify == "full" else None), "sslcert": tls.cert}
    given["sslkey"] = tls.key
    return {"sslmode": mode, **{name: str(file) for name, file in given.items() if file is not None}}
