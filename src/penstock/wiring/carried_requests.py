"""Requests for tables that a pipeline's file still has its links load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.config.specs import PipelineSpec
    from penstock.ports.table_actions import TableActions, TableRequest


def carried_requests(spec: PipelineSpec, actions: TableActions) -> Sequence[TableRequest]:
    """The newest request for each table at each link that loads it; of what the file leaves out nobody asks."""
    patterns = {link.name: link.patterns for link in spec.links}
    found = actions.requests()
    return [each for each in found if each.link in patterns and patterns[each.link].matches(TableId.parse(each.table))]
