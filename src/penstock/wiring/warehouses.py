"""Opens the SQL warehouses of a pipeline from its spec, and what loads them."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.config.places import objects_url
from penstock.config.secrets import secret
from penstock.config.sinks import DeltaSinkSpec, DuckdbSinkSpec, PostgresSinkSpec, RedshiftSinkSpec
from penstock.core.errors import UsageError
from penstock.core.warehouse.attributes import Spread
from penstock.core.warehouse.dialects import REDSHIFT, REDSHIFT_SUPER
from penstock.core.warehouse.redshift_copy import CopyRights
from penstock.core.warehouse.state_schema import state_schema
from penstock.core.warehouse.table_layout import TableLayouts
from penstock.wiring.open import open_object_store

if TYPE_CHECKING:
    from penstock.adapters.postgres.connection import PostgresServer
    from penstock.adapters.redshift.connection import RedshiftCluster
    from penstock.adapters.redshift.warehouse import RedshiftLoads
    from penstock.config.sinks import RedshiftTableSpec
    from penstock.config.spec import TlsSpec
    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.links.warehouse.sink import LoadRules
    from penstock.ports.sink import Sink
    from penstock.ports.warehouse import Warehouse

_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_REDSHIFT_ROWS_MAX = 20_000_000
"""Of a transaction: it locks its tables for minutes rather than for hours."""


def postgres_server(sink: PostgresSinkSpec) -> PostgresServer:
    """The sink's database and our login to it."""
    from penstock.adapters.postgres.connection import PostgresServer  # noqa: PLC0415 - drivers are slow to import

    tls = {} if sink.tls is None else libpq_tls(sink.tls)
    return PostgresServer(sink.host, sink.port, sink.database, sink.user, secret(sink.password_env), tls)


def libpq_tls(tls: TlsSpec) -> dict[str, str]:
    """Return what `tls` asks for as parameters of libpq."""
    mode = {"full": "verify-full", "ca": "verify-ca", "none": "require"}[tls.verify]
    # Without a file of its own libpq trusts the machine's authorities only where the host is looked at, too.
    given = {"sslrootcert": tls.ca or ("system" if tls.verify == "full" else None), "sslcert": tls.cert}
    given["sslkey"] = tls.key
    return {"sslmode": mode, **{name: str(file) for name, file in given.items() if file is not None}}


def redshift_cluster(sink: RedshiftSinkSpec) -> RedshiftCluster:
    """The sink's database and our login to it."""
    from penstock.adapters.redshift.connection import RedshiftCluster  # noqa: PLC0415 - drivers are slow to import

    return RedshiftCluster(sink.host, sink.port, sink.database, sink.user, secret(sink.password_env), sink.sslmode)


def redshift_loads(spec: PipelineSpec, sink: RedshiftSinkSpec, source: str) -> RedshiftLoads:
    """What loads of `source` into the sink need beside its database."""
    from penstock.adapters.redshift.warehouse import RedshiftLoads  # noqa: PLC0415 - drivers are slow to import

    return RedshiftLoads(
        open_object_store(spec),
        objects_url(spec),
        _copy_rights(spec, sink),
        spec.pipeline,
        sink.name,
        state_schema(REDSHIFT, spec.pipeline, source),
        TableLayouts([(table.patterns, _spread(table)) for table in sink.tables]),
        REDSHIFT_SUPER if sink.json_type == "super" else REDSHIFT,
    )


def _copy_rights(spec: PipelineSpec, sink: RedshiftSinkSpec) -> CopyRights:
    if sink.iam_role is not None:
        return CopyRights(sink.iam_role, region=spec.objects.region)
    key, secret_key, token = (os.environ.get(name, "") for name in _KEYS)
    if not (key and secret_key):
        message = f"the sink {sink.name} has no iam_role, and {_KEYS[0]} or {_KEYS[1]} is not set"
        raise UsageError(message, "give the sink the ARN of a role that its cluster has, or set both")
    return CopyRights("", key, secret_key, token, spec.objects.region)


def _spread(table: RedshiftTableSpec) -> Spread:
    style = "KEY" if table.distkey else table.distribution.upper()
    sort_style = "INTERLEAVED" if table.interleaved else "COMPOUND"
    return Spread(style, table.distkey or "", sort_style, table.sortkey, dict(table.encode))


