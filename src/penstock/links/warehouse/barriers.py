"""What every kind of sink says and asks where a table begins, ends, is emptied or renamed, and of values in it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from penstock.core.errors import FULL_REFRESH, TableStoppedError, TableWaitsError
from penstock.core.positions import FILE_BITS
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import TableId
from penstock.core.warehouse.target_table import LogPlace
from penstock.links.warehouse.table_state import NO_BARRIER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.core.batches import Batch
    from penstock.core.warehouse.dialect import Dialect
    from penstock.core.warehouse.load_plan import Overflow, Step
    from penstock.links.warehouse.table_state import TableState

_COMES_WHOLE_SECONDS: Final = 3600.0
_COMES_WHOLE: Final = (
    "nothing while a snapshot of the table is made: it brings the whole rows, and they are tried again"
)
_FILL_IT: Final = (
    f"{FULL_REFRESH} --link LINK, which empties and fills it in this target alone; PostgreSQL: if rows with large "
    "values change all the while, ALTER TABLE ... REPLICA IDENTITY FULL before it"
)


def dropped_note(state: TableState | None, batches: Sequence[Batch], is_kept: Callable[[], bool]) -> str | None:
    """Say what people should know of the table; None if these batches change nothing about that."""
    if state is None or not state.ended:
        return ""
    drops = [batch for batch in batches if batch.kind is SchemaChangeKind.DROP and batch.first_order == state.barrier]
    if not drops:
        return None
    where = f"{drops[0].file}:{state.barrier[1]}"
    kept = "its rows are kept here" if is_kept() else "it is not here any more"
    return f"the source dropped this table, or gave it another name, before {where}; {kept}"


def may_come_whole(state: TableState, step: Step) -> bool:
    """Whether rows of `step` that lack values may come whole: a snapshot fills a table that has begun, row by row.

    So the changes must be behind the place where it began, and not be old.
    """
    oldest_ms = min(piece.batch.last_timestamp_ms for piece in step.pieces if piece.batch.rows)
    return state.barrier != NO_BARRIER and time.time() - oldest_ms / 1000 < _COMES_WHOLE_SECONDS


def refuse_orphans(table: TableId, orphans: int, *, may_come: bool) -> None:
    """Raise TableStoppedError if there are changed rows that nobody can make whole; TableWaitsError if they `may_come`.

    It is tried again together with what has come until then: the rows of a snapshot make those of before whole.
    """
    if not orphans:
        return
    reason = f"{orphans} changed row(s) came without all of their columns, and the target does not have them"
    if may_come:
        raise TableWaitsError(str(table), "", "the target's table", f"{reason} yet", _COMES_WHOLE)
    raise TableStoppedError(str(table), "", "the target's table", reason, _FILL_IT)


def rename_origin(step: Step) -> TableId:
    """Return the table whose rows the table gets at this step, a rename."""
    batch = step.pieces[0].batch
    return TableId.parse(next(move.origin for move in batch.moves if move.table == str(batch.table)))


def log_place(step: Step) -> LogPlace:
    """Return where the step's statement stands in the source's log."""
    batch = step.pieces[0].batch
    number, pos, row = batch.first_order
    return LogPlace(batch.file, pos, row, batch.last_timestamp_ms, number >> FILE_BITS)


def out_of_range_note(out_of_range: int, dialect: Dialect, overflow: Overflow) -> str:
    """Say of a table that some values did not fit, and what became of them."""
    became = "became NULL" if overflow == "null" else "became others (overflow of the link)"
    return f"{out_of_range} value(s) did not fit into {dialect.name} and {became}"
