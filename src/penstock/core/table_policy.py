"""What the user of a source has decided about its tables; it shapes their schemas."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.core.zero_dates import with_zero_dates

if TYPE_CHECKING:
    from penstock.core.tables import TableSchema
    from penstock.core.zero_dates import ZeroDates

RowImages: TypeAlias = Literal["full", "partial"]
"""`full` stops a table at the first row that was logged without all of its columns, `partial` carries what is there."""


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """The decisions, each with its default."""

    zero_dates: ZeroDates = "stop"
    row_images: RowImages = "full"

    def applied_to(self, schema: TableSchema) -> TableSchema:
        """Return `schema` as the source's tables are to be carried."""
        shaped = with_zero_dates(schema, self.zero_dates)
        return replace(shaped, partial_rows=True) if self.row_images == "partial" else shaped


DEFAULT_POLICY = TablePolicy()
