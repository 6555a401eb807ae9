"""What a loading link is told to do with single tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.transforms.column_patterns import ColumnPatterns
from penstock.links.warehouse.table_control import TableControl
from penstock.wiring.carried_requests import carries
from penstock.wiring.open import open_table_actions
from penstock.wiring.restored_files import open_restoring_store

if TYPE_CHECKING:
    from penstock.config.specs import LinkSpec, PipelineSpec
    from penstock.core.tables import TableId


def open_table_control(spec: PipelineSpec, link: LinkSpec) -> TableControl:
    """The requests of `link`; whoever takes it closes it."""
    rules = link.columns
    # Each list by itself: what one of them excepts, another may hide.
    lists = (rules.drop, rules.hash, *(mask.columns for mask in rules.mask))
    hidden = [ColumnPatterns(tuple(columns)) for columns in lists if columns]

    def hides(table: TableId, column: str) -> bool:
        return any(patterns.matches(table, column) for patterns in hidden)

    def wanted(table: TableId) -> bool:
        return carries(spec, link, table)

    return TableControl(link.name, open_table_actions(spec), open_restoring_store(spec), hides, wanted)
