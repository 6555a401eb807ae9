"""Bringing rows into a table that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.warehouse.partial_rows import plan_completion
from penstock.core.warehouse.planner import plan_delete, plan_delete_values, plan_merge, plan_whole_merge
from penstock.links.warehouse.barriers import refuse_orphans
from penstock.links.warehouse.direct_copy import copies_directly, keys_of, listed_keys, living_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.core.tables import TableSchema
    from penstock.core.warehouse.partial_rows import Completion, Lacking
    from penstock.core.warehouse.target_table import TargetTable
    from penstock.ports.warehouse import Warehouse


class Merges:
    """Plans merges and does them, in the caller's transaction."""

    def __init__(self, warehouse: Warehouse) -> None:
        """Use `warehouse`, which the caller closes."""
        self._warehouse = warehouse
        self._dialect = warehouse.dialect

    def bring_in(
        self, target: TargetTable, arriving: TableSchema, rows: pa.Table, lacking: Lacking, *, may_come: bool
    ) -> None:
        """Bring `rows`, laid out as files of `arriving`, into the table. Raises what `merge` and `Warehouse` raise.

        `may_come` says that rows which nobody can make whole now may come whole later.
        """
        add = self._warehouse.adding()
        if add is None or lacking or not copies_directly(self._dialect, target, arriving):
            with self._warehouse.staged(arriving, rows) as staged:
                self.merge(target, arriving, staged, lacking, may_come=may_come)
            return
        listed = listed_keys(self._dialect, arriving, rows)
        if listed:
            self._warehouse.run(plan_delete_values(self._dialect, target, arriving, len(listed)), listed)
        else:
            with self._warehouse.staged(*keys_of(arriving, rows)) as staged:
                self._warehouse.run(plan_delete(self._dialect, target, arriving, staged))
        add(target, living_rows(target, rows))

    def merge(
        self, target: TargetTable, arriving: TableSchema, staged: str, lacking: Lacking, *, may_come: bool = False
    ) -> None:
        """Bring in the rows that are staged under a (quoted) name. Raises TableStoppedError where they do not fit.

        `may_come` as in `bring_in`.
        """
        if not lacking:
            self._run(plan_merge(self._dialect, target, arriving, staged))
            return
        completion = plan_completion(self._dialect, target, arriving, staged, lacking)
        if not completion.create:
            self._refuse_orphans(completion, arriving, may_come=may_come)
            self._run([plan_whole_merge(self._dialect, target, arriving, completion.whole)])
            return
        self._warehouse.run(completion.create)
        self._refuse_orphans(completion, arriving, may_come=may_come)
        self._run([*plan_merge(self._dialect, target, arriving, completion.whole), completion.drop])

    def _refuse_orphans(self, completion: Completion, arriving: TableSchema, *, may_come: bool) -> None:
        ((orphans,),) = self._warehouse.fetch(completion.count_orphans)
        refuse_orphans(arriving.table, int(orphans or 0), may_come=may_come)

    def _run(self, statements: Sequence[str]) -> None:
        for statement in statements:
            self._warehouse.run(statement)
