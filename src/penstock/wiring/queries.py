"""Asking a sink, whether or not the pipeline runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from penstock.config.sinks import DeltaSinkSpec, DuckdbSinkSpec, PostgresSinkSpec, RedshiftSinkSpec

if TYPE_CHECKING:
    from penstock.config.sinks import SinkSpec
    from penstock.config.specs import PipelineSpec
    from penstock.ports.queries import QueryResult, ReadLimits


def query_sink(spec: PipelineSpec, sink: SinkSpec, statement: str, limits: ReadLimits) -> QueryResult:
    """Run one reading statement on `sink`.

    Raises UsageError for one that does not read or has a mistake, SinkError and
    UnavailableError as the sink's own query does.
    """
    # Imported where they are used: drivers are slow to import.
    match sink:
        case DuckdbSinkSpec():
            from penstock.adapters.duckdb.query import query as query_duckdb  # noqa: PLC0415
            from penstock.adapters.duckdb.query_wire import run_file  # noqa: PLC0415

            return query_duckdb(sink.path, run_file(spec.home, sink.name), statement, limits)
        case PostgresSinkSpec():
            from penstock.adapters.postgres.query import query as query_postgres  # noqa: PLC0415
            from penstock.wiring.warehouses import postgres_server  # noqa: PLC0415

            return query_postgres(postgres_server(sink), statement, limits)
        case RedshiftSinkSpec():
            from penstock.adapters.redshift.query import query as query_redshift  # noqa: PLC0415
            from penstock.wiring.warehouses import redshift_cluster  # noqa: PLC0415

            return query_redshift(redshift_cluster(sink), statement, limits)
        case DeltaSinkSpec():
            # Spark reads it, and is above this layer.
            raise TypeError(sink)
        case _:
            assert_never(sink)
