"""The table of kinds of sink: the one place that tells them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from penstock.config.sinks import DeltaSinkSpec, DuckdbSinkSpec, PostgresSinkSpec, RedshiftSinkSpec, SnowflakeSinkSpec
from penstock.core.errors import UsageError
from penstock.wiring.sink_kinds.delta import DeltaKind
from penstock.wiring.sink_kinds.duckdb import DuckdbKind
from penstock.wiring.sink_kinds.postgres import PostgresKind
from penstock.wiring.sink_kinds.redshift import RedshiftKind
from penstock.wiring.sink_kinds.snowflake import SnowflakeKind, SnowflakeTablesKind

if TYPE_CHECKING:
    from penstock.config.sinks import SinkSpec, TaskSinkSpec
    from penstock.config.specs import PipelineSpec
    from penstock.wiring.sink_kinds.kind import QueriedKind, SinkKind, SqlKind, TasksKind


def sink_kind(spec: PipelineSpec, sink: SinkSpec) -> SinkKind:
    """Return `sink` as its kind sees it."""
    return DeltaKind(spec, sink) if isinstance(sink, DeltaSinkSpec) else queried_kind(spec, sink)


def queried_kind(spec: PipelineSpec, sink: SinkSpec) -> QueriedKind:
    """Return a `sink` that answers SQL as its kind sees it. Raises UsageError for Delta tables, which Spark asks."""
    return landing_kind(spec, sink) or sql_kind(spec, sink)


def landing_kind(spec: PipelineSpec, sink: SinkSpec) -> SnowflakeKind | None:
    """Return a `sink` with a landing zone as its kind sees it; None for others."""
    if isinstance(sink, SnowflakeSinkSpec) and sink.landing is not False:
        return SnowflakeKind(spec, sink)
    return None


def sql_kind(spec: PipelineSpec, sink: SinkSpec) -> SqlKind:
    """Return a `sink` that is loaded by SQL in transactions as its kind sees it. Raises UsageError for others."""
    match sink:
        case DuckdbSinkSpec() | PostgresSinkSpec() | RedshiftSinkSpec():
            return tasks_kind(spec, sink)
        case DeltaSinkSpec():
            message = "changes of Delta tables are no SQL, but entries in their logs"
            raise UsageError(message, "see what each load did in the table's log: DESCRIBE HISTORY")
        case SnowflakeSinkSpec(landing=False):
            return SnowflakeTablesKind(spec, sink)
        case SnowflakeSinkSpec():
            message = "tables of Snowflake are merged by its own tasks"
            raise UsageError(message, "see their SQL: penstock snowflake plan FILE")
        case _:
            assert_never(sink)


def tasks_kind(spec: PipelineSpec, sink: TaskSinkSpec) -> TasksKind:
    """Return a `sink` that can have tasks as its kind sees it."""
    match sink:
        case DuckdbSinkSpec():
            return DuckdbKind(spec, sink)
        case PostgresSinkSpec():
            return PostgresKind(spec, sink)
        case RedshiftSinkSpec():
            return RedshiftKind(spec, sink)
        case _:
            assert_never(sink)
