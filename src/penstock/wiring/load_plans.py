"""What the next loads would change in the tables of every target, held against the source's present tables."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError
from penstock.core.transforms.column_history import ColumnHistory
from penstock.core.warehouse.dialect import DUCKDB
from penstock.core.warehouse.overflow import fit_schema
from penstock.core.warehouse.planner import plan_create
from penstock.core.warehouse.target_table import TargetTable
from penstock.wiring.capture_kinds import capture_kind
from penstock.wiring.pipeline_status import read_status
from penstock.wiring.present_tables import present_tables
from penstock.wiring.sink_kinds.table import sql_kind
from penstock.wiring.warehouses import load_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.core.tables import TableSchema


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The SQL for one table of a link's sink; or `error` and `hint`, why there is none. `table` "" for all of them."""

    link: str
    table: str
    statements: tuple[str, ...] = ()
    error: str = ""
    hint: str = ""


def plan_loads(spec: PipelineSpec) -> Iterator[TablePlan]:
    """Plan every link's tables, link by link. Connects to sources and targets, and changes nothing.

    Never raises for a server that is away or a table that would stop: its plan says so.
    """
    for link in spec.links:
        try:
            yield from _plan_link(spec, link)
        except PenstockError as error:
            yield TablePlan(link.name, "", error=error.message, hint=error.hint)


def _plan_link(spec: PipelineSpec, link: LinkSpec) -> Iterator[TablePlan]:
    # Imported where it is used: drivers are slow to import.
    from penstock.links.warehouse.preview import LoadPreview  # noqa: PLC0415

    kind = sql_kind(spec, spec.sink(link.sink))
    stopped = {each.table: each for each in read_status(spec).tables if each.error and each.link == link.source}
    tables = []
    for schema in present_tables(spec, link):
        if why := stopped.get(str(schema.table)):
            yield TablePlan(link.name, why.table, error=why.error, hint=why.hint)
        else:
            tables.append(schema)
    if kind.is_new():
        yield from (_plan_first(spec, link, schema) for schema in tables)
        return
    with closing(kind.open_to_read(link)) as warehouse:
        refuses = capture_kind(spec.source(link.source)).refusal
        preview = LoadPreview(warehouse, spec.pipeline, link.source, load_rules(spec, link), refuses)
        for schema in tables:
            try:
                yield TablePlan(link.name, str(schema.table), tuple(preview.plan(schema)))
            except PenstockError as error:
                yield TablePlan(link.name, str(schema.table), error=error.message, hint=error.hint)


def _plan_first(spec: PipelineSpec, link: LinkSpec, schema: TableSchema) -> TablePlan:
    try:
        rules = load_rules(spec, link).columns
        treatment, _ = rules.begin(schema, ColumnHistory())
        target = TargetTable("", fit_schema(DUCKDB, treatment.schema, link.overflow), link.deletes)
        return TablePlan(link.name, str(schema.table), tuple(plan_create(DUCKDB, target)))
    except PenstockError as error:
        return TablePlan(link.name, str(schema.table), error=error.message, hint=error.hint)
