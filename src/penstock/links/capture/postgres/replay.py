"""What became of PostgreSQL's tables, told to the registry and announced to the rest of the pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.core.errors import READ_AGAIN, TableStoppedError
from penstock.core.positions import timeline_of
from penstock.core.postgres.evolution import column_renames, refusal
from penstock.core.postgres.relations import as_it_began
from penstock.core.publication import StoppedTable
from penstock.core.schema_changes import Move, SchemaChange, SchemaChangeKind
from penstock.core.tables import TableId
from penstock.links.capture.postgres.log_reading import tables_changed
from penstock.ports.replay import StatementOutcome

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.core.log_items import LoggedStatement
    from penstock.core.positions import Position
    from penstock.core.refusals import Refusal
    from penstock.core.tables import TableSchema
    from penstock.links.capture.postgres.log_reading import TablesChanged
    from penstock.links.capture.postgres.registered_catalog import RegisteredCatalog
    from penstock.links.capture.table_catalog import TableCatalog
    from penstock.ports.state import State


class RelationReplay:
    """See ports/replay.Replay. There is nothing to replay on: the log itself says what tables look like."""

    def __init__(self, state: State, table_catalog: TableCatalog, registered: RegisteredCatalog) -> None:
        """Serve the capture whose tables are in both."""
        self._state = state
        self._table_catalog = table_catalog
        self._registered = registered

    def take_over(self) -> None:
        """See Replay."""

    def start_empty(self) -> None:
        """See Replay."""

    def start_with(self, creates: str) -> Mapping[TableId, str]:
        """See Replay."""
        del creates
        return {}

    def is_half_done(self) -> bool:
        """See Replay."""
        return False

    def recover(self, position: Position) -> None:
        """See Replay."""

    def replays(self, statement: LoggedStatement) -> bool:
        """See Replay."""
        del statement
        return False

    def concerns(self, statement: LoggedStatement, table: TableId) -> bool:
        """See Replay."""
        return any(TableId(each.schema, each.name) == table for each in tables_changed(statement).relations)

    def apply(self, statement: LoggedStatement, stopped: Collection[str]) -> StatementOutcome:
        """See Replay."""
        changed = tables_changed(statement)
        if changed.after is None:
            return StatementOutcome(self._truncated(changed, stopped))
        table = changed.after.table
        if not self._table_catalog.wanted(table):
            return StatementOutcome(stopped=self._left(changed, table, changed.after.number))
        try:
            self._require(changed, changed.after, None if str(table) in stopped else changed.refused)
            return StatementOutcome(self._follow(changed, changed.after, stopped))
        except TableStoppedError as error:
            return StatementOutcome(stopped=self._stop(changed, changed.after, stopped, error))

    def settle(self, statement: LoggedStatement) -> None:
        """See Replay."""

    def close(self) -> None:
        """See Replay."""
        self._state.close()

    def _truncated(self, changed: TablesChanged, stopped: Collection[str]) -> tuple[SchemaChange, ...]:
        tables = [TableId(relation.schema, relation.name) for relation in changed.relations]
        known = [self._table_catalog.schema_change(table) for table in tables if str(table) not in stopped]
        return tuple(self._emptied(changed, each) for each in known if each is not None)

    def _emptied(self, changed: TablesChanged, last: SchemaChange) -> SchemaChange:
        """Announce that a table has no rows; the partitions of one that has any have other files from there on."""
        before = self._table_catalog.announced_schema(last.table)
        after = None if before is None else self._registered.emptied(before, changed.xid)
        if after is None or after == before:
            return _told(changed, last, SchemaChangeKind.TRUNCATE)
        return self._announce(changed, after, SchemaChangeKind.TRUNCATE)

    def _follow(self, changed: TablesChanged, after: TableSchema, stopped: Collection[str]) -> tuple[SchemaChange, ...]:
        """Announce a table's new shape. Raises TableStoppedError where its rows are not known."""
        known = self._registered.known_as(after.table, after.number)
        if known is not None and known.table == after.table:
            return self._changed(changed, known, after, stopped)
        if known is not None and not self._is_another(changed, known, stopped):
            return self._renamed(changed, known, after, stopped)
        after = changed.as_new or after
        if not changed.end.has_all_of(after.number):
            raise _stopped(
                changed,
                after,
                "the log has rows of it, and it had older ones that were not carried: it is older than the pipeline, "
                "whose initial snapshot did not have it, nobody wanted it when they came, or another table took its "
                "name",
                "it was added to `tables`, to the publication or to its schema since, it was renamed, or the user had "
                f"no SELECT on it: {READ_AGAIN}",
            )
        # The catalog may be newer than the table's first row: no transaction has this number.
        return (self._announce(changed, self._registered.emptied(after, 0), SchemaChangeKind.CREATE),)

    def _changed(
        self, changed: TablesChanged, before: TableSchema, after: TableSchema, stopped: Collection[str]
    ) -> tuple[SchemaChange, ...]:
        if str(after.table) in stopped:
            return ()
        self._require(changed, after, refusal(before, after))
        schema_change = self._announce(changed, after, SchemaChangeKind.SCHEMA)
        return (replace(schema_change, column_renames=column_renames(before, after)),)

    def _renamed(
        self, changed: TablesChanged, origin: TableSchema, after: TableSchema, stopped: Collection[str]
    ) -> tuple[SchemaChange, ...]:
        """Announce that a table has another name, and nobody its old one."""
        if str(origin.table) in stopped:
            raise _stopped(changed, after, f"it has the rows of {origin.table}, which was not carried", READ_AGAIN)
        self._require(changed, after, refusal(origin, after))
        if column_renames(origin, after):
            raise _stopped(changed, after, "it and a column of it got other names at once", READ_AGAIN)
        schema_change = self._announce(changed, as_it_began(after, origin), SchemaChangeKind.RENAME)
        moves = (Move(str(origin.table), str(after.table), schema_change.value_schema_id),)
        last = self._table_catalog.schema_change(origin.table)
        ended = () if last is None else (_told(changed, last, SchemaChangeKind.DROP),)
        return tuple(replace(each, moves=moves) for each in (schema_change, *ended))

    def _is_another(self, changed: TablesChanged, origin: TableSchema, stopped: Collection[str]) -> bool:
        """Whether a table made behind the slot has by chance the number that a stopped one had on a server before."""
        told = self._table_catalog.schema_change(origin.table)
        is_of_now = told is None or timeline_of(told.order) == changed.end.timeline
        return not is_of_now and str(origin.table) in stopped and changed.end.has_all_of(origin.number)

    def _stop(
        self, changed: TablesChanged, after: TableSchema, stopped: Collection[str], error: TableStoppedError
    ) -> tuple[tuple[TableId, StoppedTable], ...]:
        """Stop a table; also under the name that it had, or it might go on from there later, without these rows."""
        stops = [(after.table, StoppedTable(str(changed.begin), error.message, error.hint))]
        known = self._registered.known_as(after.table, after.number)
        if known is not None and known.table != after.table and str(known.table) not in stopped:
            reason = f"it is called {after.table} in the source now, and stopped there"
            other = _stopped(changed, known, reason, f"do what is said of {after.table}")
            stops.append((known.table, StoppedTable(str(changed.begin), other.message, other.hint)))
        return tuple(stops)

    def _left(self, changed: TablesChanged, table: TableId, number: int) -> tuple[tuple[TableId, StoppedTable], ...]:
        """Stop the table that is called `table` now, a name that nobody wants: its rows are not carried any more."""
        origin = self._table_catalog.with_number(number)
        if origin is None:
            return ()
        reason = f"it is called {table} in the source now, which `tables` does not match, and has changed rows there"
        hint = f"add {table} to `tables`, or give the table its name back; then {READ_AGAIN}"
        error = _stopped(changed, origin, reason, hint)
        return ((origin.table, StoppedTable(str(changed.begin), error.message, error.hint)),)

    def _require(self, changed: TablesChanged, after: TableSchema, found: Refusal | None) -> None:
        if found is not None:
            raise _stopped(changed, after, found.reason, found.hint, found.column)

    def _announce(self, changed: TablesChanged, schema: TableSchema, kind: SchemaChangeKind) -> SchemaChange:
        registered = self._table_catalog.register(schema, str(changed.begin))
        schema_change = self._table_catalog.event_of(schema, registered, changed.order)
        return _told(changed, schema_change, kind)


def _told(changed: TablesChanged, schema_change: SchemaChange, kind: SchemaChangeKind) -> SchemaChange:
    """Return `schema_change` as what came to light there."""
    return replace(
        schema_change,
        order=changed.order,
        kind=kind,
        file=changed.end.file,
        timestamp_ms=changed.timestamp_ms,
        moves=(),
        column_renames=(),
    )


def _stopped(
    changed: TablesChanged, schema: TableSchema, reason: str, hint: str, column: str = ""
) -> TableStoppedError:
    return TableStoppedError(str(schema.table), column, str(changed.begin), reason, hint)
