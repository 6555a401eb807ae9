"""Foreign keys by which a source changes rows that are not in its log: CASCADE, SET NULL, SET DEFAULT.

InnoDB deletes and changes rows of a child table by itself, below the log, when
rows of the parent are deleted or get another key. Which rows those were, nobody
can know from the log. So a change of a parent that sets such a key off stops the
child, whether or not the parent is carried itself.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from penstock.core.changes import Op
from penstock.core.errors import READ_AGAIN, TableStoppedError
from penstock.core.mysql.rows.decode import batch_key, decode_rows
from penstock.core.mysql.statements.foreign_keys import reached_by
from penstock.core.publication import StoppedTable
from penstock.links.capture.mysql.log_reading import binlog_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from penstock.core.changes import RowBatch
    from penstock.core.log_items import LoggedRows
    from penstock.core.mysql.rows.rows_block import RowsBlock
    from penstock.core.mysql.statements.foreign_keys import Cascade
    from penstock.core.mysql.types.logged_rows import RowsLogged
    from penstock.core.tables import TableId
    from penstock.links.capture.mysql.tracker import SchemaTracker

_HINT = (
    "make the foreign key RESTRICT, and delete or change the rows by statements of the application before the "
    f"parent's; then {READ_AGAIN}; or leave the table out"
)


class CascadeWatch:
    """The foreign keys of a source whose effects its log lacks, as the tracker has them."""

    def __init__(
        self, tracker: SchemaTracker, wanted: Callable[[TableId], bool], logs_cascades: Callable[[], bool]
    ) -> None:
        """Watch over tables that are `wanted`, unless `logs_cascades` says that all is in the log.

        The source is asked once there are such keys.
        """
        self._tracker = tracker
        self._wanted = wanted
        self._logs_cascades = logs_cascades
        self._known: tuple[Cascade, ...] | None = None
        self._parents: frozenset[TableId] = frozenset()
        self._is_logged: bool | None = None

    def forget(self) -> None:
        """Ask the tracker again: a statement may have made or dropped such keys."""
        self._known = None

    def watches(self, table: TableId) -> bool:
        """Whether changes of `table` may change rows of tables that are wanted."""
        self._cascades()
        return table in self._parents

    def stopped_by(
        self, changed: Mapping[TableId, Sequence[LoggedRows]], position: str
    ) -> Mapping[TableId, StoppedTable]:
        """Return the wanted tables of which nobody knows the rows behind these changes, which begin at `position`."""
        parents = {table: binlog_rows(rows) for table, rows in changed.items() if self.watches(table)}
        if not parents:
            return {}
        deleted = [table for table, events in parents.items() if any(event.op is Op.DELETE for event in events)]
        updated = {table: self._changed_columns(table, events) for table, events in parents.items()}
        reached = reached_by(deleted, updated, self._cascades())
        return {table: _stopped(cascade, position) for table, cascade in reached.items() if self._wanted(table)}

    def _cascades(self) -> Sequence[Cascade]:
        if self._known is None:
            found = tuple(self._tracker.cascades())
            if found and self._is_logged is None:
                self._is_logged = self._logs_cascades()
            self._known = () if self._is_logged else found
            self._parents = frozenset(cascade.parent for cascade in self._known)
        return self._known

    def _changed_columns(self, table: TableId, events: Sequence[RowsLogged | RowsBlock]) -> set[str]:
        """Return which of the columns that foreign keys refer to have another value in any of the updates."""
        keys = [cascade for cascade in self._cascades() if cascade.parent == table and cascade.on_update]
        columns = {column for cascade in keys for column in cascade.parent_columns}
        updates = [event for event in events if event.op is Op.UPDATE]
        if not columns or not updates:
            return set()
        schema = self._tracker.table_schema(table)
        groups: dict[Hashable, list[RowsLogged | RowsBlock]] = {}
        for event in updates:
            groups.setdefault(batch_key(event), []).append(event)
        try:
            batches = [] if schema is None else [decode_rows(schema, group) for group in groups.values()]
        except TableStoppedError:
            return columns
        return columns if schema is None else set(chain.from_iterable(_differing(batch, columns) for batch in batches))


def _differing(batch: RowBatch, columns: set[str]) -> set[str]:
    """Return which of `columns` an update changed. One that the log does not have behind it stayed as it was."""
    before, after = batch.before, batch.after
    if before is None or after is None:
        return set()
    found = set()
    for name in columns.difference(batch.after_lacks):
        old, new = before.column(name), after.column(name)
        same = pc.equal(old, new)
        if name in batch.before_lacks or not pc.all(pc.fill_null(same, pc.and_(old.is_null(), new.is_null()))).as_py():
            found.add(name)
    return found


def _stopped(cascade: Cascade, position: str) -> StoppedTable:
    error = (
        f"{cascade.child} stopped at {position}: rows of {cascade.parent} were deleted or got another key, and the "
        f"source changed those of {cascade.child} with them (foreign key {cascade.name}), which its log does not have"
    )
    return StoppedTable(position, error, _HINT)
