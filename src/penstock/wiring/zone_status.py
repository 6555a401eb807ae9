"""What Snowflake itself says of the landing zones of a pipeline."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.errors import PenstockError
from penstock.core.warehouse.landing_state import (
    find_removed,
    find_task_troubles,
    find_troubles,
    removed_task,
    waiting_task,
)
from penstock.wiring.sink_kinds.table import landing_kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.core.tables import TableId
    from penstock.core.warehouse.landing_state import Trouble, ZoneFound
    from penstock.wiring.sink_kinds.snowflake import SnowflakeKind


@dataclass(frozen=True, slots=True)
class ZoneStatus:
    """What is not well with the zone of a link; `unanswered` says why nobody knows, and `hint` what to do."""

    link: str
    troubles: Sequence[Trouble] = ()
    unanswered: str = ""
    hint: str = ""


def ask_zones(spec: PipelineSpec) -> Sequence[ZoneStatus]:
    """Ask Snowflake; each query keeps the virtual warehouse of a sink awake. Never raises for one that is away."""
    return [ask_zone(link, kind) for link, kind in zone_links(spec)]


def zone_links(spec: PipelineSpec) -> Sequence[tuple[LinkSpec, SnowflakeKind]]:
    """The links that lead into a landing zone."""
    return [(link, kind) for link in spec.links if (kind := landing_kind(spec, spec.sink(link.sink)))]


def find_foreign_rows(link: LinkSpec, kind: SnowflakeKind) -> Sequence[Trouble]:
    """Look for messages that somebody else wrote, which reads every landing table. Nothing for a zone that is away."""
    # Imported where they are used: drivers are slow to import.
    from penstock.core.warehouse.landing_state import foreign_rows, plan_foreign_rows  # noqa: PLC0415
    from penstock.links.warehouse.progress import TargetProgress  # noqa: PLC0415

    found = []
    with suppress(PenstockError), closing(kind.open()) as database:
        progress = TargetProgress(database, kind.spec.pipeline, link.source)
        for state in progress.tables() if progress.is_made() else ():
            query = plan_foreign_rows(kind.zone, state.schema.table)
            ((rows,),) = database.fetch(query, [kind.spec.pipeline, link.source])
            if int(rows):
                found.append(foreign_rows(state.schema.table, int(rows)))
    return found


def ask_zone(link: LinkSpec, kind: SnowflakeKind) -> ZoneStatus:
    """Ask about the tables that the link has in its zone; with the first link, about tasks that are of no table."""
    # Imported where they are used: drivers are slow to import.
    from penstock.adapters.snowflake.zone import read_zone  # noqa: PLC0415
    from penstock.links.warehouse.progress import TargetProgress  # noqa: PLC0415

    try:
        with closing(kind.open()) as database:
            progress = TargetProgress(database, kind.spec.pipeline, link.source)
            tables = progress.tables() if progress.is_made() else ()
            present = [table.schema for table in tables if not table.ended]
            made = [each.table for each in present if (rule := kind.zone.rule(each.table)) and rule.new_columns(each)]
            found = read_zone(database, kind.zone.schema, made) if present else None
    except PenstockError as error:
        return ZoneStatus(link.name, unanswered=error.message, hint=error.hint)
    if found is None:
        return ZoneStatus(link.name)
    troubles = [each for schema in present for each in find_troubles(kind.zone, schema, found)]
    return ZoneStatus(link.name, [*troubles, *_task_troubles(link, kind, {schema.table for schema in present}, found)])


def is_first_link(link: LinkSpec, kind: SnowflakeKind) -> bool:
    """Whether no link before it leads into the same sink."""
    return next(each for each in kind.spec.links if each.sink == link.sink) == link


def _task_troubles(
    link: LinkSpec, kind: SnowflakeKind, present: Collection[TableId], found: ZoneFound
) -> Iterator[Trouble]:
    zone, links = kind.zone, [each for each in kind.spec.links if each.sink == link.sink]
    if is_first_link(link, kind):
        yield from find_task_troubles(zone, None, found)
        yield from (removed_task(name) for name in find_removed(zone, kind.spec.pipeline, found))
    if len(links) == 1:
        # With several, another one may have the table.
        yield from (waiting_task(task) for task in zone.tasks if task.table and task.table not in present)
