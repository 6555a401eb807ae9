"""Tables that one statement renames together: they go past it together, or wait for each other.

But a table that began anew behind the statement is past it by itself: it needs no rows from before, and has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.errors import TableStoppedError
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from penstock.core.batches import Batch
    from penstock.core.schema_changes import Move


def moves_left(
    batch: Batch, is_carried: Callable[[TableId], bool], is_past: Callable[[TableId], bool]
) -> tuple[list[Move], set[TableId]]:
    """Return the moves from name to name, of tables that are both carried here, and these tables.

    Nothing is to be moved to a name that is past the statement.
    """
    names = {name: TableId.parse(name) for move in batch.moves for name in (move.origin, move.table)}
    carried = {name for name, table in names.items() if is_carried(table)}
    moves = [move for move in batch.moves if {move.origin, move.table} <= carried and not is_past(names[move.table])]
    return moves, {names[name] for move in moves for name in (move.origin, move.table)}


def tied_stops(going: Collection[TableId], behind: Collection[TableId]) -> dict[TableId, TableStoppedError]:
    """Say of tables that have come to a statement why they wait there: others of it are still `behind`."""
    reason, hint = f"it was renamed together with {min(map(str, behind))}, which waits", "see why: penstock status FILE"
    return {table: TableStoppedError(str(table), "", "the target's table", reason, hint) for table in going}


def needed_rows(moves: Collection[Move], refused: TableStoppedError | None = None) -> set[TableId]:
    """Return the tables whose rows others get by `moves`; not the one that is `refused`, which may begin anew."""
    return {TableId.parse(move.origin) for move in moves if refused is None or move.origin != refused.table}
