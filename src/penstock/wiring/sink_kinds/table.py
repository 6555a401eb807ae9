"""The table of kinds of sink: the one place that tells them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from penstock.config.sinks import DeltaSinkSpec, DuckdbSinkSpec, PostgresSinkSpec, RedshiftSinkSpec
from penstock.core.errors import UsageError
from penstock.wiring.sink_kinds.delta import DeltaKind
from penstock.wiring.sink_kinds.duckdb import DuckdbKind
from penstock.wiring.sink_kinds.postgres import PostgresKind
from penstock.wiring.sink_kinds.redshift import RedshiftKind

if TYPE_CHECKING:
    from penstock.config.sinks import SinkSpec
    from penstock.config.specs import PipelineSpec
    from penstock.wiring.sink_kinds.kind import SinkKind, SqlKind


def sink_kind(spec: PipelineSpec, sink: SinkSpec) -> SinkKind:
    """Return `sink` as its kind sees it."""
    return DeltaKind(spec, sink) if isinstance(sink, DeltaSinkSpec) else sql_kind(spec, sink)


def sql_kind(spec: PipelineSpec, sink: SinkSpec) -> SqlKind:
    """Return a `sink` that takes SQL as its kind sees it. Raises UsageError for Delta tables, which take none."""
    match sink:
        case DuckdbSinkSpec():
            return DuckdbKind(spec, sink)
        case PostgresSinkSpec():
            return PostgresKind(spec, sink)
        case RedshiftSinkSpec():
            return RedshiftKind(spec, sink)
        case DeltaSinkSpec():
            message = "changes of Delta tables are no SQL, but entries in their logs"
            raise UsageError(message, "see what each load did in the table's log: DESCRIBE HISTORY")
        case _:
            assert_never(sink)
