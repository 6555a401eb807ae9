"""Foreign keys by which a source changes rows that are not in its log: CASCADE, SET NULL, SET DEFAULT.

InnoDB deletes and changes rows of a child table by itself, below the log, when
rows of the parent are deleted or get another key. Which rows those were, nobody
can know from the log. So a change of a parent that sets such a key off stops the
child, whether or not the parent is carried itself; or, with `cascades: reread` of
the source, has what may have changed read again. Rows that a MySQL from 9.6 on
wrote set nothing off: that server does itself what foreign keys say, and logs it,
unless it is told otherwise. Each ROWS event says which it was, as the log may have
some of an older server, or of a master.

The tracker has the tables that the source's user may see, and those that the log
told of. What a parent that it lacks hangs on itself, the source is asked; where
nobody can tell, the child stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from penstock.core.changes import Op
from penstock.core.commands import shell_word
from penstock.core.errors import TableStoppedError
from penstock.core.mysql.rows.decode import batch_key, decode_rows
from penstock.core.mysql.statements.foreign_keys import KeysAbove, reached_by, with_children
from penstock.core.mysql.statements.rereads import reread_of
from penstock.core.publication import StoppedTable
from penstock.core.snapshots import Reread
from penstock.links.capture.mysql.log_reading import binlog_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence

    from penstock.core.changes import RowBatch
    from penstock.core.log_items import LoggedRows
    from penstock.core.mysql.rows.rows_block import RowsBlock
    from penstock.core.mysql.statements.foreign_keys import Cascade, Step
    from penstock.core.mysql.types.logged_rows import RowsLogged
    from penstock.core.tables import TableId
    from penstock.links.capture.mysql.tracker import SchemaTracker

_REREAD_HINT = "give the source `cascades: reread`, start the pipeline again, and type once: penstock snapshot FILE"
_RESTRICT_HINT = (
    "To have no such changes: make the foreign key RESTRICT, let the application change the child's rows before the "
    "parent's, and have them read again"
)
_NO_KEY_HINT = "give the table a primary key, without which its rows cannot be read again"
_LEAVE_OUT_HINT = "or leave the table out of `tables`"


class CascadeWatch:
    """The foreign keys of a source whose effects its log lacks, as the tracker has them."""

    def __init__(
        self,
        tracker: SchemaTracker,
        wanted: Callable[[TableId], bool],
        keys_above: Callable[[Collection[TableId]], KeysAbove],
        *,
        rereads: bool = False,
    ) -> None:
        """Watch over tables that are `wanted`. With `rereads` those that have a primary key go on.

        `keys_above` is asked of parents that the tracker does not have, again when a statement came.
        """
        self._tracker = tracker
        self._wanted = wanted
        self._keys_above = keys_above
        self._rereads = rereads
        self._asked: frozenset[TableId] | None = None
        self._above = KeysAbove()
        self._known: tuple[Cascade, ...] | None = None
        self._parents: frozenset[TableId] = frozenset()

    def forget(self) -> None:
        """Ask the tracker, and the source, again: a statement may have made or dropped such keys."""
        self._known = self._asked = None

    def watches(self, table: TableId) -> bool:
        """Whether changes of `table` may change rows of tables that are wanted."""
        self._cascades()
        return table in self._parents

    def effects(
        self, changed: Mapping[TableId, Sequence[LoggedRows]], position: str
    ) -> Mapping[TableId, StoppedTable | Reread]:
        """See ports/tracker.UnloggedChanges."""
        known = self._cascades()
        is_blind = bool(self._above.hidden)
        unlogged = {table: _unlogged(rows) for table, rows in changed.items() if is_blind or table in self._parents}
        if not any(unlogged.values()):
            return {}
        found: dict[TableId, StoppedTable | Reread] = dict(self._below_hidden(position))
        parents = {table: events for table, events in unlogged.items() if table in self._parents}
        deleted = [table for table, events in parents.items() if any(event.op is Op.DELETE for event in events)]
        moved = {table: self._moved_keys(table, events) for table, events in parents.items()}
        for step in reached_by(deleted, {table: keys.columns for table, keys in moved.items()}, known):
            table, keys = step.cascade.child, moved.get(step.cascade.parent)
            before = found.get(table, Reread())
            if self._wanted(table) and isinstance(before, Reread):
                found[table] = self._effect(step, None if keys is None else keys.batches, before, position)
        return found

    def _effect(
        self, step: Step, batches: Sequence[RowBatch] | None, before: Reread, position: str
    ) -> StoppedTable | Reread:
        """Return what becomes of a step's child, of which `before` is to be read again anyway."""
        if not self._rereads:
            return _stopped(step.cascade, position, _hint(f"{_REREAD_HINT} {step.cascade.child}"))
        schema = self._tracker.table_schema(step.cascade.child)
        if schema is None or not schema.key:
            return _stopped(step.cascade, position, _hint(_NO_KEY_HINT))
        return before | reread_of(step, schema, batches)

    def _cascades(self) -> Sequence[Cascade]:
        if self._known is None:
            found = tuple(self._tracker.cascades())
            lacking = frozenset(each.parent for each in found).difference(self._tracker.tables() if found else ())
            lacking = frozenset(each for each in lacking if self._wanted_below(each, found))
            if lacking != self._asked:
                self._above, self._asked = self._keys_above(lacking) if lacking else KeysAbove(), lacking
            self._known = (*found, *self._above.cascades)
            self._parents = frozenset(cascade.parent for cascade in self._known)
        return self._known

    def _below_hidden(self, position: str) -> Iterator[tuple[TableId, StoppedTable]]:
        """Yield the tables that change with some of which nobody knows with what these change in turn."""
        for parent, grant in self._above.hidden.items():
            for table in self._wanted_below(parent, self._cascades()):
                error = (
                    f"{table} stopped at {position}: the source changes its rows with those of {parent} (foreign key), "
                    "and does not show with which others it changes these"
                )
                hint = f"{grant}, start the pipeline again, and type once: penstock snapshot FILE {shell_word(table)}"
                gone = f"If there is no table {parent}: drop the foreign key"
                yield table, StoppedTable(position, error, f"{hint}. {gone}; {_LEAVE_OUT_HINT}")

    def _wanted_below(self, parent: TableId, cascades: Sequence[Cascade]) -> Sequence[TableId]:
        return sorted(filter(self._wanted, with_children([parent], cascades) - {parent}))

    def _moved_keys(self, table: TableId, events: Sequence[RowsLogged | RowsBlock]) -> _MovedKeys:
        """Return which of the columns that foreign keys refer to have another value in any of the updates."""
        keys = [cascade for cascade in self._cascades() if cascade.parent == table and cascade.on_update]
        columns = {column for cascade in keys for column in cascade.parent_columns}
        updates = [event for event in events if event.op is Op.UPDATE]
        if not columns or not updates:
            return _MovedKeys(set(), [])
        schema = self._tracker.table_schema(table)
        if schema is None:
            return _MovedKeys(columns, None)
        groups: dict[Hashable, list[RowsLogged | RowsBlock]] = {}
        for event in updates:
            groups.setdefault(batch_key(event), []).append(event)
        try:
            batches = [decode_rows(schema, group) for group in groups.values()]
        except TableStoppedError:
            return _MovedKeys(columns, None)
        found = _MovedKeys(set(), [])
        for batch in batches:
            found.add(batch, columns)
        return found


