"""Requests for tables that a pipeline's file still has its links load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.ports.table_actions import TableActions, TableRequest


def carried_requests(spec: PipelineSpec, actions: TableActions) -> Sequence[TableRequest]:
    """The newest request for each table at each link that loads it; of what the file leaves out nobody asks."""
    links = {link.name: link for link in spec.links}
    found = [each for each in actions.requests() if each.link in links]
    return [each for each in found if carries(spec, links[each.link], TableId.parse(each.table))]


def carries(spec: PipelineSpec, link: LinkSpec, table: TableId) -> bool:
    """Whether `link` loads `table`: neither its `tables` nor those of its source leave it out."""
    return link.patterns.matches(table) and spec.source(link.source).patterns.matches(table)
