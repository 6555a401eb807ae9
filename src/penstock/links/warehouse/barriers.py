"""What every kind of sink says and asks where a table begins, ends, is emptied or renamed, and of values in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.errors import TableStoppedError
from penstock.core.positions import FILE_BITS
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import TableId
from penstock.core.warehouse.columns import REFRESH_OR_ANEW
from penstock.core.warehouse.target_table import LogPlace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.core.batches import Batch
    from penstock.core.warehouse.dialect import Dialect
    from penstock.core.warehouse.load_plan import Overflow, Step
    from penstock.links.warehouse.progress import TableState


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


def refuse_orphans(table: TableId, orphans: int) -> None:
    """Raise TableStoppedError if there are changed rows that nobody can make whole."""
    if orphans:
        reason = f"{orphans} changed row(s) came without all of their columns, and the target does not have them"
        raise TableStoppedError(str(table), "", "the target's table", reason, REFRESH_OR_ANEW)


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
