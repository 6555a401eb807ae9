"""Sinks of kind `snowflake`: a landing zone, and tables that Snowflake's own tasks merge from it; or tables alone."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.config.secrets import secret
from penstock.config.zone_tasks import plan_tasks
from penstock.core.warehouse.landing import LandingZone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.adapters.snowflake.account import SnowflakeAccount
    from penstock.adapters.snowflake.connection import SnowflakeDatabase
    from penstock.config.sinks import SnowflakeSinkSpec
    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.ports.audited import AuditedDatabase
    from penstock.ports.queries import QueryResult, ReadLimits
    from penstock.ports.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class SnowflakeKind:
    """See `SinkKind` and `QueriedKind`."""

    spec: PipelineSpec
    sink: SnowflakeSinkSpec

    @property
    def zone(self) -> LandingZone:
        """Where messages land."""
        sink, tasks = self.sink, plan_tasks(self.spec.pipeline, self.sink.tasks)
        assert sink.landing is not False  # noqa: S101 - `has_zone`
        rules = tuple(table.rule for table in sink.tables)
        return LandingZone(sink.landing, sink.warehouse, sink.schedule, sink.readers, tasks, rules)

    def explain(self) -> Iterator[str]:
        """See `SinkKind`."""
        sink = self.sink
        yield from _place(sink)
        yield f"landing  messages in the schema {sink.landing}; tasks merge them on {sink.warehouse}, {sink.schedule}"
        yield from (f"task     {task.meaning}" for task in sink.tasks)

    def examine(self) -> str:
        """See `SinkKind`."""
        return _examine(self.account())

    def open(self) -> SnowflakeDatabase:
        """Connect."""
        from penstock.adapters.snowflake.connection import SnowflakeDatabase  # noqa: PLC0415 - slow to import

        return SnowflakeDatabase(self.account())

    def open_to_load(self, link: LinkSpec) -> SnowflakeDatabase:
        """Connect for the loads of `link`."""
        database = self.open()
        if self.sink.load_by == "copy":
            database.copy_through("penstock", f"staged/{self.spec.pipeline}/{link.source}")
        return database

    def query(self, statement: str, limits: ReadLimits) -> QueryResult:
        """See `QueriedKind`."""
        from penstock.adapters.snowflake.query import query  # noqa: PLC0415 - slow to import

        return query(self.account(), statement, limits)

    def open_audited(self) -> AuditedDatabase:
        """Connect to read public tables and landing tables."""
        from penstock.adapters.snowflake.audited import AuditedSnowflake  # noqa: PLC0415 - slow to import

        return AuditedSnowflake(self.account())

    def account(self) -> SnowflakeAccount:
        """The database and our login to it."""
        return _account(self.sink)


@dataclass(frozen=True, slots=True)
class SnowflakeTablesKind:
    """See `SqlKind`: a sink without a landing zone."""

    spec: PipelineSpec
    sink: SnowflakeSinkSpec
    connections: int = 1
    transaction_rows_max: int | None = None

    def explain(self) -> Iterator[str]:
        """See `SinkKind`."""
        yield from _place(self.sink)
        yield f"loads    on {self.sink.warehouse}, without a landing zone"

    def examine(self) -> str:
        """See `SinkKind`."""
        return _examine(_account(self.sink))

    def is_new(self) -> bool:
        """See `SqlKind`."""
        return False

    def open(self, link: LinkSpec, *, serve_queries: bool) -> Warehouse:
        """See `SqlKind`."""
        from penstock.adapters.snowflake.warehouse import SnowflakeWarehouse  # noqa: PLC0415 - slow to import

        del serve_queries
        copies = self.sink.load_by == "copy"
        return SnowflakeWarehouse(_account(self.sink), self.spec.pipeline, link.source, copies=copies)

    def open_to_read(self, link: LinkSpec) -> Warehouse:
        """See `SqlKind`. Snowflake has no sessions that only read, and what reads here begins no transaction."""
        return self.open(link, serve_queries=False)

    def query(self, statement: str, limits: ReadLimits) -> QueryResult:
        """See `SqlKind`."""
        from penstock.adapters.snowflake.query import query  # noqa: PLC0415 - slow to import

        return query(_account(self.sink), statement, limits)

    def open_audited(self) -> AuditedDatabase:
        """See `SqlKind`."""
        from penstock.adapters.snowflake.audited import AuditedSnowflake  # noqa: PLC0415 - slow to import

        return AuditedSnowflake(_account(self.sink))


def _place(sink: SnowflakeSinkSpec) -> Iterator[str]:
    yield f"the database {sink.database} of the Snowflake account {sink.account}"
    by = f"the password in {sink.password_env}" if sink.password_env else f"the key in {sink.private_key_file}"
    yield f"login    {sink.user}, with {by}"


def _examine(account: SnowflakeAccount) -> str:
    from penstock.adapters.snowflake.connection import SnowflakeDatabase  # noqa: PLC0415 - slow to import

    with closing(SnowflakeDatabase(account)) as database:
        ((version, name),) = database.fetch("SELECT CURRENT_VERSION(), CURRENT_DATABASE()")
    return f"Snowflake {version} takes the login to {name}"


def _account(sink: SnowflakeSinkSpec) -> SnowflakeAccount:
    """The database and our login to it."""
    from penstock.adapters.snowflake.account import SnowflakeAccount  # noqa: PLC0415 - slow to import

    return SnowflakeAccount(
        sink.account,
        sink.host,
        sink.port,
        sink.protocol,
        sink.user,
        sink.database,
        sink.warehouse,
        sink.role,
        secret(sink.password_env) if sink.password_env else None,
        str(sink.private_key_file) if sink.private_key_file else None,
    )
