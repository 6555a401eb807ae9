"""What a landing zone's tables are made of: begun, changed and ended, each statement being a transaction by itself.

So a statement comes ahead of the transaction that needs it, and may have been run
before. What changes columns is written down first, in `definitions`, and stays
there until the rows' transaction: the names of columns do not tell what is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.errors import RefusedStatementError
from penstock.core.tables import TableId
from penstock.core.warehouse.alter import plan_migration
from penstock.core.warehouse.landing import (
    plan_end,
    plan_landed_merge,
    plan_new_columns,
    plan_stream_anew,
    plan_table,
    plan_task,
    require_mergeable,
)
from penstock.core.warehouse.landing_state import treats_otherwise
from penstock.core.warehouse.landing_tasks import plan_graphs_end, plan_streams_anew, plan_suspension
from penstock.core.warehouse.migration import Around
from penstock.core.warehouse.planner import plan_column_renames, plan_drop
from penstock.core.warehouse.rebuild import plan_copy_drops
from penstock.core.warehouse.target_table import TargetTable
from penstock.links.warehouse.barriers import log_place
from penstock.links.warehouse.definitions import Definitions, Planned
from penstock.links.warehouse.landing_limits import ENDED_WITH_RULE, stopped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.tables import TableSchema
    from penstock.core.warehouse.landing import LandingZone
    from penstock.core.warehouse.load_plan import Step
    from penstock.links.warehouse.definitions import Unfinished
    from penstock.links.warehouse.table_steps import Migrate
    from penstock.ports.landing import LandingDatabase


class LandingTables:
    """The public tables of one pipeline and source, with their streams and tasks, for one connection that loads."""

    def __init__(self, database: LandingDatabase, zone: LandingZone, whose: tuple[str, str], name: str) -> None:
        """Use `database`, which the caller closes; its transactions are called `name`."""
        self._database = database
        self._zone = zone
        self._name = name
        self._definitions = Definitions(database, *whose)
        # What need not be made again. Whoever relies on it is refused where somebody took it away.
        self._schemas: set[str] = set()

    def create(self) -> None:
        """Make the table of definitions if it is missing, and read what an earlier run left."""
        self._definitions.create()

    def begin(self, schema: TableSchema) -> None:
        """Make what a table is made of; refuse a public table that somebody else made."""
        statements = plan_table(self._zone, schema)
        there = self._database.columns(schema.table)
        if there and not self._database.columns(TableId(self._zone.schema, str(schema.table))):
            reason = "the target has a table of this name that Penstock did not make"
            raise stopped(schema.table, reason, "drop or rename that table, or load this one into another database")
        target = TargetTable("", schema)
        probe = f"SELECT 1 FROM {target.path(self._database.dialect)} LIMIT 1"  # noqa: S608 - the name is quoted
        if there and not self._database.fetch(probe):
            # It may have been made ahead of the first rows, for a later schema than theirs.
            self._run(plan_graphs_end(self._zone, schema.table))
            self._run(plan_drop(self._database.dialect, target))
        self.make(statements)

    def make(self, statements: Sequence[str]) -> None:
        """Make what a table is made of; schemas once in the life of this."""
        for statement in statements:
            if statement not in self._schemas:
                self._database.run(statement)
            if statement.startswith("CREATE SCHEMA "):
                self._schemas.add(statement)

    def migrate(self, change: Migrate, step: Step, after: TableSchema) -> Sequence[Unfinished]:
        """Change the public table and its task for the columns that `step` brings, from where an earlier try ended.

        Returns what is done so: `delete` it in the transaction that says so, then `forget` it.
        """
        require_mergeable(after)
        tasks = plan_task(self._zone, after)
        if rule := self._zone.rule(after.table):
            rule.require_free(change.before.schema, after)
        if not self._definitions.about(after.table):
            # What has landed is of the older schema, whose columns may be gone after this.
            self._drain(change.before.schema)
            self._write_down(after.table, [*self._plan(change, step, after)])
        done = self._definitions.carry_out_alone(after.table)
        # A task that the file has no more may come after it.
        self._run([plan_suspension(self._zone, after.table), *tasks])
        return done

    def unfinished(self, table: TableId) -> Sequence[Unfinished]:
        """Return what was begun of a change of columns, and need not be done where the table begins anew or ends."""
        return self._definitions.about(table)

    def delete(self, definitions: Sequence[Unfinished]) -> None:
        """Write, in the caller's transaction, that these are done, or need not be; then `forget` them."""
        self._definitions.delete(definitions)

    def forget(self, definitions: Sequence[Unfinished]) -> None:
        """Let go of what was deleted in a transaction that is committed by now."""
        self._definitions.forget(definitions)

    def end(self, schema: TableSchema, *, drop: bool) -> None:
        """Merge what has landed of the table, and nothing after that; drop the public one where that is wanted.

        For a table that is to be dropped nothing is merged: what cannot be merged must not keep it from its end.
        """
        table = schema.table
        if not drop and self._database.has_stream(self._zone.schema, f"{table}/stream"):
            try:
                self._drain(schema)
            except RefusedStatementError as error:
                hint = ENDED_WITH_RULE if self._zone.rule(table) else error.hint
                raise RefusedStatementError(error.message, hint) from error
        self._run(plan_end(self._zone, table))
        target = TargetTable("", schema)
        if drop and self._definitions.about(table):
            self._run(plan_copy_drops(self._database.dialect, target))
        if drop and self._database.columns(table):
            self._run(plan_drop(self._database.dialect, target))

    def ask_again(self) -> None:
        """Take nothing for made that was made before."""
        self._schemas.clear()

    def _plan(self, change: Migrate, step: Step, after: TableSchema) -> Iterator[str]:
        """Yield what alters the public table. Raises TableStoppedError where values in it do not allow that."""
        dialect, names = self._database.dialect, step.column_renames
        around = Around(log_place(step), has_rows=True, renames_are_told=True)
        planned = plan_migration(dialect, TargetTable("", change.renamed), after, around)
        # Its columns have their old names when this is asked.
        back = [(new, old) for old, new in names]
        there = TargetTable("", change.renamed.with_columns_renamed(back))
        for check in plan_migration(dialect, there, after.with_columns_renamed(back), around).checks:
            for row in self._database.fetch(check.query):
                raise check.refusal(after, row)
        if names:
            yield from plan_column_renames(dialect, TargetTable("", change.before.schema), names)
        yield from planned.statements
        if planned.is_remade:
            yield from plan_streams_anew(self._zone, after.table)

    def _write_down(self, table: TableId, statements: Sequence[str]) -> None:
        with self._database.transaction(self._name):
            planned = self._definitions.plan([table], [Planned(statement, table) for statement in statements])
        self._definitions.add(planned)

    def _drain(self, schema: TableSchema) -> None:
        """Merge all that has landed, as the task does; two of them take turns by the stream.

        Where the task has another rule than the file by now, it is suspended, and all messages are merged again.
        """
        there = self._database.task_definition(self._zone.schema, f"{schema.table}/task")
        if treats_otherwise(self._zone, schema, there):
            self._run([*plan_stream_anew(self._zone, schema.table), *plan_new_columns(self._zone, schema)])
        with self._database.transaction(self._name):
            self._database.run(plan_landed_merge(self._zone, schema))

    def _run(self, statements: Sequence[str]) -> None:
        for statement in statements:
            self._database.run(statement)
