"""What the next load would make of a target's tables, without doing it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.errors import SinkError, TableStoppedError
from penstock.core.warehouse.overflow import fit_schema
from penstock.core.warehouse.state_schema import state_schema
from penstock.core.warehouse.target_table import LogPlace
from penstock.links.warehouse.progress import TargetProgress
from penstock.links.warehouse.target_tables import TargetTables
from penstock.links.warehouse.treated_columns import TreatedColumns

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.refusals import Refusal
    from penstock.core.tables import TableSchema
    from penstock.links.warehouse.load_rules import LoadRules
    from penstock.ports.warehouse import Warehouse


class LoadPreview:
    """Plans changes of the tables of one pipeline and source in one target. It reads, and writes nothing.

    `refuses` says why rows of a table's first schema cannot be carried on to its second,
    None if they can, as the source's kind knows it.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        pipeline: str,
        source: str,
        rules: LoadRules,
        refuses: Callable[[TableSchema, TableSchema], Refusal | None],
    ) -> None:
        """Look into `warehouse`, which the caller closes."""
        self._refuses = refuses
        self._dialect = warehouse.dialect
        self._progress = TargetProgress(warehouse, pipeline, source)
        self._state = state_schema(warehouse.dialect, pipeline, source)
        self._tables = TargetTables(warehouse, rules.deletes, self._progress.tables)
        self._columns = TreatedColumns(warehouse, pipeline, source, rules.columns)
        self._rules = rules

    def plan(self, schema: TableSchema) -> list[str]:
        """Return the SQL that turns the target's table into one for `schema`, which may have to be made first.

        The place of the change in the source's log is not known yet: where it is
        written into rows, it is 0. Raises TableStoppedError where that stops the
        table, and SinkError for a target that an older release has written last.
        """
        if self._progress.is_older():
            message = f"the target's schema `{self._state}` is of an older release"
            raise SinkError(message, "run the pipeline once, which brings it up to date, and ask again")
        known = self._progress.table(schema.table) if self._progress.is_made() else None
        fitted = fit_schema(self._dialect, self._columns.preview(known, schema), self._rules.overflow)
        if known is None or known.ended:
            return self._tables.plan_begin(known, fitted)
        if refused := self._refuses(known.schema, fitted):
            where = "its ALTER TABLE in the log"
            raise TableStoppedError(str(schema.table), refused.column, where, refused.reason, refused.hint)
        self._tables.check_present(known)
        before, state = self._tables.plan_deletes(known)
        change = self._tables.plan(state, fitted, LogPlace("", 0, 0, 0))
        self._tables.check(change, fitted)
        return [*before, *change.all_statements]
