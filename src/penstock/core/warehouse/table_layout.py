"""How tables that a target makes are spread over its nodes, sorted and compressed, where its config says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.patterns import TablePatterns
    from penstock.core.tables import TableSchema
    from penstock.core.warehouse.attributes import Spread


@dataclass(frozen=True, slots=True)
class TableLayouts:
    """Layouts by the tables that they are for; the first that matches counts."""

    layouts: Sequence[tuple[TablePatterns, Spread]] = ()

    def of(self, schema: TableSchema) -> Spread | None:
        """Return the layout of a table, None where the target is to find one itself."""
        return next((spread for patterns, spread in self.layouts if patterns.matches(schema.table)), None)
