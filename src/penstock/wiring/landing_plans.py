"""What the landing zone of a Snowflake sink is made of: planned for the source's tables, and made."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError, UsageError
from penstock.core.warehouse.landing import plan_rebuild, plan_table
from penstock.wiring.load_plans import TablePlan, present_tables
from penstock.wiring.zone_status import ask_zone, find_foreign_rows, zone_links

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.wiring.sink_kinds.snowflake import SnowflakeKind


def plan_zones(spec: PipelineSpec) -> Iterator[TablePlan]:
    """Plan the tables of every link to a Snowflake sink; first what differs in Snowflake from what was made.

    Connects to sources and to Snowflake, and changes nothing. Raises UsageError without such a link.
    """
    for link, kind in _links(spec):
        zone = ask_zone(link, kind)
        if zone.unanswered:
            yield TablePlan(link.name, "", error=zone.unanswered, hint=zone.hint)
        for trouble in (*zone.troubles, *find_foreign_rows(link, kind)):
            yield TablePlan(link.name, trouble.table, error=trouble.text, hint=trouble.hint)
        for schema in present_tables(spec, link):
            try:
                yield TablePlan(link.name, str(schema.table), tuple(plan_table(kind.zone, schema)))
            except PenstockError as error:
                yield TablePlan(link.name, str(schema.table), error=error.message, hint=error.hint)


def apply_zones(spec: PipelineSpec) -> Iterator[TablePlan]:
    """Make what `plan_zones` plans, and yield each table's statements once they are done.

    What is there stays. A table that has rows is made for the schema that these have, whatever the source's is by now.
    """
    # Imported where it is used: drivers are slow to import.
    from penstock.links.warehouse.progress import TargetProgress  # noqa: PLC0415

    for link, kind in _links(spec):
        with closing(kind.open()) as database:
            progress = TargetProgress(database, spec.pipeline, link.source)
            progress.create()
            for schema in present_tables(spec, link):
                known = progress.table(schema.table)
                try:
                    statements = plan_table(kind.zone, known.schema if known else schema)
                    for statement in statements:
                        database.run(statement)
                    yield TablePlan(link.name, str(schema.table), tuple(statements))
                except PenstockError as error:
                    yield TablePlan(link.name, str(schema.table), error=error.message, hint=error.hint)


def rebuild_table(spec: PipelineSpec, name: str) -> Iterator[TablePlan]:
    """Make the stream and the task of a table anew in every zone that has it, and yield what was done.

    Raises UsageError where no zone has such a table.
    """
    # Imported where it is used: drivers are slow to import.
    from penstock.links.warehouse.progress import TargetProgress  # noqa: PLC0415

    rebuilt = False
    for link, kind in _links(spec):
        with closing(kind.open()) as database:
            progress = TargetProgress(database, spec.pipeline, link.source)
            states = progress.tables() if progress.is_made() else ()
            for state in states:
                if str(state.schema.table) == name and not state.ended:
                    statements = plan_rebuild(kind.zone, state.schema)
                    for statement in statements:
                        database.run(statement)
                    rebuilt = True
                    yield TablePlan(link.name, name, tuple(statements))
    if not rebuilt:
        message = f"no landing zone of pipeline {spec.pipeline} has a table {name} that goes on"
        raise UsageError(message, "name it as the source does, with its schema, as in: shop.orders")


def _links(spec: PipelineSpec) -> Sequence[tuple[LinkSpec, SnowflakeKind]]:
    found = zone_links(spec)
    if not found:
        message = f"no link of pipeline {spec.pipeline} goes to a sink of kind snowflake"
        raise UsageError(message, "give it one, or see `penstock check FILE --plan` for other sinks")
    return found
