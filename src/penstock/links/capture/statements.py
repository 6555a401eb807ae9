"""DDL in the log: replayed on the tracker, told to the registry, announced to the rest of the pipeline.

The tracker is not transactional, so a dump of it is kept in the state database
from before a statement is applied until its checkpoint is committed:

    publish what came before | keep the dump | apply | commit announcements and position | drop the dump

A dump found at start belongs to a statement that may be half applied. If the
committed position is still before that statement, the dump is restored and the
statement comes again from the log; if it is behind us, the dump is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from penstock.core.announcements import Announcement
from penstock.core.errors import PenstockError, TableStoppedError
from penstock.core.mysql.ddl import Harmless, RowStatement, TableDdl, TableName, TransactionControl, classify
from penstock.core.mysql.evolution import refusal
from penstock.core.positions import BinlogPosition, file_number
from penstock.core.publication import StoppedTable
from penstock.core.tables import TableId
from penstock.ports.state import TrackerDump

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.mysql.log_items import StatementLogged
    from penstock.core.tables import TableSchema
    from penstock.links.capture.table_book import TableBook
    from penstock.ports.state import State

_COPY_AGAIN = "start a new pipeline (another `pipeline` name and `home`) to carry the table from a fresh copy"


@dataclass(frozen=True, slots=True)
class StatementOutcome:
    """What a statement means for the pipeline: tables with a new schema, and tables that cannot go on."""

    announcements: tuple[Announcement, ...] = ()
    stopped: tuple[tuple[TableId, StoppedTable], ...] = ()


class StatementHandler:
    """Takes the log's statements one at a time, each after everything before it was published."""

    def __init__(self, state: State, book: TableBook, partitions: int) -> None:
        """Serve the capture whose tables are in `book`; topics it makes have `partitions`."""
        self._tracker = book.tracker
        self._state = state
        self._book = book
        self._partitions = partitions

    def recover(self, position: BinlogPosition) -> None:
        """Undo a statement that a crash left half applied, given the committed `position`."""
        kept = self._state.tracker_dump(self._book.source)
        if kept is None:
            return
        if position.order <= kept.position.order:
            self._tracker.restore(kept.dump)
        self._state.drop_tracker_dump(self._book.source)

    def replays(self, statement: StatementLogged) -> bool:
        """Whether `apply` would bring it to the tracker."""
        return isinstance(classify(statement.sql), TableDdl)

    def apply(self, statement: StatementLogged) -> StatementOutcome:
        """Bring the tracker past `statement`; the caller then commits the outcome and calls `settle`."""
        match classify(statement.sql):
            case Harmless() | TransactionControl():
                return StatementOutcome()
            case RowStatement() as rows:
                return self._refuse_rows(statement, rows)
            case TableDdl() as ddl:
                return self._replay(statement, ddl)
            case other:
                assert_never(other)

    def close(self) -> None:
        """Let go of the state database."""
        self._state.close()

    def settle(self) -> None:
        """The outcome is committed: the dump is no longer needed."""
        self._state.drop_tracker_dump(self._book.source)

    def _refuse_rows(self, statement: StatementLogged, rows: RowStatement) -> StatementOutcome:
        """Rows written as a statement cannot be known: their tables stop."""
        reason = f"{rows.verb} was logged as a statement, so its rows are not in the log"
        hint = f"set binlog_format=ROW for every session that writes; then {_COPY_AGAIN}"
        return self._stop(statement, rows.tables, reason, hint)

    def _replay(self, statement: StatementLogged, ddl: TableDdl) -> StatementOutcome:
        before = self._wanted_tables()
        self._state.keep_tracker_dump(self._book.source, TrackerDump(statement.begin, self._tracker.dump()))
        try:
            self._tracker.apply(statement.sql, statement.default_schema)
        except PenstockError as error:
            if error.retryable:
                raise
            return self._not_replayed(statement, ddl, error)
        after = self._wanted_tables()
        announcements, stopped = [], []
        for table in sorted({*before, *after}):
            try:
                announcement = self._follow(statement, ddl, table, (before.get(table), after.get(table)))
            except TableStoppedError as error:
                stopped.append((table, StoppedTable(str(statement.begin), error.message, error.hint)))
            else:
                announcements.extend([] if announcement is None else [announcement])
        return StatementOutcome(tuple(announcements), tuple(stopped))

    def _follow(
        self,
        statement: StatementLogged,
        ddl: TableDdl,
        table: TableId,
        change: tuple[TableSchema | None, TableSchema | None],
    ) -> Announcement | None:
        """Decide what the statement did to one table. Raises TableStoppedError when it cannot be carried."""
        before, after = change
        reason = _loses_rows(statement, ddl, table, change)
        if reason:
            raise TableStoppedError(str(table), "", str(statement.begin), reason, _COPY_AGAIN)
        if after is None or before == after:
            return None
        if before is not None:
            refused = refusal(before, after)
            if refused is not None:
                raise TableStoppedError(str(table), refused.column, str(statement.begin), refused.reason, refused.hint)
        registered = self._book.register(after, str(statement.begin))
        return Announcement(
            source=self._book.source,
            table=table,
            topic=registered.topic,
            follows=registered.follows,
            key_schema_id=registered.key_schema_id,
            value_schema_id=registered.value_schema_id,
            partitions=self._partitions,
            order=(file_number(statement.end.file), statement.end.offset, 0),
        )

    def _not_replayed(self, statement: StatementLogged, ddl: TableDdl, error: PenstockError) -> StatementOutcome:
        """Handle a statement that the tracker refused: only the tables it names can be affected."""
        reason = f"the schema tracker refused {statement.sql[:200]!r}: {error.message}"
        return self._stop(statement, ddl.tables, reason, _COPY_AGAIN)

    def _stop(
        self, statement: StatementLogged, names: tuple[TableName, ...], reason: str, hint: str
    ) -> StatementOutcome:
        """Stop the tables that a statement names, or all of them where it could be any."""
        tables = _named(names, statement.default_schema) if names else list(self._wanted_tables())
        stopped = []
        for table in filter(self._book.wanted, tables):
            error = TableStoppedError(str(table), "", str(statement.begin), reason, hint)
            stopped.append((table, StoppedTable(str(statement.begin), error.message, error.hint)))
        return StatementOutcome(stopped=tuple(stopped))

    def _wanted_tables(self) -> Mapping[TableId, TableSchema]:
        tables = {}
        for table in self._tracker.tables():
            schema = self._tracker.table_schema(table) if self._book.wanted(table) else None
            if schema is not None:
                tables[table] = schema
        return tables