def open_sink(spec: PipelineSpec, link: LinkSpec, *, serve_queries: bool = True) -> Sink:
    """The target of `link`; `serve_queries` lets other processes query it through us where only one may open it."""
    from penstock.links.warehouse.sink import SqlSink  # noqa: PLC0415 - drivers are slow to import

    rules = load_rules(link)
    if isinstance(spec.sink(link.sink), RedshiftSinkSpec):
        rules = replace(rules, transaction_rows_max=_REDSHIFT_ROWS_MAX)
    warehouse = _open_warehouse(spec, link, serve_queries=serve_queries)
    return SqlSink(warehouse, spec.pipeline, link.source, open_object_store(spec), rules)


def open_sinks(spec: PipelineSpec, link: LinkSpec) -> list[Sink]:
    """Open the target of `link` as often as tables are to be loaded side by side."""
    opened: list[Sink] = []
    try:
        while len(opened) < _connections(spec, link):
            opened.append(open_sink(spec, link))
    except BaseException:
        for sink in opened:
            sink.close()
        raise
    return opened


def _connections(spec: PipelineSpec, link: LinkSpec) -> int:
    sink = spec.sink(link.sink)
    return sink.connections if isinstance(sink, PostgresSinkSpec) else 1


def load_rules(link: LinkSpec) -> LoadRules:
    """How `link` loads, by itself."""
    from penstock.links.transforms import open_column_rules  # noqa: PLC0415 - drivers are slow to import
    from penstock.links.warehouse.sink import LoadRules  # noqa: PLC0415

    columns = open_column_rules(link.columns)
    return LoadRules(dropped_tables=link.dropped_tables, deletes=link.deletes, overflow=link.overflow, columns=columns)


def open_to_read(spec: PipelineSpec, link: LinkSpec) -> Warehouse:
    """The target of `link`, in which nothing is to be changed. UsageError for Delta tables."""
    sink = spec.sink(link.sink)
    if isinstance(sink, DeltaSinkSpec):
        message = "changes of Delta tables are no SQL, but entries in their logs"
        raise UsageError(message, "see what each load did in the table's log: DESCRIBE HISTORY")
    if isinstance(sink, DuckdbSinkSpec):
        from penstock.adapters.duckdb.warehouse import DuckdbWarehouse  # noqa: PLC0415 - drivers are slow to import

        return DuckdbWarehouse(sink.path, read_only=True)
    warehouse = _open_server(spec, sink, link.source)
    # Redshift has it for transactions only, and what reads here makes none.
    if isinstance(sink, PostgresSinkSpec):
        warehouse.run("SET default_transaction_read_only = on")
    return warehouse


def _open_warehouse(spec: PipelineSpec, link: LinkSpec, *, serve_queries: bool) -> Warehouse:
    sink = spec.sink(link.sink)
    if isinstance(sink, DeltaSinkSpec):
        raise TypeError(sink)
    if not isinstance(sink, DuckdbSinkSpec):
        return _open_server(spec, sink, link.source)
    from penstock.adapters.duckdb.query_wire import run_file  # noqa: PLC0415 - drivers are slow to import
    from penstock.adapters.duckdb.warehouse import DuckdbWarehouse  # noqa: PLC0415

    warehouse = DuckdbWarehouse(sink.path)
    if serve_queries:
        warehouse.serve_queries(run_file(spec.home, sink.name))
    return warehouse


def _open_server(spec: PipelineSpec, sink: PostgresSinkSpec | RedshiftSinkSpec, source: str) -> Warehouse:
    if isinstance(sink, RedshiftSinkSpec):
        from penstock.adapters.redshift.warehouse import RedshiftWarehouse  # noqa: PLC0415 - drivers are slow to import

        return RedshiftWarehouse(redshift_cluster(sink), redshift_loads(spec, sink, source))
    from penstock.adapters.postgres.warehouse import PostgresWarehouse  # noqa: PLC0415

    return PostgresWarehouse(postgres_server(sink), f"{spec.pipeline}/{source}")
