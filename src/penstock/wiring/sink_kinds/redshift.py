"""Sinks of kind `redshift`."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock.config.places import objects_url
from penstock.config.secrets import secret
from penstock.core.errors import UsageError
from penstock.core.warehouse.attributes import Spread
from penstock.core.warehouse.dialects import REDSHIFT, REDSHIFT_SUPER
from penstock.core.warehouse.redshift_copy import CopyRights
from penstock.core.warehouse.state_schema import TASKS, state_schema
from penstock.core.warehouse.table_layout import TableLayouts
from penstock.wiring.open import open_object_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.adapters.redshift.connection import RedshiftCluster
    from penstock.adapters.redshift.warehouse import RedshiftLoads
    from penstock.config.sinks import RedshiftSinkSpec, RedshiftTableSpec
    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.ports.audited import AuditedDatabase
    from penstock.ports.queries import QueryResult, ReadLimits
    from penstock.ports.warehouse import Warehouse

_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@dataclass(frozen=True, slots=True)
class RedshiftKind:
    """See `SqlKind`. A transaction locks its tables for minutes rather than for hours."""

    spec: PipelineSpec
    sink: RedshiftSinkSpec
    connections: int = 1
    transaction_rows_max: int | None = 20_000_000

    def explain(self) -> Iterator[str]:
        """See `SinkKind`."""
        sink = self.sink
        yield f"the database {sink.database} of the Redshift {sink.host}:{sink.port}"
        yield f"login    {sink.user}, with the password in {sink.password_env}; {sink.sslmode}"
        yield f"files    read as {sink.iam_role or 'the owner of AWS_ACCESS_KEY_ID'}"
        yield from (f"task     {task.meaning}" for task in sink.tasks)

    def examine(self) -> str:
        """See `SinkKind`."""
        from penstock.adapters.redshift.preflight import examine_database  # noqa: PLC0415 - drivers are slow to import

        # Any source whose rows come here: what is kept of each lies in a schema of its own.
        sources = [link.source for link in self.spec.links if link.sink == self.sink.name]
        return examine_database(self.cluster(), self._loads((*sources, self.spec.sources[0].name)[0]))

    def is_new(self) -> bool:
        """See `SqlKind`."""
        return False

    def open(self, link: LinkSpec, *, serve_queries: bool) -> Warehouse:
        """See `SqlKind`."""
        from penstock.adapters.redshift.warehouse import RedshiftWarehouse  # noqa: PLC0415 - drivers are slow to import

        del serve_queries
        return RedshiftWarehouse(self.cluster(), self._loads(link.source))

    def open_for_tasks(self) -> Warehouse:
        """See `TasksKind`. Who runs one holds the table of how far they are to the transaction's end."""
        from penstock.adapters.redshift.warehouse import RedshiftWarehouse  # noqa: PLC0415 - drivers are slow to import

        return RedshiftWarehouse(self.cluster(), replace(self._loads(TASKS), turns=TASKS))

    def open_to_read(self, link: LinkSpec) -> Warehouse:
        """See `SqlKind`. Redshift knows read-only transactions alone, and what reads here makes none."""
        return self.open(link, serve_queries=False)

    def query(self, statement: str, limits: ReadLimits) -> QueryResult:
        """See `SqlKind`."""
        from penstock.adapters.redshift.query import query  # noqa: PLC0415 - drivers are slow to import

        return query(self.cluster(), statement, limits)

    def open_audited(self) -> AuditedDatabase:
        """See `SqlKind`."""
        from penstock.adapters.redshift.audited import AuditedRedshift  # noqa: PLC0415 - drivers are slow to import
        from penstock.core.audit import redshift  # noqa: PLC0415

        is_super = self.sink.json_type == "super"
        return AuditedRedshift(self.cluster(), redshift.REDSHIFT_SUPER if is_super else redshift.REDSHIFT)

    def cluster(self) -> RedshiftCluster:
        """The database and our login to it."""
        from penstock.adapters.redshift.connection import RedshiftCluster  # noqa: PLC0415 - drivers are slow to import

        sink = self.sink
        return RedshiftCluster(sink.host, sink.port, sink.database, sink.user, secret(sink.password_env), sink.sslmode)

    def _loads(self, source: str) -> RedshiftLoads:
        """What loads of `source` need beside the database."""
        from penstock.adapters.redshift.warehouse import RedshiftLoads  # noqa: PLC0415 - drivers are slow to import

        return RedshiftLoads(
            open_object_store(self.spec),
            objects_url(self.spec),
            self._copy_rights(),
            self.spec.pipeline,
            self.sink.name,
            state_schema(REDSHIFT, self.spec.pipeline, source),
            TableLayouts([(table.patterns, _spread(table)) for table in self.sink.tables]),
            REDSHIFT_SUPER if self.sink.json_type == "super" else REDSHIFT,
        )

    def _copy_rights(self) -> CopyRights:
        region = self.spec.objects.region
        if self.sink.iam_role is not None:
            return CopyRights(self.sink.iam_role, region=region)
        key, secret_key, token = (os.environ.get(name, "") for name in _KEYS)
        if not (key and secret_key):
            message = f"the sink {self.sink.name} has no iam_role, and {_KEYS[0]} or {_KEYS[1]} is not set"
            raise UsageError(message, "give the sink the ARN of a role that its cluster has, or set both")
        return CopyRights("", key, secret_key, token, region)


def _spread(table: RedshiftTableSpec) -> Spread:
    style = "KEY" if table.distkey else table.distribution.upper()
    sort_style = "INTERLEAVED" if table.interleaved else "COMPOUND"
    return Spread(style, table.distkey or "", sort_style, table.sortkey, dict(table.encode))
