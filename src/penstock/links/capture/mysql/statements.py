"""DDL in the log: replayed on the tracker, told to the registry, announced to the rest of the pipeline.

The tracker is not transactional, so a dump of what the statement touches is kept in
the state database from before it is applied until its checkpoint is committed:

    publish what came before | keep the dump | apply | commit schema-change events and position | drop the dump

A dump found at start belongs to a statement that may be half applied. If the
committed position is still before that statement, the dump is restored and the
statement comes again from the log; if it is behind us, the dump is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, assert_never

from penstock.config.crash_points import CrashPoint
from penstock.core.errors import READ_AGAIN, PenstockError, TableStoppedError, UnfitServerError
from penstock.core.mysql.log.concerned import concerns
from penstock.core.mysql.statements.added_columns import Clock, with_fills
from penstock.core.mysql.statements.ddl import Harmless, RowStatement, TableDdl, TransactionControl, classify
from penstock.core.mysql.statements.foreign_keys import with_children
from penstock.core.mysql.statements.sql_tokens import query_of, read_tokens
from penstock.core.mysql.statements.statement_reach import (
    IS_VIEW,
    changes_old_rows,
    foreign_call,
    named_anywhere,
    stays_inside,
)
from penstock.core.mysql.statements.table_effects import (
    TableChange,
    column_renames_of,
    effect_of,
    follow_renames,
    resolve_names,
)
from penstock.core.mysql.statements.touched import touched_by
from penstock.core.publication import StoppedTable
from penstock.core.refusals import Refusal
from penstock.core.schema_changes import Move, SchemaChange, SchemaChangeKind
from penstock.core.snapshot_copies import is_copy
from penstock.core.system_schemas import MYSQL as SYSTEM_SCHEMAS
from penstock.core.tables import TableId
from penstock.links.capture.mysql.log_reading import binlog_statement
from penstock.ports.replay import StatementOutcome
from penstock.ports.state import TrackerDump

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from penstock.core.log_items import LoggedStatement
    from penstock.core.mysql.log.log_items import StatementLogged
    from penstock.core.mysql.statements.sql_tokens import TableName, Token
    from penstock.core.mysql.statements.touched import Touched
    from penstock.core.positions import Position
    from penstock.core.tables import TableSchema
    from penstock.links.capture.mysql.source_objects import SourceObjects
    from penstock.links.capture.mysql.tracker import SchemaTracker
    from penstock.links.capture.table_catalog import TableCatalog
    from penstock.ports.state import State

_DUMPED = CrashPoint("statement.dumped", "the tracker's dump is kept, the statement is not applied to it")
_APPLIED = CrashPoint("statement.applied", "a statement is applied to the tracker, and nobody knows")
_RESTORED = CrashPoint("statement.restored", "the tracker is restored from a dump, which is still there")

_WRITE_ROWS = f"set binlog_format=ROW for every session that writes; then {READ_AGAIN}"
_WRITE_PLAINLY = (
    "in a procedure or an event do this before anything that uses a temporary table or CONNECTION_ID(), or DELETE in "
    f"place of TRUNCATE; {_WRITE_ROWS}"
)
_EMPTY_TRACKER = '{"schemas": []}'
_OF_SCHEMAS = frozenset({"create_schema", "alter_schema", "drop_schema"})
_Stopped: TypeAlias = "tuple[tuple[TableId, StoppedTable], ...]"


class StatementHandler:
    """Takes the log's statements one at a time, each after everything before it was published."""

    def __init__(
        self, state: State, table_catalog: TableCatalog, tracker: SchemaTracker, objects: SourceObjects
    ) -> None:
        """Serve the capture of the tables in `table_catalog`, which asks `tracker`."""
        self._objects = objects
        self._tracker = tracker
        self._state = state
        self._table_catalog = table_catalog
        self._is_kept = False

    def take_over(self) -> None:
        """Become the only one who changes the tracker."""
        self._tracker.take_over()

    def start_empty(self) -> None:
        """Begin with a tracker that has no tables."""
        self._tracker.restore(_EMPTY_TRACKER)

    def start_with(self, creates: str) -> Mapping[TableId, str]:
        """Begin with a tracker that has the tables of a copy; return those that it refuses."""
        return self._tracker.fill(creates)

    def is_half_done(self) -> bool:
        """Whether a crash left a statement that may be half applied."""
        return self._state.tracker_dump(self._table_catalog.source) is not None

    def recover(self, position: Position) -> None:
        """Undo a statement that a crash left half applied, given the committed `position`."""
        kept = self._state.tracker_dump(self._table_catalog.source)
        if kept is None:
            return
        if position.order <= kept.position.order:
            self._tracker.restore(kept.dump)
            _RESTORED.maybe_crash()
        self._state.drop_tracker_dump(self._table_catalog.source, kept.position)

    def replays(self, statement: LoggedStatement) -> bool:
        """Whether `apply` may bring it to the tracker."""
        mine = binlog_statement(statement)
        read = classify(mine.sql, mine.session.sql_mode)
        return isinstance(read, TableDdl) and not (read.leaves_tables or _is_of_server(read, mine.default_schema))

    def concerns(self, statement: LoggedStatement, table: TableId) -> bool:
        """See ports/replay.Replay."""
        return concerns(binlog_statement(statement), table)

    def apply(self, statement: LoggedStatement, stopped: Collection[str]) -> StatementOutcome:
        """Bring the tracker past `statement`; the caller then commits the outcome and calls `settle`.

        Of tables that are `stopped` already, the rows are not known.
        """
        mine = binlog_statement(statement)
        match classify(mine.sql, mine.session.sql_mode):
            case Harmless("CREATE TABLE"):
                return StatementOutcome(stopped=self._stopped_by_query(mine))
            case Harmless() | TransactionControl():
                return StatementOutcome()
            case RowStatement() as rows:
                return StatementOutcome(stopped=self._stopped_by_rows(mine, rows))
            case TableDdl() as ddl:
                return self._apply_ddl(mine, ddl, stopped)
            case other:
                assert_never(other)

    def close(self) -> None:
        """Let go of the state database."""
        self._state.close()

    def settle(self, statement: LoggedStatement) -> None:
        """The outcome is committed: the dump is no longer needed. One that somebody who took over keeps by now is."""
        if self._is_kept:
            self._state.drop_tracker_dump(self._table_catalog.source, statement.begin)
            self._is_kept = False

    def _apply_ddl(self, statement: StatementLogged, ddl: TableDdl, stopped: Collection[str]) -> StatementOutcome:
        match ddl:
            case TableDdl("alter" | "truncate" | "create_index" | "drop_index") if statement.of_session:
                return StatementOutcome(stopped=self._stopped_by_session(statement, ddl))
            case TableDdl("create", changes_rows=True):
                more = self._stopped_by_query(statement)
                outcome = self._replay(statement, ddl, stopped)
                return replace(outcome, stopped=(*outcome.stopped, *more))
            case TableDdl("create", conditional=True):
                return self._create_if_needed(statement, ddl, stopped)
            case _:
                return self._replay(statement, ddl, stopped)

    def _stopped_by_rows(self, statement: StatementLogged, rows: RowStatement) -> _Stopped:
        """Rows written as a statement cannot be known: every table that it may have changed stops."""
        reason = f"{rows.verb} was logged as a statement, so its rows are not in the log"
        existing = self._tracker.tables()
        written = set(self._named(rows.tables, statement, existing))
        tokens = _tokens_of(statement)
        if changes_old_rows(tokens):
            written = with_children(written, self._tracker.cascades())
        why = self._why_more(statement, tokens, written) if written else "its text does not say which"
        if why:
            return self._stop(statement, existing, f"{reason}; it may have changed any table: {why}", _WRITE_ROWS)
        return self._stop(statement, sorted(written), reason, _WRITE_ROWS)

    def _stopped_by_query(self, statement: StatementLogged) -> _Stopped:
        """Stop every table where the query of a CREATE TABLE, logged in place of its rows, may write to one."""
        query = query_of(_tokens_of(statement))
        why = self._why_more(statement, query, ()) if query else ""
        reason = f"CREATE TABLE with a query was logged as a statement; it may have changed any table: {why}"
        return self._stop(statement, self._tracker.tables(), reason, _WRITE_ROWS) if why else ()

    def _stopped_by_session(self, statement: StatementLogged, ddl: TableDdl) -> _Stopped:
        """Stop the tables that are named: this was done to them, or to temporary tables of their names.

        Servers mark it alike, also where a procedure has used a temporary table or CONNECTION_ID() before.
        """
        there = set(self._tracker.tables())
        named = there.intersection(self._named(ddl.tables, statement, there))
        reason = (
            f"{statement.sql[:200]!r} was done to it or to a temporary table of its name: the log does not say which"
        )
        return self._stop(statement, sorted(named), reason, _WRITE_PLAINLY)

    def _why_more(self, statement: StatementLogged, tokens: Sequence[Token], written: Collection[TableId]) -> str:
        """Say why what `tokens` say may have written to more tables than `written`, "" if it surely has not."""
        call = foreign_call(tokens)
        if call:
            return f"it calls {call}, which may be a stored function"
        if stays_inside(tokens, written):
            return ""
        return self._objects.why_more(written, named_anywhere(tokens, statement.default_schema))

    def _replay(self, statement: StatementLogged, ddl: TableDdl, gone: Collection[str]) -> StatementOutcome:
        if _is_of_server(ddl, statement.default_schema):
            return StatementOutcome()
        existing = self._tracker.tables()
        touched = touched_by(statement.sql, ddl, statement.default_schema, existing)
        before = there = touched.among(existing)
        ddl = self._without_partitions(ddl, before)
        shapes_before = shapes = self._shapes(before)
        if not ddl.leaves_tables:
            self._keep(statement, touched)
            try:
                self._tracker.apply(statement.sql, statement.default_schema, statement.session)
            except PenstockError as error:
                if error.retryable:
                    raise
                # It may be of a parent that the tracker lacks.
                self._table_catalog.unlogged.forget()
                return self._not_replayed(statement, ddl, error)
            _APPLIED.maybe_crash()
            self._table_catalog.unlogged.forget()
            there = touched.among(self._tracker.tables())
            shapes = self._shapes(there)
        names = self._names(statement, ddl, [*before, *there])
        schema_changes, stopped = [], []
        for table in sorted({*shapes_before, *shapes}):
            origin = names.origins.get(table)
            moved = shapes_before.get(origin) if origin and self._carried(origin, gone) else None
            named, sql_mode = table in names.named, statement.session.sql_mode
            change = TableChange(shapes_before.get(table), shapes.get(table), named, origin, moved, sql_mode)
            change = replace(change, after=self._filled(statement, ddl, change))
            try:
                schema_change = self._follow(statement, ddl, table, change)
            except TableStoppedError as error:
                stopped.append((table, StoppedTable(str(statement.begin), error.message, error.hint)))
            else:
                schema_changes.extend([] if schema_change is None else [schema_change])
        return StatementOutcome(_with_moves(schema_changes, names.origins), tuple(stopped))

    def _filled(self, statement: StatementLogged, ddl: TableDdl, change: TableChange) -> TableSchema | None:
        """Return what the table is now, with what existing rows got in the columns that the statement added."""
        before, after = change.moved or change.before, change.after
        if before is None or after is None:
            return after
        session, objects = statement.session, self._objects
        seconds = statement.timestamp_ms // 1000
        clock = Clock(seconds, session.microseconds, session.time_zone, objects.local_seconds)
        try:
            # A column may be added under the name that another one had.
            return with_fills(before.with_columns_renamed(column_renames_of(ddl, change)), after, clock)
        except UnfitServerError:
            # The source does not know the zone any more: neither does anybody else.
            return after

    def _without_partitions(self, ddl: TableDdl, tables: Sequence[TableId]) -> TableDdl:
        """Return `ddl`, which drops partitions of `tables` if they are there, as nothing where there is none."""
        names = {name.casefold() for name in ddl.partitions_if_exists}
        if not names or any(names & set(map(str.casefold, self._tracker.partitions(table))) for table in tables):
            return ddl
        return replace(ddl, changes_rows=False)

    def _create_if_needed(self, statement: StatementLogged, ddl: TableDdl, gone: Collection[str]) -> StatementOutcome:
        """Follow CREATE TABLE IF NOT EXISTS, which MySQL logs also where it has found a table, or a view."""
        existing = self._tracker.tables()
        table, *_ = self._named(ddl.tables, statement, existing)
        is_new = self._table_catalog.wanted(table) and table not in existing
        had = self._objects.had_before(table, statement.timestamp_ms) if is_new else ""
        if had == IS_VIEW:
            return StatementOutcome()
        outcome = self._replay(statement, ddl, gone)
        if not had:
            return outcome
        reason = f"CREATE TABLE IF NOT EXISTS may have found it, with rows that nobody has seen: {had}"
        return StatementOutcome(stopped=self._stop(statement, [table], reason, READ_AGAIN))

    def _carried(self, table: TableId, stopped: Collection[str]) -> bool:
        return self._table_catalog.schema_change(table) is not None and str(table) not in stopped

    def _follow(
        self, statement: StatementLogged, ddl: TableDdl, table: TableId, change: TableChange
    ) -> SchemaChange | None:
        """Decide what the statement did to one table. Raises TableStoppedError when it cannot be carried."""
        match effect_of(ddl, change):
            case None:
                return None
            case Refusal(column, reason, hint):
                raise TableStoppedError(str(table), column, str(statement.begin), reason, hint)
            case SchemaChangeKind.DROP | SchemaChangeKind.TRUNCATE as kind:
                last = self._table_catalog.schema_change(table)
                return None if last is None else _told(statement, last, kind)
            case SchemaChangeKind.CREATE | SchemaChangeKind.SCHEMA | SchemaChangeKind.RENAME as kind:
                if change.after is None:
                    return None
                schema_change = self._announce(statement, change.after, kind)
                return replace(schema_change, column_renames=column_renames_of(ddl, change))
            case other:
                assert_never(other)

    def _announce(self, statement: StatementLogged, schema: TableSchema, kind: SchemaChangeKind) -> SchemaChange:
        registered = self._table_catalog.register(schema, str(statement.begin))
        schema_change = self._table_catalog.event_of(schema, registered, statement.order)
        return _told(statement, schema_change, kind)

    def _not_replayed(self, statement: StatementLogged, ddl: TableDdl, error: PenstockError) -> StatementOutcome:
        """Handle a statement that the tracker refused: it affects only the tables that it names, or of its schema."""
        reason = f"the schema tracker refused {statement.sql[:200]!r}: {error.message}"
        existing = self._tracker.tables()
        if ddl.action in _OF_SCHEMAS:
            schema = (ddl.schema or statement.default_schema).casefold()
            affected = [table for table in existing if table.schema.casefold() == schema]
        else:
            affected = self._named(ddl.tables, statement, existing) or list(existing)
        return StatementOutcome(stopped=self._stop(statement, affected, reason, f"{error.hint}; then {READ_AGAIN}"))

    def _stop(self, statement: StatementLogged, tables: Iterable[TableId], reason: str, hint: str) -> _Stopped:
        """Stop those of `tables` that are wanted."""
        stopped = []
        for table in filter(self._table_catalog.wanted, tables):
            error = TableStoppedError(str(table), "", str(statement.begin), reason, hint)
            stopped.append((table, StoppedTable(str(statement.begin), error.message, error.hint)))
        return tuple(stopped)

    def _named(
        self, names: Sequence[TableName], statement: StatementLogged, tables: Collection[TableId]
    ) -> list[TableId]:
        return resolve_names(names, statement.default_schema, tables, folds=self._tracker.folds_names)

    def _names(self, statement: StatementLogged, ddl: TableDdl, tables: Sequence[TableId]) -> _Names:
        """Look the names that a statement has up among `tables`."""
        pairs = [self._named(pair, statement, tables) for pair in ddl.renames]
        origins = follow_renames([(old, new) for old, new in pairs], tables)
        return _Names(self._named(ddl.tables, statement, tables), origins)

    def _keep(self, statement: StatementLogged, touched: Touched) -> None:
        dump = self._tracker.dump(touched)
        self._is_kept = True
        self._state.keep_tracker_dump(self._table_catalog.source, TrackerDump(statement.begin, dump))
        _DUMPED.maybe_crash()

    def _shapes(self, tables: Iterable[TableId]) -> Mapping[TableId, TableSchema]:
        """What those of `tables` look like that are wanted."""
        return self._tracker.describe(list(filter(self._table_catalog.wanted, tables)))


