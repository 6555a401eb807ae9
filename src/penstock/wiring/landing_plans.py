"""What the landing zone of a Snowflake sink is made of: planned for the source's tables, and made."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError, UsageError
from penstock.core.warehouse.landing import plan_rebuild, plan_table, plan_zone
from penstock.core.warehouse.landing_tasks import plan_graphs
from penstock.core.warehouse.landing_work import NO_TABLE, plan_restart, plan_work
from penstock.wiring.load_plans import TablePlan
from penstock.wiring.present_tables import present_tables
from penstock.wiring.zone_status import ask_zone, find_foreign_rows, is_first_link, zone_links

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.adapters.snowflake.connection import SnowflakeDatabase
    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.core.tables import TableSchema
    from penstock.core.warehouse.landing_work import Work
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
        if is_first_link(link, kind) and (statements := plan_graphs(kind.zone, None)):
            yield TablePlan(link.name, NO_TABLE, tuple(statements))


def apply_zones(spec: PipelineSpec) -> Iterator[TablePlan]:
    """Make what `plan_zones` plans, and yield each table's statements once they are done.

    What is there stays. A table that has rows is made for the schema that these have, whatever the source's is by
    now, and also if the source or the file has it no more; one that ended is left to the run.
    """
    # Imported where it is used: drivers are slow to import.
    from penstock.links.warehouse.progress import TargetProgress  # noqa: PLC0415

    # A source that does not answer is told before any task is suspended.
    links = [(link, kind, present_tables(spec, link)) for link, kind in _links(spec)]
    for link, kind, present in links:
        with closing(kind.open()) as database:
            progress = TargetProgress(database, spec.pipeline, link.source)
            progress.create()
            database.run(plan_zone(kind.zone))
            states = {state.schema.table: state for state in progress.tables()}
            made = [state.schema for state in states.values() if not state.ended]
            ahead = [schema for schema in present if schema.table not in states]
            yield from _apply(database, link, kind, made, ahead)


def _apply(
    database: SnowflakeDatabase,
    link: LinkSpec,
    kind: SnowflakeKind,
    made: Sequence[TableSchema],
    ahead: Sequence[TableSchema],
) -> Iterator[TablePlan]:
    """Make the tables of a link, loaded ones and those ahead of their first rows, and what comes after them.

    What cannot be made anew goes on as it was.
    """
    from penstock.adapters.snowflake.zone import read_zone  # noqa: PLC0415 - as above

    zone, found, halted = kind.zone, read_zone(database, kind.zone.schema), set[str]()
    for work in plan_work(zone, made, ahead, found, kind.spec.pipeline if is_first_link(link, kind) else None):
        halted.update(work.halted)
        for ran in _run(database, link, work):
            if ran.error:
                halted.update(work.at_risk)
            yield ran
    if halted:
        yield from _run(database, link, plan_restart(zone, halted, found, read_zone(database, zone.schema)))


def _run(database: SnowflakeDatabase, link: LinkSpec, work: Work) -> Iterator[TablePlan]:
    """Run what is planned, and yield it if it is anything."""
    try:
        if work.refusal:
            raise work.refusal
        for statement in work.statements:
            database.run(statement)
    except PenstockError as error:
        yield TablePlan(link.name, work.subject, error=error.message, hint=error.hint)
        return
    if work.statements:
        yield TablePlan(link.name, work.subject, work.statements)


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
