"""The tables that a link carries, as its source has them now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.config.mysql_source import MysqlSourceSpec
from penstock.wiring.capture_kinds import capture_kind
from penstock.wiring.warehouses import moved_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.core.tables import TableSchema


def present_tables(spec: PipelineSpec, link: LinkSpec) -> Sequence[TableSchema]:
    """Return the tables of the source that `link` carries, as they are now, by the names that the target has."""
    names, schemas = moved_names(spec, link), carried_tables(spec, link)
    if names is None:
        return schemas
    return [replace(each, table=names.in_target(each.table)) for each in schemas]


def carried_tables(spec: PipelineSpec, link: LinkSpec) -> Sequence[TableSchema]:
    """Return the same by the names that the source has; none where `link` begins at a join."""
    if link.source in {join.name for join in spec.joins}:
        return ()
    source = spec.source(link.source)
    found = capture_kind(source).tables(source)
    heartbeat = source.heartbeat.table_id if isinstance(source, MysqlSourceSpec) and source.heartbeat else None
    wanted = (table for table in found if source.patterns.matches(table) and link.patterns.matches(table))
    return [found[table] for table in wanted if table != heartbeat]
