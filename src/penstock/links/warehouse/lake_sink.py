"""Loading a lake: each step of a load is one commit of one table, which also says how far the table is."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.config.crash_points import CrashPoint
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import TableId
from penstock.core.warehouse.columns import stopped
from penstock.core.warehouse.delta import (
    DELTA,
    at_path,
    check_table,
    plan_append,
    plan_checks,
    plan_delta_merge,
    plan_no_rows,
    plan_rewrite,
    plan_truncate_entry,
)
from penstock.core.warehouse.delta_schema import amend_metadata, changes_in_log_alone
from penstock.core.warehouse.dialect import quote_name
from penstock.core.warehouse.load_plan import SchemaInPlace, plan_positions, plan_steps
from penstock.core.warehouse.overflow import fit_rows, fit_schema
from penstock.core.warehouse.partial_rows import WHOLE, plan_completion
from penstock.core.warehouse.planner import keep_fill_values, plan_deletes, plan_truncate
from penstock.links.warehouse.barriers import dropped_note, log_place, may_come_whole, out_of_range_note, refuse_orphans
from penstock.links.warehouse.lake_state import LakeState, Rename, TableProgress
from penstock.links.warehouse.lake_tables import LakeTables
from penstock.links.warehouse.lake_treatments import treat_moves_of_lake, treat_step_of_lake
from penstock.links.warehouse.load_rules import LoadRules
from penstock.links.warehouse.pieces import count_changes, find_lacking, read_in_parts
from penstock.links.warehouse.refused_statements import stops
from penstock.links.warehouse.table_state import TableState, begin_anew, require_rows
from penstock.links.warehouse.table_steps import Empty, End, Make, MakeAnew, Migrate, plan_barrier, plan_columns
from penstock.ports.sink import Loaded

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pyarrow as pa

    from penstock.core.batches import Batch
    from penstock.core.schema_changes import Move
    from penstock.core.tables import TableSchema
    from penstock.core.warehouse.load_plan import Step
    from penstock.core.warehouse.migration import Check
    from penstock.core.warehouse.target_table import TargetTable
    from penstock.links.warehouse.table_steps import Crossing
    from penstock.links.warehouse.treatments import Treated
    from penstock.ports.lake import Lake
    from penstock.ports.objects import ObjectStore

_MOVED = CrashPoint("lake.moved", "one of the tables of a rename has its new rows, others have not")

_DEFAULTS = LoadRules()


class LakeSink:
    """One pipeline's and source's way into a lake. It implements the port `Sink`. It is for one thread.

    A lake has no transaction over several commits, so a load of several steps
    becomes visible step by step. Each is a state that the source's table had.
    """

    def __init__(self, lake: Lake, lake_state: LakeState, objects: ObjectStore, rules: LoadRules = _DEFAULTS) -> None:
        """Load into `lake`, which is closed with this, the files of `objects`. Renames under way are finished first."""
        self._lake = lake
        self._lake_state = lake_state
        self._objects = objects
        self._rules = rules
        self._tables = LakeTables(lake, lake_state)
        try:
            self._finish_renames()
        except BaseException:
            lake.close()
            raise

    def batch_offset(self) -> int:
        """See `Sink`."""
        return self._lake_state.batch_offset()

    def waiting(self) -> dict[TableId, int]:
        """See `Sink`."""
        return self._lake_state.waiting()

    def finish(
        self, batch_offset: int, waiting: Mapping[TableId, int] | None = None, anew: Collection[TableId] = ()
    ) -> None:
        """See `Sink`. A table that begins anew is told so first: what is read again before that, it loses then.

        One that ends here loses nothing then. So it waits first: what is read again is not for it.
        """
        before = self._lake_state.waiting()
        waiting = before if waiting is None else waiting
        ended = {table: waiting[table] for table in anew if waiting.get(table, 0) < 0}
        if ended:
            self._lake_state.set_batch_offset(self._lake_state.batch_offset(), {**before, **ended})
        for table in anew:
            self._tables.forget_positions(table, ends=table in begin_anew(anew, waiting))
        self._lake_state.set_batch_offset(batch_offset, waiting)

    def positions(self, table: TableId) -> dict[tuple[str, int], int]:
        """See `Sink`."""
        known = self._tables.look(table)
        return dict(known.positions) if known else {}

    def treated(self, table: TableId) -> Mapping[str, str] | None:
        """See `Sink`."""
        known = self._tables.open(table)
        return known.columns.treated if known and known.columns else None

    def absent(self, tables: Collection[TableId]) -> set[TableId]:
        """See `Sink`."""
        return {table for table in tables if self._lake_state.life(table) is not True}

    def load(
        self, table: TableId, batches: Sequence[Batch], schemas: Mapping[int, TableSchema], at_once: int = 1
    ) -> Loaded:
        """See `Sink`. Each step is committed with the positions behind it."""
        with stops(str(table)):
            return self._load(table, batches, schemas, at_once)

    def _load(
        self, table: TableId, batches: Sequence[Batch], schemas: Mapping[int, TableSchema], at_once: int
    ) -> Loaded:
        known = self._tables.open(table)
        positions = known.positions if known else {}
        rows = out_of_range = 0
        share = self._rules.shared_by(at_once)
        steps = plan_steps(positions, batches, share.rows_max, share.bytes_max)
        begins = bool(steps) and steps[0].kind is SchemaChangeKind.CREATE
        if steps and not begins and known and not known.state.ended and known.state.deletes != self._rules.deletes:
            known = self._settle_deletes(known)
        for arriving in steps:
            before = known.state.out_of_range if known else 0
            treated = treat_step_of_lake(
                self._rules.columns, self._tables, known, arriving, schemas[arriving.schema_id]
            )
            known, took = self._take(table, treated, known, share.held_bytes_max)
            rows += took
            # A table that begins anew counts from 0.
            out_of_range += max(0, known.state.out_of_range - before) if known else 0
        return Loaded(rows, time.time_ns() // 1_000_000, self._note(table, known, batches), out_of_range)

    @property
    def tables_together(self) -> int:
        """See `Sink`: a commit is of one table."""
        return 1

    def load_together(
        self, work: Mapping[TableId, Sequence[Batch]], schemas: Mapping[int, TableSchema]
    ) -> Mapping[TableId, Loaded]:
        """See `Sink`; nobody asks for it."""
        return {table: self.load(table, batches, schemas) for table, batches in work.items()}

    def rename(self, moves: Sequence[Move], order: tuple[int, int, int], schemas: Mapping[int, TableSchema]) -> None:
        """See `Sink`. The rows are copied, table by table; what is to be done is written down before."""
        with stops(moves[0].table):
            self._rename(moves, order, schemas)

    def _rename(self, moves: Sequence[Move], order: tuple[int, int, int], schemas: Mapping[int, TableSchema]) -> None:
        renames = {TableId.parse(move.origin): TableId.parse(move.table) for move in moves}
        known = {table: self._tables.open(table) for table in {*renames, *renames.values()}}
        if any(progress and progress.state.barrier >= order for progress in known.values()):
            return
        planned = []
        treated, histories = treat_moves_of_lake(self._rules.columns, moves, known, schemas)
        for move in moves:
            old, new = TableId.parse(move.origin), TableId.parse(move.table)
            progress, schema, there = known[old], self._fitted(treated[move.schema_id]), known[new]
            origin = require_rows(progress.state if progress else None, old, new)
            self._check_rewrite(old, origin, schema)
            kept = keep_fill_values(replace(origin.schema, table=new), schema)
            state = TableState(kept, SchemaInPlace(move.schema_id, order), order, deletes=origin.deletes)
            after = TableProgress(state, there.positions if there else {}, columns=histories.get(new))
            before = replace(progress or TableProgress(origin), state=origin)
            planned.append(Rename(before, 0, after))
        # The last thing: nothing may be committed between a version and its place in the plan.
        self._lake_state.set_renames([replace(plan, version=self._lake.version(_origin(plan))) for plan in planned])
        self._finish_renames()

    def close(self) -> None:
        """See `Sink`."""
        self._lake.close()

    def _finish_renames(self) -> None:
        plans = self._lake_state.renames()
        names = {plan.after.state.schema.table for plan in plans}
        for plan in plans:
            new = plan.after.state
            known = self._tables.open(new.schema.table)
            if known is None or known.state.barrier < new.barrier:
                self._move(plan)
                _MOVED.maybe_crash()
        for plan in plans:
            known = self._tables.open(_origin(plan)) if _origin(plan) not in names else None
            if known is not None and not known.leaving:
                self._tables.leave(
                    _origin(plan), replace(plan.origin, state=plan.origin.state.end(plan.after.state.barrier))
                )
        if plans:
            self._lake_state.set_renames([])

    def _move(self, plan: Rename) -> None:
        """Give a table the rows of another, as they were in a version of it."""
        schema = plan.after.state.schema
        query = plan_rewrite(self._target(plan.origin.state, plan.version), (), schema)
        self._tables.commit(schema.table, plan.after, lambda number: self._lake.replace(schema, query, number))

    def _take(
        self, table: TableId, treated: Treated, known: TableProgress | None, held_bytes_max: int
    ) -> tuple[TableProgress | None, int]:
        """Bring a step in; return how far the table is then, and how many changes the step had."""
        step = treated.step
        if known and treated.history:
            known = replace(known, columns=treated.history)
        if step.kind is SchemaChangeKind.SCHEMA:
            return self._take_parts(table, treated, known, held_bytes_max)
        schema, state = self._fitted(treated.schema), known.state if known else None
        crossing = plan_barrier(state, step, schema, self._rules.deletes)
        return (known if crossing is None else self._cross(crossing, treated, known)), 0

    def _fitted(self, schema: TableSchema) -> TableSchema:
        return fit_schema(DELTA, schema, self._rules.overflow)

    def _take_parts(
        self, table: TableId, treated: Treated, known: TableProgress | None, held_bytes_max: int
    ) -> tuple[TableProgress | None, int]:
        """Bring a step with rows in, in parts that are commits of their own; each file is read before its commit."""
        changes, is_timed = 0, self._rules.deletes == "soft"
        for part, rows in read_in_parts(self._objects, treated.schema, treated.step, held_bytes_max, timed=is_timed):
            known, took = self._take_rows(table, replace(treated, step=part), known, rows)
            changes += took
            # What comes next has its memory.
            del rows
        return known, changes

    def _take_rows(
        self, table: TableId, treated: Treated, known: TableProgress | None, rows: pa.Table | None
    ) -> tuple[TableProgress, int]:
        """Bring the schema and the rows of a step in."""
        step, filed = treated.step, treated.schema
        out_of_range, schema = 0, self._fitted(filed)
        check_table(schema, self._rules.deletes)
        if rows is not None:
            held = fit_rows(DELTA, filed, rows, self._rules.overflow)
            rows, out_of_range = held.rows, held.changed
        following = plan_columns(known.state if known else None, step, schema, self._rules.deletes)
        if known is None:
            known = self._create(TableProgress(following.after, columns=treated.history))
        elif isinstance(following, Migrate):
            known = self._migrate(known, following, step, schema)
        state = replace(following.after, out_of_range=following.after.out_of_range + out_of_range)
        after = known.after(state, plan_positions(known.positions, [piece.batch for piece in step.pieces]))
        if rows is not None:
            with self._lake.staged(schema, rows) as staged:
                self._merge(after, schema, staged, rows, may_come=may_come_whole(after.state, step))
        elif after != known:
            self._tables.commit(table, after, lambda number: self._lake.note(table, number))
        return after, 0 if rows is None else count_changes(rows)

    def _create(self, progress: TableProgress) -> TableProgress:
        """Make the table, or make it anew without rows."""
        schema = progress.state.schema
        check_table(schema, progress.state.deletes)
        query = plan_no_rows(self._target(progress.state))
        self._tables.commit(schema.table, progress, lambda number: self._lake.replace(schema, query, number))
        return progress

    def _migrate(self, known: TableProgress, migration: Migrate, step: Step, schema: TableSchema) -> TableProgress:
        """Give the table its new columns: in its log alone where that is enough, else with all of its rows."""
        renamed, after = migration.renamed, known.after(migration.after)
        if self._lake.is_empty(schema.table):
            # An empty table can become any other, for it has no values to keep.
            return self._create(after)
        self._check_rows(self._target(known.state), step.column_renames, schema)
        if bool(renamed.key) == bool(schema.key) and changes_in_log_alone(renamed, schema):
            self._amend(after, step.column_renames, schema)
            return after
        query = plan_rewrite(self._target(known.state), step.column_renames, schema)
        self._tables.commit(schema.table, after, lambda number: self._lake.replace(schema, query, number))
        return after

    def _settle_deletes(self, known: TableProgress) -> TableProgress:
        """Give the table the deletes that are configured, which changes its log alone; return it as it is then."""
        schema = known.state.schema
        self._check(plan_deletes(DELTA, self._target(known.state), self._rules.deletes).checks, schema)
        after = known.after(replace(known.state, deletes=self._rules.deletes))
        self._amend(after, (), schema)
        return after

    def _amend(self, after: TableProgress, renames: Sequence[tuple[str, str]], schema: TableSchema) -> None:
        """Give some columns of the table other names (old, new), and then the columns of `schema`, in its log alone."""

        def change(metadata: str) -> str:
            return amend_metadata(metadata, renames, schema, after.state.deletes)

        self._tables.commit(schema.table, after, lambda number: self._lake.amend(schema.table, change, number))

    def _check_rewrite(self, origin: TableId, before: TableState, after: TableSchema) -> None:
        check_table(after, before.deletes)
        if not self._lake.is_empty(origin):
            there = self._target(before)
            self._check_rows(replace(there, schema=replace(there.schema, table=after.table)), (), after)

    def _check_rows(self, before: TargetTable, renames: Sequence[tuple[str, str]], after: TableSchema) -> None:
        self._check(plan_checks(before, renames, after), after)

    def _check(self, checks: Sequence[Check], after: TableSchema) -> None:
        for check in checks:
            if self._lake.count(f"SELECT COUNT(*) FROM ({check.query})"):  # noqa: S608 - names are quoted
                raise stopped(after, check.column, check.reason, check.hint)

    def _target(self, state: TableState, version: int | None = None) -> TargetTable:
        """The table as statements call it, or an older version of it."""
        return at_path(state.schema, self._lake.path(state.schema.table, version), state.deletes)

    def _cross(self, crossing: Crossing, treated: Treated, known: TableProgress | None) -> TableProgress:
        """Begin, empty or end a table; return how far it is then."""
        known = known or TableProgress(crossing.after, columns=treated.history, leaving=isinstance(crossing, End))
        match crossing:
            case Make(after) | MakeAnew(_, after):
                return self._create(TableProgress(after, known.positions, columns=known.columns))
            case Empty(_, after):
                return self._truncate(known.after(after), treated.step)
            case End(_, after):
                return self._end(replace(known, state=after))

    def _end(self, ended: TableProgress) -> TableProgress:
        table = ended.state.schema.table
        if ended.leaving or self._rules.dropped_tables == "drop":
            self._tables.leave(table, ended)
            return replace(ended, leaving=True)
        self._tables.commit(table, ended, lambda number: self._lake.note(table, number))
        return ended

    def _truncate(self, after: TableProgress, step: Step) -> TableProgress:
        schema = after.state.schema
        table = schema.table
        if schema.key:
            (statement,) = plan_truncate(DELTA, self._target(after.state), log_place(step))
            self._tables.commit(table, after, lambda number: self._lake.change(table, statement, number))
        else:
            query = plan_truncate_entry(schema, log_place(step))
            self._tables.commit(table, after, lambda number: self._lake.append(table, query, number))
        return after

    def _merge(
        self, after: TableProgress, arriving: TableSchema, staged: str, rows: pa.Table, *, may_come: bool
    ) -> None:
        schema, target = after.state.schema, self._target(after.state)
        table = schema.table
        if not schema.key:
            query = plan_append(schema, arriving, staged)
            self._tables.commit(table, after, lambda number: self._lake.append(table, query, number))
            return
        lacking = find_lacking(arriving, rows)
        if not lacking:
            statement = plan_delta_merge(target, arriving, staged)
            self._tables.commit(table, after, lambda number: self._lake.change(table, statement, number))
            return
        completion = plan_completion(DELTA, target, arriving, staged, lacking)
        self._lake.run(completion.create)
        try:
            refuse_orphans(arriving.table, self._lake.count(completion.count_orphans), may_come=may_come)
            statement = plan_delta_merge(target, arriving, quote_name(DELTA, WHOLE))
            self._tables.commit(table, after, lambda number: self._lake.change(table, statement, number))
        finally:
            self._lake.run(completion.drop)

    def _note(self, table: TableId, known: TableProgress | None, batches: Sequence[Batch]) -> str | None:
        state = known.state if known else None
        if state and state.out_of_range and not state.ended:
            return out_of_range_note(state.out_of_range, DELTA, self._rules.overflow)
        return dropped_note(state, batches, is_kept=lambda: self._lake.exists(table))


def _origin(plan: Rename) -> TableId:
    return plan.origin.state.schema.table
