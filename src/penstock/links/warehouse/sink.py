"""Loading a warehouse: batches become tables, in transactions that also say how far they go."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from penstock.config.crash_points import CrashPoint
from penstock.core.errors import LargeTransactionError, RefusedStatementError, TableStoppedError
from penstock.core.files import OP
from penstock.core.positions import FILE_BITS
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import TableId
from penstock.core.warehouse.dialect import quote_name
from penstock.core.warehouse.load_plan import SchemaInPlace, plan_positions, plan_steps, plan_transactions
from penstock.core.warehouse.overflow import fit_rows, fit_schema
from penstock.core.warehouse.partial_rows import Lacking
from penstock.core.warehouse.planner import keep_fill_values, plan_truncate
from penstock.core.warehouse.target_table import LogPlace
from penstock.links.warehouse.barriers import dropped_note, log_place, may_come_whole, out_of_range_note
from penstock.links.warehouse.definitions import Definitions, DefinitionsAheadError
from penstock.links.warehouse.load_rules import LoadRules
from penstock.links.warehouse.merges import Merges
from penstock.links.warehouse.pieces import count_changes, find_lacking, newest_rows, read_in_parts, read_piece
from penstock.links.warehouse.progress import TargetProgress
from penstock.links.warehouse.refused_statements import stops
from penstock.links.warehouse.table_state import TableState, require_rows
from penstock.links.warehouse.table_steps import Empty, End, Keep, Make, MakeAnew, Migrate, plan_barrier, plan_columns
from penstock.links.warehouse.target_tables import AheadOfTransactionError, OtherTransactionError, TargetTables
from penstock.links.warehouse.transactions import Transactions
from penstock.links.warehouse.treated_columns import TreatedColumns
from penstock.ports.sink import Loaded

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from penstock.core.batches import Batch
    from penstock.core.schema_changes import Move
    from penstock.core.tables import TableSchema
    from penstock.core.warehouse.load_plan import Step
    from penstock.core.warehouse.target_table import TargetTable
    from penstock.links.warehouse.table_steps import Crossing
    from penstock.ports.objects import ObjectStore
    from penstock.ports.warehouse import Warehouse

_MERGED = CrashPoint("load.merged", "rows are in the table, their positions are not, nothing is committed")
_PLACED = CrashPoint("load.positions_set", "rows and positions are written, the transaction is open")
_COMMITTED = CrashPoint("load.committed", "a load is committed, and only the target knows")


@dataclass(slots=True)
class _Counts:
    """What one try of a load has done so far, and how many bytes of rows it may hold."""

    changes: int = 0
    out_of_range: int = 0
    held_bytes_max: int = 0


_DEFAULTS = LoadRules()
_ANY_BYTES = 1 << 62
_GROUP_LOCK_SECONDS = 0.2
"""How long several tables wait for a lock of one of them: then each is loaded by itself."""


class SqlSink:
    """One pipeline's and source's way into a warehouse. It implements the port `Sink`. It is for one thread."""

    def __init__(
        self, warehouse: Warehouse, pipeline: str, source: str, objects: ObjectStore, rules: LoadRules = _DEFAULTS
    ) -> None:
        """Load into `warehouse`, which is closed with this, the files of `objects`. Raises what `Warehouse` raises."""
        self._warehouse = warehouse
        self._dialect = warehouse.dialect
        self._objects = objects
        self._rules = rules
        self._progress = TargetProgress(warehouse, pipeline, source)
        self._tables = TargetTables(warehouse, rules.deletes, self._progress.tables)
        self._columns = TreatedColumns(warehouse, pipeline, source, rules.columns)
        self._definitions = Definitions(warehouse, pipeline, source)
        self._transactions = Transactions(warehouse, self._progress, self._tables, self._definitions)
        self._merges = Merges(warehouse)
        self._seen: int | None = None
        try:
            if self._dialect.definitions_commit:
                self._create_state()
            else:
                warehouse.transact(self._create_state)
        except BaseException:
            warehouse.close()
            raise

    def batch_offset(self) -> int:
        """See `Sink`."""
        offset = self._progress.batch_offset()
        self._seen = int(offset)
        return offset

    def waiting(self) -> dict[TableId, int]:
        """See `Sink`."""
        return self._progress.waiting()

    def finish(
        self, batch_offset: int, waiting: Mapping[TableId, int] | None = None, anew: Collection[TableId] = ()
    ) -> None:
        """See `Sink`."""
        self._warehouse.transact(lambda: self._progress.finish(batch_offset, waiting, anew, self._seen))
        self._seen = int(batch_offset)

    def positions(self, table: TableId) -> dict[tuple[str, int], int]:
        """See `Sink`."""
        return self._progress.positions(table)

    def treated(self, table: TableId) -> Mapping[str, str] | None:
        """See `Sink`."""
        return self._columns.treated(table)

    def absent(self, tables: Collection[TableId]) -> set[TableId]:
        """See `Sink`."""
        return self._progress.absent(tables)

    def load(
        self, table: TableId, batches: Sequence[Batch], schemas: Mapping[int, TableSchema], at_once: int = 1
    ) -> Loaded:
        """See `Sink`. The files of a transaction are merged some at a time."""
        done, note = _Counts(), None
        bounds = (self._rules.transaction_rows_max, self._rules.transaction_bytes_max)
        todo = plan_transactions(batches, *bounds, apart=self._dialect.definitions_commit)[::-1]
        with stops(str(table)):
            while todo:
                part = todo.pop()
                work = partial(self._load, {table: part}, schemas, self._rules.shared_by(at_once))
                try:
                    ((counts, told),) = self._transactions.load(work, table, part[0])
                except (LargeTransactionError, OtherTransactionError):
                    if len(part) == 1:
                        raise
                    # Files do not tell how large their rows are, nor what has to come ahead of a transaction.
                    todo += [part[len(part) // 2 :], part[: len(part) // 2]]
                    continue
                _COMMITTED.maybe_crash()
                done = _Counts(done.changes + counts.changes, done.out_of_range + counts.out_of_range)
                note = note if told is None else told
        return Loaded(done.changes, time.time_ns() // 1_000_000, note, done.out_of_range)

    @property
    def tables_together(self) -> int:
        """See `Sink`."""
        return self._dialect.tables_together

    def load_together(
        self, work: Mapping[TableId, Sequence[Batch]], schemas: Mapping[int, TableSchema]
    ) -> Mapping[TableId, Loaded]:
        """See `Sink`."""
        tables = list(work)
        load = partial(self._load, work, schemas, self._rules.shared_by(len(work)))
        self._tables.begin()
        try:
            outcomes = self._warehouse.transact(load, tables, lock_seconds=_GROUP_LOCK_SECONDS)
        except (
            AheadOfTransactionError,
            OtherTransactionError,
            DefinitionsAheadError,
            RefusedStatementError,
        ) as error:
            reason, hint = f"it cannot be loaded together with others: {error}", "load it alone"
            raise TableStoppedError(str(tables[0]), "", "the target's table", reason, hint) from error
        _COMMITTED.maybe_crash()
        at = time.time_ns() // 1_000_000
        loaded = (Loaded(counts.changes, at, note, counts.out_of_range) for counts, note in outcomes)
        return dict(zip(tables, loaded, strict=True))

    def rename(self, moves: Sequence[Move], order: tuple[int, int, int], schemas: Mapping[int, TableSchema]) -> None:
        """See `Sink`."""
        names = sorted({TableId.parse(name) for move in moves for name in (move.origin, move.table)})
        with stops(moves[0].table):
            self._transactions.rename(lambda: self._rename(moves, order, schemas), names, order)

    def close(self) -> None:
        """See `Sink`."""
        self._warehouse.close()

    def _create_state(self) -> None:
        self._progress.create()
        self._columns.create()
        if self._dialect.definitions_commit:
            self._definitions.create()

    def _fitted(self, schemas: Mapping[int, TableSchema]) -> dict[int, TableSchema]:
        return {number: fit_schema(self._dialect, schema, self._rules.overflow) for number, schema in schemas.items()}

    def _load(
        self, work: Mapping[TableId, Sequence[Batch]], schemas: Mapping[int, TableSchema], share: LoadRules
    ) -> list[tuple[_Counts, str | None]]:
        """Load what there is of each table; return what came of it, and what people should know."""
        with self._progress.of_tables(list(work)):
            outcomes = [self._load_table(table, batches, schemas, share) for table, batches in work.items()]
        _PLACED.maybe_crash()
        return outcomes

    def _load_table(
        self, table: TableId, batches: Sequence[Batch], schemas: Mapping[int, TableSchema], share: LoadRules
    ) -> tuple[_Counts, str | None]:
        counts, positions = _Counts(held_bytes_max=share.held_bytes_max), self._progress.positions(table)
        steps = self._steps(positions, batches, schemas, share)
        known = self._known(table, steps[0]) if steps else None
        if known and not known.ended and known.deletes != self._rules.deletes:
            self._progress.set_table(table, self._defined(self._tables.settle_deletes(known)))
        for arriving in steps:
            filed = schemas[arriving.schema_id]
            step, schema = self._columns.treat(table, self._progress.table(table), arriving, filed)
            self._take(table, step, schema, counts)
        _MERGED.maybe_crash()
        self._progress.set_positions(table, plan_positions(positions, batches))
        return counts, self._note(table, batches)

    def _rename(self, moves: Sequence[Move], order: tuple[int, int, int], schemas: Mapping[int, TableSchema]) -> None:
        renames = {TableId.parse(move.origin): TableId.parse(move.table) for move in moves}
        known = {table: self._known(table) for table in {*renames, *renames.values()}}
        if any(state and state.barrier >= order for state in known.values()):
            return
        origins = {new: require_rows(known[old], old, new) for old, new in renames.items()}
        schemas = self._fitted(self._columns.move(moves, known, schemas))
        for table in set(renames.values()) - set(renames):
            state = known[table]
            if self._tables.stays(table, renames):
                continue
            if state:
                self._tables.drop(state)
            self._tables.refuse_foreign(table)
        self._tables.rename(renames, origins)
        for table in set(renames) - set(renames.values()):
            self._progress.set_table(table, origins[renames[table]].end(order))
        for move in moves:
            self._settle(origins[TableId.parse(move.table)], move, order, schemas[move.schema_id])
        self._tables.define_ahead({})

    def _settle(self, origin: TableState, move: Move, order: tuple[int, int, int], schema: TableSchema) -> None:
        """Give a table, which has its new name by now, the schema and the state that belong to it."""
        before = replace(origin, schema=replace(origin.schema, table=schema.table))
        self._tables.migrate(before, schema, LogPlace("", order[1], order[2], 0, order[0] >> FILE_BITS))
        state = replace(before, schema=keep_fill_values(before.schema, schema), barrier=order, ended=False)
        self._progress.set_table(schema.table, replace(state, in_place=SchemaInPlace(move.schema_id, order)))

    def _take(self, table: TableId, step: Step, schema: TableSchema, counts: _Counts) -> None:
        """Bring a step in, and count what it had."""
        if step.kind is SchemaChangeKind.SCHEMA:
            self._take_rows(table, step, schema, counts)
            return
        fitted = fit_schema(self._dialect, schema, self._rules.overflow)
        crossing = plan_barrier(self._progress.table(table), step, fitted, self._rules.deletes)
        if crossing is not None:
            self._cross(crossing, step)
            self._progress.set_table(table, self._defined(crossing.after))

    def _take_rows(self, table: TableId, step: Step, schema: TableSchema, counts: _Counts) -> None:
        """Bring the schema and the rows of `step` in."""
        known = self._progress.table(table)
        fitted = fit_schema(self._dialect, schema, self._rules.overflow)
        self._tables.check_types(fitted)
        state = self._follow_schema(known, step, fitted)
        files = self._files(fitted, step) if step.has_rows else None
        if files is not None:
            with self._checked(files, schema, step) as staged:
                self._merges.merge(self._tables.target(state), fitted, staged, Lacking((), ()))
                counts.changes += self._count_changes(step, fitted, staged)
        elif step.has_rows:
            state = self._read_in(state, step, (schema, fitted), counts)
        if state != known:
            self._progress.set_table(table, state)

    def _read_in(
        self, state: TableState, step: Step, schemas: tuple[TableSchema, TableSchema], counts: _Counts
    ) -> TableState:
        """Read the files of `step` and merge their rows, some at a time; return the state, with what was changed.

        `schemas` are that of the files, and what the target makes of it.
        """
        target, before, timed = self._tables.target(state), counts.out_of_range, state.deletes == "soft"
        may_come = may_come_whole(state, step)
        for _, rows in read_in_parts(self._objects, schemas[0], step, counts.held_bytes_max, timed=timed):
            if rows is not None:
                self._merge(target, schemas, rows, counts, may_come=may_come)
            # What comes next has its memory.
            del rows
        return replace(state, out_of_range=state.out_of_range + counts.out_of_range - before)

    def _merge(
        self,
        target: TargetTable,
        schemas: tuple[TableSchema, TableSchema],
        rows: pa.Table,
        counts: _Counts,
        *,
        may_come: bool,
    ) -> None:
        """Merge `rows`; `schemas` as in `_read_in`, `may_come` as in `Merges.bring_in`."""
        filed, fitted = schemas
        held = fit_rows(self._dialect, filed, rows, self._rules.overflow)
        lacking = find_lacking(filed, rows)
        self._merges.bring_in(target, fitted, newest_rows(fitted, held.rows), lacking, may_come=may_come)
        counts.changes += count_changes(rows)
        counts.out_of_range += held.changed

    def _steps(
        self,
        positions: Mapping[tuple[str, int], int],
        batches: Sequence[Batch],
        schemas: Mapping[int, TableSchema],
        share: LoadRules,
    ) -> list[Step]:
        """Plan the steps: of any size where the warehouse fetches all files, for then no row comes by here."""
        steps = plan_steps(positions, batches, self._rules.transaction_rows_max, _ANY_BYTES)
        if all(self._files(schemas[step.schema_id], step) for step in steps if step.has_rows):
            return steps
        return plan_steps(positions, batches, share.rows_max, share.bytes_max)

    def _files(self, schema: TableSchema, step: Step) -> AbstractContextManager[str] | None:
        """The files of `step` for the warehouse to fetch; None where it cannot, or has to get other rows."""
        as_they_are = self._rules.overflow == "stop" and self._rules.deletes == "hard" and not schema.partial_rows
        if not as_they_are or self._columns.is_active or not all(piece.is_whole for piece in step.pieces):
            return None
        return self._warehouse.staged_files(schema, [piece.batch for piece in step.pieces if piece.batch.rows])

    @contextmanager
    def _checked(self, files: AbstractContextManager[str], schema: TableSchema, step: Step) -> Iterator[str]:
        """Stage files; of one that the warehouse does not take, say what we find in it."""
        with ExitStack() as stack:
            try:
                staged = stack.enter_context(files)
            except TableStoppedError:
                for piece in step.pieces:
                    rows = read_piece(self._objects, schema, piece)
                    if rows is not None:
                        fit_rows(self._dialect, schema, rows, self._rules.overflow)
                raise
            yield staged

    def _count_changes(self, step: Step, schema: TableSchema, staged: str) -> int:
        """Count the changes of files that the warehouse fetched: an update's two images are one."""
        rows = sum(piece.batch.rows for piece in step.pieces)
        if schema.key:
            return rows
        doubled = f"SELECT COUNT(*) FROM {staged} WHERE {quote_name(self._dialect, OP)} = 'u-'"  # noqa: S608 - names are quoted
        ((befores,),) = self._warehouse.fetch(doubled)
        return rows - int(befores)

    def _follow_schema(self, known: TableState | None, step: Step, schema: TableSchema) -> TableState:
        """Make or change the table for what `step` brings; return it as it is then."""
        following = plan_columns(known, step, schema, self._rules.deletes)
        match following:
            case Keep():
                return following.after
            case Make():
                self._tables.create(schema)
            case Migrate(before):
                renamed = self._tables.rename_columns(before, step.column_renames)
                self._tables.migrate(renamed, schema, log_place(step))
        return self._defined(following.after)

    def _defined(self, state: TableState) -> TableState:
        """Return the state that a table has once all is done that was planned, which may have to come ahead."""
        self._tables.define_ahead({state.schema.table: state})
        return state

    def _cross(self, crossing: Crossing, step: Step) -> None:
        """Begin, empty or end a table."""
        match crossing:
            case Make(after):
                self._tables.create(after.schema)
            case MakeAnew(before, after):
                self._tables.create_anew(before, after.schema)
            case Empty(before):
                self._tables.run(plan_truncate(self._dialect, self._tables.target(before), log_place(step)))
            case End(before):
                if before is not None and self._rules.dropped_tables == "drop":
                    self._tables.drop(before)

    def _note(self, table: TableId, batches: Sequence[Batch]) -> str | None:
        """Say what people should know of the table; None if these batches change nothing about that."""
        known = self._progress.table(table)
        if known and known.out_of_range and not known.ended:
            return out_of_range_note(known.out_of_range, self._dialect, self._rules.overflow)
        return dropped_note(known, batches, is_kept=lambda: self._warehouse.exists(table))

    def _known(self, table: TableId, step: Step | None = None) -> TableState | None:
        """Return what is known of the table, which must be there as it was left, unless `step` makes it anew."""
        known = self._progress.table(table)
        if step is not None and known and step.kind is SchemaChangeKind.CREATE and known.has_before_it(step):
            return None
        if known and not known.ended:
            self._tables.check_present(known)
        return known
