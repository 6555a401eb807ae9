"""Opens what loads the SQL warehouses of a pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.wiring.open import open_object_store
from penstock.wiring.sink_kinds.table import sql_kind

if TYPE_CHECKING:
    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.links.warehouse.sink import LoadRules
    from penstock.ports.sink import Sink


def open_sink(spec: PipelineSpec, link: LinkSpec, *, serve_queries: bool = True) -> Sink:
    """The target of `link`; `serve_queries` lets other processes query it through us where only one may open it."""
    from penstock.links.warehouse.sink import SqlSink  # noqa: PLC0415 - drivers are slow to import

    kind = sql_kind(spec, spec.sink(link.sink))
    rules = load_rules(link)
    if kind.transaction_rows_max is not None:
        rules = replace(rules, transaction_rows_max=kind.transaction_rows_max)
    warehouse = kind.open(link, serve_queries=serve_queries)
    return SqlSink(warehouse, spec.pipeline, link.source, open_object_store(spec), rules)


def open_sinks(spec: PipelineSpec, link: LinkSpec) -> list[Sink]:
    """Open the target of `link` as often as tables are to be loaded side by side."""
    opened: list[Sink] = []
    try:
        while len(opened) < sql_kind(spec, spec.sink(link.sink)).connections:
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
