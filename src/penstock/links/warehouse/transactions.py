"""Transactions of a loading sink, with the definitions that have to come ahead of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.core.schema_changes import SchemaChangeKind
from penstock.links.warehouse.definitions import DefinitionsAheadError
from penstock.links.warehouse.target_tables import AheadOfTransactionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.core.batches import Batch
    from penstock.core.tables import TableId
    from penstock.links.warehouse.definitions import Definitions, Unfinished
    from penstock.links.warehouse.progress import TargetProgress
    from penstock.links.warehouse.target_tables import TargetTables
    from penstock.ports.warehouse import Warehouse

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Outcome(Generic[T]):
    """What work in a transaction has returned."""

    result: T


class Transactions:
    """Does work in transactions of `warehouse`."""

    def __init__(
        self, warehouse: Warehouse, progress: TargetProgress, tables: TargetTables, definitions: Definitions
    ) -> None:
        """Use what belongs to one sink."""
        self._warehouse = warehouse
        self._progress = progress
        self._tables = tables
        self._definitions = definitions

    def load(self, work: Callable[[], T], table: TableId, first: Batch) -> T:
        """Do `work`, which loads a table from the batch `first` on, and ahead of it what it turns out to need."""
        moot = self._moot(table, first)
        while True:
            self._definitions.carry_out([table], moot)
            outcome = self._attempt(work, [table], moot)
            if outcome is not None:
                return outcome.result
            moot = ()

    def rename(self, work: Callable[[], None], tables: Sequence[TableId], order: tuple[int, int, int]) -> None:
        """Do `work`, which renames tables at the place `order` of the log, unless it is done, and what follows it."""
        if not any(state.barrier >= order for state in map(self._progress.table, tables) if state):
            self._definitions.carry_out(tables)
            self._attempt(work, tables)
        self._definitions.carry_out_together(tables)

    def _moot(self, table: TableId, first: Batch) -> Sequence[Unfinished]:
        """What is unfinished about a table and need not be done, as it begins anew with the batch `first`."""
        if first.kind is not SchemaChangeKind.CREATE:
            return ()
        known = self._progress.table(table)
        is_anew = known is None or first.last_order > known.barrier
        return self._definitions.about(table) if is_anew else ()

    def _attempt(
        self, work: Callable[[], T], tables: Sequence[TableId], moot: Sequence[Unfinished] = ()
    ) -> _Outcome[T] | None:
        """Do `work`; or plan what has to be defined first, in the transaction that says what tables are after it."""

        def attempt() -> _Outcome[T] | Sequence[Unfinished]:
            self._tables.begin({table for each in moot for table in each.tables})
            self._definitions.delete(moot)
            try:
                return _Outcome(work())
            except DefinitionsAheadError as ahead:
                for table, state in ahead.states.items():
                    self._progress.set_table(table, state)
                return self._definitions.plan(tables, ahead.statements)

        while True:
            try:
                done = self._warehouse.transact(attempt, tables)
                break
            except AheadOfTransactionError as ahead:
                self._tables.run_ahead(ahead)
        self._definitions.forget(moot)
        if isinstance(done, _Outcome):
            return done
        self._definitions.add(done)
        return None