class _MovedKeys:
    """The columns of a parent that changed, and batches with the rows in which any did; None if nobody knows them."""

    def __init__(self, columns: set[str], batches: list[RowBatch] | None) -> None:
        self.columns = columns
        self.batches = batches

    def add(self, batch: RowBatch, columns: set[str]) -> None:
        """Take what changed in `columns`. One that the log does not have behind the update stayed as it was."""
        before, after = batch.before, batch.after
        if before is None or after is None:
            return
        for name in columns.difference(batch.after_lacks):
            old, new = before.column(name), after.column(name)
            same = pc.fill_null(pc.equal(old, new), pc.and_(old.is_null(), new.is_null()))
            if name in batch.before_lacks or not pc.all(same).as_py():
                self.columns.add(name)
        if self.batches is not None and self.columns:
            self.batches.append(batch)


def _unlogged(rows: Sequence[LoggedRows]) -> Sequence[RowsLogged | RowsBlock]:
    return [event for event in binlog_rows(rows) if not event.cascades_logged]


def _hint(first: str) -> str:
    return f"{first}. {_RESTRICT_HINT}; {_LEAVE_OUT_HINT}"


def _stopped(cascade: Cascade, position: str, hint: str) -> StoppedTable:
    error = (
        f"{cascade.child} stopped at {position}: rows of {cascade.parent} were deleted or got another key, and the "
        f"source changed those of {cascade.child} with them (foreign key {cascade.name}), which its log does not have"
    )
    return StoppedTable(position, error, hint)
