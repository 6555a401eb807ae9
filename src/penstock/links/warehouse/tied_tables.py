"""Tables that one statement renames together: they go past it together, or wait for each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.errors import TableStoppedError
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from penstock.core.batches import Batch
    from penstock.core.schema_changes import Move


def carried_moves(batch: Batch, is_carried: Callable[[TableId], bool]) -> tuple[list[Move], set[TableId]]:
    """Return the moves from name to name, of tables that are both carried here, and these tables."""
    names = {name: TableId.parse(name) for move in batch.moves for name in (move.origin, move.table)}
    carried = {name for name, table in names.items() if is_carried(table)}
    moves = [move for move in batch.moves if {move.origin, move.table} <= carried]
    return moves, {names[name] for move in moves for name in (move.origin, move.table)}


def tied_stops(going: Collection[TableId], behind: Collection[TableId]) -> dict[TableId, TableStoppedError]:
    """Say of tables that have come to a statement why they wait there: others of it are still `behind`."""
    reason, hint = f"it was renamed together with {min(map(str, behind))}, which waits", "see why: penstock status FILE"
    return {table: TableStoppedError(str(table), "", "the target's table", reason, hint) for table in going}
