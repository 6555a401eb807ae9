"""The names of tables that a link has in another schema than their source has them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.core.errors import PositionError

if TYPE_CHECKING:
    from penstock.core.tables import TableId


@dataclass(frozen=True, slots=True)
class MovedNames:
    """The source has the link's tables in its schema `origin`, the target has them in `schema`.

    Tables of other schemas of the source are not the link's: they are named where one was renamed from or to there.
    """

    origin: str
    schema: str

    def in_target(self, table: TableId) -> TableId:
        """What the target calls a table of the source."""
        return replace(table, schema=self.schema) if table.schema == self.origin else table

    def in_source(self, table: TableId) -> TableId:
        """What the source calls a table of the target. Raises PositionError where the link had another schema."""
        if table.schema != self.schema:
            message = f"{table} waits in the target, and the link puts all of its tables into {self.schema}"
            raise PositionError(message, "give the link the `schema` that it had")
        return replace(table, schema=self.origin)
