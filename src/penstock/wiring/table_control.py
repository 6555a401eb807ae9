"""What a loading link is told to do with single tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.transforms.column_patterns import ColumnPatterns
from penstock.links.warehouse.table_control import TableControl
from penstock.wiring.open import open_table_actions
from penstock.wiring.restored_files import open_restoring_store

if TYPE_CHECKING:
    from penstock.config.specs import LinkSpec, PipelineSpec


def open_table_control(spec: PipelineSpec, link: LinkSpec) -> TableControl:
    """The requests of `link`; whoever takes it closes it."""
    rules = link.columns
    hidden = ColumnPatterns((*rules.drop, *rules.hash, *(column for mask in rules.mask for column in mask.columns)))
    return TableControl(link.name, open_table_actions(spec), open_restoring_store(spec), hidden.matches)