def _loses_rows(
    statement: StatementLogged,
    ddl: TableDdl,
    table: TableId,
    change: tuple[TableSchema | None, TableSchema | None],
) -> str:
    """Say why rows changed without being in the log, or "" if they did not."""
    before, after = change
    named = table in _named(ddl.tables, statement.default_schema)
    if after is None:
        return "the table was dropped or renamed in the source; the target keeps what it had"
    if before is None:
        created = ddl.action == "create" and not ddl.changes_rows
        return "" if created else "it took this name with rows in it that are not in the log"
    return _not_followed(ddl) if named else ""


def _not_followed(ddl: TableDdl) -> str:
    """Say why a table that the statement names cannot be followed by its schema alone, or "" if it can."""
    if ddl.action == "truncate":
        return "it was truncated, which this release does not carry"
    if ddl.changes_rows:
        return "rows came or went without a row event, as with a partition that is dropped or exchanged"
    if ddl.replaces:
        return "it was replaced by CREATE OR REPLACE TABLE, which drops its rows without a word in the log"
    if ddl.renames_columns:
        return "a column of it got another name, which this release does not carry"
    return ""


def _named(tables: tuple[TableName, ...], default_schema: str) -> list[TableId]:
    return [TableId(schema or default_schema, name) for schema, name in tables]
