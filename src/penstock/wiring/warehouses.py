"""Opens what loads the SQL warehouses of a pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.config.sinks import SnowflakeSinkSpec
from penstock.wiring.open import open_object_store
from penstock.wiring.sink_kinds.snowflake import SnowflakeKind
from penstock.wiring.sink_kinds.table import sql_kind

if TYPE_CHECKING:
    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.links.warehouse.sink import LoadRules
    from penstock.ports.sink import Sink


def open_sink(spec: PipelineSpec, link: LinkSpec, *, serve_queries: bool = True) -> Sink:
    """The target of `link`; `serve_queries` lets other processes query it through us where only one may open it."""
    from penstock.links.warehouse.sink import SqlSink  # noqa: PLC0415 - drivers are slow to import

    sink = spec.sink(link.sink)
    if isinstance(sink, SnowflakeSinkSpec):
        return _open_landing(spec, link, sink)
    kind = sql_kind(spec, sink)
    rules = load_rules(link)
    if kind.transaction_rows_max is not None:
        rules = replace(rules, transaction_rows_max=kind.transaction_rows_max)
    warehouse = kind.open(link, serve_queries=serve_queries)
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


def load_rules(link: LinkSpec) -> LoadRules:
    """How `link` loads, by itself."""
    from penstock.links.transforms import open_column_rules  # noqa: PLC0415 - drivers are slow to import
    from penstock.links.warehouse.sink import LoadRules  # noqa: PLC0415

    columns = open_column_rules(link.columns)
    return LoadRules(dropped_tables=link.dropped_tables, deletes=link.deletes, overflow=link.overflow, columns=columns)


def _connections(spec: PipelineSpec, link: LinkSpec) -> int:
    sink = spec.sink(link.sink)
    return 1 if isinstance(sink, SnowflakeSinkSpec) else sql_kind(spec, sink).connections


def _open_landing(spec: PipelineSpec, link: LinkSpec, sink: SnowflakeSinkSpec) -> Sink:
    from penstock.links.warehouse.landing_sink import LandingSink  # noqa: PLC0415 - drivers are slow to import

    kind = SnowflakeKind(spec, sink)
    whose = (spec.pipeline, link.source)
    return LandingSink(kind.open(), kind.zone, whose, open_object_store(spec), load_rules(link))
