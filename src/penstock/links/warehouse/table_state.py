"""What is known of a target's table beside its rows, and what may come to it by that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.core.errors import FILL_AGAIN, FULL_REFRESH, PositionError, TableStoppedError
from penstock.core.schema_changes import SchemaChangeKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.core.tables import TableId, TableSchema
    from penstock.core.warehouse.load_plan import Deletes, SchemaInPlace, Step

NO_BARRIER = (-1, -1, -1)
"""Before every place in a log."""


@dataclass(frozen=True, slots=True)
class TableState:
    """The schema of a target's table, in full and by its id and age.

    `barrier` is the newest place in the log, of those that are loaded, where the
    table was emptied, began or ended; it is done, and never again. `ended` says
    that the source has the table no more; the target may have it or not.
    """

    schema: TableSchema
    in_place: SchemaInPlace
    barrier: tuple[int, int, int] = NO_BARRIER
    ended: bool = False
    deletes: Deletes = "hard"
    out_of_range: int = 0

    def has_before_it(self, step: Step) -> bool:
        """Whether a barrier is still to be crossed: also one at which the rows left, and none came to this target."""
        left = step.kind is SchemaChangeKind.RENAME and self.ended and step.last_order == self.barrier
        return step.last_order > self.barrier or left

    def end(self, order: tuple[int, int, int]) -> TableState:
        """Return what is known of the table once it has ended at `order`."""
        in_place = replace(self.in_place, order=max(self.in_place.order, order))
        return replace(self, in_place=in_place, barrier=order, ended=True)


def require_rows(known: TableState | None, origin: TableId, table: TableId) -> TableState:
    """Return what is known of `origin`, whose rows `table` gets; TableStoppedError if the target lacks them."""
    if known is None or known.ended:
        reason = f"it got the rows of {origin}, which are not in this target"
        hint = f"{FULL_REFRESH}; to carry renames, have {origin} in `tables` of the link as well"
        raise TableStoppedError(str(table), "", "the target's table", reason, hint)
    return known


def begin_anew(anew: Collection[TableId], waiting: Mapping[TableId, int] | None) -> list[TableId]:
    """Return those of `anew` that begin with a batch that is there: the rows that the target has of them are over.

    Without that, a statement from before would give these rows to another name.
    """
    return sorted(table for table in anew if waiting is not None and waiting.get(table, -1) >= 0)


def check_behind_barrier(known: TableState | None, step: Step) -> None:
    """Raise PositionError for rows from before the place where the table was last emptied, begun or ended.

    They would be rows that the source has not. Whoever wrote the batch topic put them before that place.
    Raises TableStoppedError for rows of one that ended and begins nowhere: the link left it out just then.
    """
    for piece in step.pieces if known else ():
        batch = piece.batch
        if batch.rows and known and known.ended and batch.first_order > known.barrier:
            reason = f"it ended at {known.barrier}, and began anew while the link left it out"
            raise TableStoppedError(str(batch.table), "", "the target's table", reason, FILL_AGAIN)
        if batch.rows and known and (batch.last_order < known.barrier or known.ended):
            message = f"{batch.table}: rows up to {batch.last_order} come after its barrier at {known.barrier}"
            raise PositionError(
                message, "this is a mistake in Penstock; nothing was loaded: report it with both places"
            )
