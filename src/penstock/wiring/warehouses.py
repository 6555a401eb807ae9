"""Opens what loads the SQL warehouses of a pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.config.link_tables import one_schema, target_patterns
from penstock.core.warehouse.moved_names import MovedNames
from penstock.wiring.restored_files import open_restoring_store
from penstock.wiring.sink_kinds.table import landing_kind, sql_kind

if TYPE_CHECKING:
    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.links.warehouse.load_rules import LoadRules
    from penstock.ports.landing import LandingDatabase
    from penstock.ports.sink import Sink
    from penstock.ports.warehouse import Warehouse
    from penstock.wiring.sink_kinds.snowflake import SnowflakeKind


def open_sink(spec: PipelineSpec, link: LinkSpec, *, serve_queries: bool = True) -> Sink:
    """The target of `link`; `serve_queries` lets other processes query it through us where only one may open it."""
    from penstock.links.warehouse.sink import SqlSink  # noqa: PLC0415 - drivers are slow to import

    sink = spec.sink(link.sink)
    if zone := landing_kind(spec, sink):
        return in_its_schema(spec, link, _open_landing(spec, link, zone))
    kind = sql_kind(spec, sink)
    rules = load_rules(spec, link)
    if kind.transaction_rows_max is not None:
        rules = replace(rules, transaction_rows_max=kind.transaction_rows_max)
    warehouse = kind.open(link, serve_queries=serve_queries)
    return in_its_schema(spec, link, SqlSink(warehouse, spec.pipeline, link.source, open_restoring_store(spec), rules))


def open_state_database(spec: PipelineSpec, link: LinkSpec) -> Warehouse | LandingDatabase:
    """Where the target of `link` says how far it is; to read, whoever loads it meanwhile."""
    sink = spec.sink(link.sink)
    if zone := landing_kind(spec, sink):
        return zone.open()
    return sql_kind(spec, sink).open(link, serve_queries=False)


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


def in_its_schema(spec: PipelineSpec, link: LinkSpec, sink: Sink) -> Sink:
    """Return `sink` as `link` sees it, which may have its tables in another schema there."""
    names = moved_names(spec, link)
    if names is None:
        return sink
    from penstock.links.warehouse.moved_tables import MovedTables  # noqa: PLC0415 - drivers are slow to import

    return MovedTables(sink, names)


def moved_names(spec: PipelineSpec, link: LinkSpec) -> MovedNames | None:
    """The names that `link` gives the source's tables; None if it leaves them in their schema."""
    if link.target_schema is None:
        return None
    origin = one_schema(spec.source(link.source).tables, link.tables)
    return None if origin is None else MovedNames(origin, link.target_schema)


def load_rules(spec: PipelineSpec, link: LinkSpec) -> LoadRules:
    """How `link` loads, by itself: by the names that tables have in the target."""
    from penstock.core.transforms.column_patterns import ColumnPatterns  # noqa: PLC0415 - drivers are slow to import
    from penstock.core.transforms.column_rules import ColumnRules  # noqa: PLC0415
    from penstock.links.transforms import open_column_rules  # noqa: PLC0415 - drivers are slow to import
    from penstock.links.warehouse.load_rules import LoadRules  # noqa: PLC0415

    columns, names = open_column_rules(link.columns), moved_names(spec, link)
    if names is not None:
        rules = [(target_patterns(rule.patterns.patterns, names.origin, names.schema), rule) for rule in columns.rules]
        moved = (replace(rule, patterns=ColumnPatterns(tuple(patterns))) for patterns, rule in rules if patterns)
        columns = ColumnRules(tuple(moved))
    return LoadRules(dropped_tables=link.dropped_tables, deletes=link.deletes, overflow=link.overflow, columns=columns)


def _connections(spec: PipelineSpec, link: LinkSpec) -> int:
    sink = spec.sink(link.sink)
    return 1 if landing_kind(spec, sink) else sql_kind(spec, sink).connections


def _open_landing(spec: PipelineSpec, link: LinkSpec, kind: SnowflakeKind) -> Sink:
    from penstock.links.warehouse.landing_sink import LandingSink  # noqa: PLC0415 - drivers are slow to import

    whose = (spec.pipeline, link.source)
    return LandingSink(kind.open_to_load(link), kind.zone, whose, open_restoring_store(spec), load_rules(spec, link))
