"""What the landing zone of a Snowflake sink is made of: planned for the source's tables, and made."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from penstock.config.sinks import SnowflakeSinkSpec
from penstock.core.errors import PenstockError, UsageError
from penstock.core.warehouse.landing import plan_table
from penstock.wiring.load_plans import TablePlan, present_tables
from penstock.wiring.sink_kinds.snowflake import SnowflakeKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.config.specs import LinkSpec, PipelineSpec


def plan_zones(spec: PipelineSpec) -> Iterator[TablePlan]:
    """Plan the tables of every link to a Snowflake sink. Connects to sources alone. Raises UsageError without any."""
    for link, kind in _links(spec):
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


def _links(spec: PipelineSpec) -> list[tuple[LinkSpec, SnowflakeKind]]:
    sinks = [(link, spec.sink(link.sink)) for link in spec.links]
    found = [(link, SnowflakeKind(spec, sink)) for link, sink in sinks if isinstance(sink, SnowflakeSinkSpec)]
    if not found:
        message = f"no link of pipeline {spec.pipeline} goes to a sink of kind snowflake"
        raise UsageError(message, "give it one, or see `penstock check FILE --plan` for other sinks")
    return found