def _tokens_of(statement: StatementLogged) -> Sequence[Token]:
    return read_tokens(statement.sql, statement.session.sql_mode)


def _is_of_server(ddl: TableDdl, default_schema: str) -> bool:
    """Whether `ddl` is about the server's own schemas alone, or about copies that a snapshot makes.

    The former are in no dump, and the tracker lives by its own; the latter are no tables of anybody.
    """
    if ddl.tables and all(is_copy(TableId(schema or default_schema, name)) for schema, name in ddl.tables):
        return True
    schemas = {schema or default_schema for schema, _ in ddl.tables} or {ddl.schema or default_schema}
    return ddl.action != "unknown" and schemas <= SYSTEM_SCHEMAS


@dataclass(frozen=True, slots=True)
class _Names:
    """The tables that a statement names, and for each that got its name by it what it was called before."""

    named: Collection[TableId]
    origins: Mapping[TableId, TableId]


def _with_moves(schema_changes: Sequence[SchemaChange], origins: Mapping[TableId, TableId]) -> tuple[SchemaChange, ...]:
    """Tell in each schema-change event of a statement all that the statement moved."""
    renamed = [a for a in schema_changes if a.kind is SchemaChangeKind.RENAME]
    moves = tuple(Move(str(origins[a.table]), str(a.table), a.value_schema_id) for a in renamed)
    return tuple(replace(schema_change, moves=moves) for schema_change in schema_changes)


def _told(statement: StatementLogged, schema_change: SchemaChange, kind: SchemaChangeKind) -> SchemaChange:
    """Return `schema_change` as what `statement` did."""
    return replace(
        schema_change,
        order=statement.order,
        kind=kind,
        file=statement.end.file,
        timestamp_ms=statement.timestamp_ms,
    )
