"""Sinks of kind `snowflake`: a landing zone, and tables that Snowflake's own tasks merge from it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.config.secrets import secret
from penstock.core.warehouse.landing import LandingZone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.adapters.snowflake.connection import SnowflakeAccount, SnowflakeDatabase
    from penstock.config.sinks import SnowflakeSinkSpec
    from penstock.config.specs import PipelineSpec
    from penstock.ports.queries import QueryResult, ReadLimits


@dataclass(frozen=True, slots=True)
class SnowflakeKind:
    """See `SinkKind` and `QueriedKind`."""

    spec: PipelineSpec
    sink: SnowflakeSinkSpec
    can_be_audited: bool = False

    @property
    def zone(self) -> LandingZone:
        """Where messages land."""
        return LandingZone(self.sink.landing, self.sink.warehouse, self.sink.schedule, self.sink.readers)

    def explain(self) -> Iterator[str]:
        """See `SinkKind`."""
        sink = self.sink
        yield f"the database {sink.database} of the Snowflake account {sink.account}"
        by = f"the password in {sink.password_env}" if sink.password_env else f"the key in {sink.private_key_file}"
        yield f"login    {sink.user}, with {by}"
        yield f"landing  messages in the schema {sink.landing}; tasks merge them on {sink.warehouse}, {sink.schedule}"

    def examine(self) -> str:
        """See `SinkKind`."""
        with closing(self.open()) as database:
            ((version, name),) = database.fetch("SELECT CURRENT_VERSION(), CURRENT_DATABASE()")
        return f"Snowflake {version} lets us into {name}"

    def open(self) -> SnowflakeDatabase:
        """Connect."""
        from penstock.adapters.snowflake.connection import SnowflakeDatabase  # noqa: PLC0415 - slow to import

        return SnowflakeDatabase(self.account())

    def query(self, statement: str, limits: ReadLimits) -> QueryResult:
        """See `QueriedKind`."""
        from penstock.adapters.snowflake.query import query  # noqa: PLC0415 - slow to import

        return query(self.account(), statement, limits)

    def account(self) -> SnowflakeAccount:
        """The database and our login to it."""
        from penstock.adapters.snowflake.connection import SnowflakeAccount  # noqa: PLC0415 - slow to import

        sink = self.sink
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
