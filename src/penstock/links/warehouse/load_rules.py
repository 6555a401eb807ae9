"""The rules by which a loading link brings rows into its target."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.core.transforms.column_rules import ColumnRules

if TYPE_CHECKING:
    from penstock.core.warehouse.load_plan import Deletes, DroppedTables, Overflow


@dataclass(frozen=True, slots=True)
class LoadRules:
    """How much is merged at once, and what becomes of rows, tables, columns and values in special cases.

    `rows_max`, `bytes_max` (of compressed files) and `held_bytes_max` (of rows as Arrow, but
    for those of a last file) bound what is in memory, `transaction_rows_max` and
    `transaction_bytes_max` (of files) what a warehouse has to be able to undo. `dropped_tables` is
    about tables that the source drops, `deletes` about rows that it deletes, and
    `overflow` about values that the target cannot hold.
    """

    rows_max: int = 350_000
    bytes_max: int = 32 << 20
    held_bytes_max: int = 128 << 20
    transaction_rows_max: int = 1_000_000
    transaction_bytes_max: int = 256 << 20
    dropped_tables: DroppedTables = "keep"
    deletes: Deletes = "hard"
    overflow: Overflow = "stop"
    columns: ColumnRules = field(default_factory=ColumnRules)

    def shared_by(self, tables: int) -> LoadRules:
        """Return the rules for each of several tables that are loaded side by side in the same memory."""
        shares = {name: max(1, getattr(self, name) // tables) for name in ("rows_max", "bytes_max", "held_bytes_max")}
        return replace(self, **shares)
