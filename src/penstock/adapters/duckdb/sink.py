"""A DuckDB file as a warehouse."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb

from penstock.adapters.duckdb.database import CATALOG, DuckdbLimits, explain, open_database, write_lock
from penstock.adapters.duckdb.query_server import QueryServer
from penstock.adapters.duckdb.staging import STAGED, count_changes, find_lacking, read_pieces, staged
from penstock.adapters.duckdb.state import DuckdbState, TableState, check_behind_border, require_rows
from penstock.core.announcements import Kind
from penstock.core.errors import TableStoppedError
from penstock.core.tables import TableId
from penstock.core.warehouse.dialect import DUCKDB, quote_name
from penstock.core.warehouse.load_plan import SchemaInPlace, plan_positions, plan_steps
from penstock.core.warehouse.partial_rows import WHOLE, plan_completion
from penstock.core.warehouse.planner import (
    LogPlace,
    TargetTable,
    keep_fill_values,
    plan_column_renames,
    plan_create,
    plan_drop,
    plan_merge,
    plan_migration,
    plan_renames,
    plan_truncate,
)
from penstock.ports.sink import Loaded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from penstock.core.announcements import Move
    from penstock.core.batches import Batch
    from penstock.core.tables import TableSchema
    from penstock.core.warehouse.load_plan import DroppedTables, Step
    from penstock.core.warehouse.partial_rows import Lacking
    from penstock.ports.objects import ObjectStore

_DEFAULTS = DuckdbLimits()


class DuckdbSink:
    """One pipeline's and source's way into a DuckDB file. It implements the port `Sink`.

    Only one process can have the file open; in it, several sinks may, and take
    turns. A sink is for one thread; the queries it serves run in others.
    """

    def __init__(
        self,
        path: Path,
        pipeline: str,
        source: str,
        objects: ObjectStore,
        limits: DuckdbLimits = _DEFAULTS,
        dropped_tables: DroppedTables = "keep",
    ) -> None:
        """Open the file, made if it is missing; `dropped_tables` says what becomes of those that the source drops.

        Raises UnavailableError while another process has it, and SinkError if it
        cannot be opened.
        """
        self._path = path
        self._objects = objects
        self._limits = limits
        self._dropped_tables = dropped_tables
        self._server: QueryServer | None = None
        self._connection = open_database(path, limits)
        self._state = DuckdbState(self._connection, pipeline, source)
        with self._transaction():
            self._state.create()

    def batch_offset(self) -> int:
        """See `Sink`."""
        with self._explained():
            return self._state.batch_offset()

    def finish(self, batch_offset: int) -> None:
        """See `Sink`."""
        with self._transaction():
            self._state.set_batch_offset(batch_offset)

    def positions(self, table: TableId) -> dict[tuple[str, int], int]:
        """See `Sink`."""
        with self._explained():
            return self._state.positions(table)

    def load(self, table: TableId, batches: Sequence[Batch], schemas: Mapping[int, TableSchema]) -> Loaded:
        """See `Sink`. The files are merged some at a time, all in one transaction."""
        with self._transaction():
            positions = self._state.positions(table)
            steps = plan_steps(positions, batches, self._limits.merge_rows_max, self._limits.merge_bytes_max)
            rows = sum(self._take(table, step, schemas[step.schema_id]) for step in steps)
            self._state.set_positions(table, plan_positions(positions, batches))
            note = self._note(table, batches)
        return Loaded(rows, time.time_ns() // 1_000_000, note)

    def rename(self, moves: Sequence[Move], order: tuple[int, int, int], schemas: Mapping[int, TableSchema]) -> None:
        """See `Sink`."""
        renames = {TableId.parse(move.origin): TableId.parse(move.table) for move in moves}
        with self._transaction():
            known = {table: self._known(table) for table in {*renames, *renames.values()}}
            if any(state and state.border >= order for state in known.values()):
                return
            origins = {new: require_rows(known[old], old, new) for old, new in renames.items()}
            for table in set(renames.values()) - set(renames):
                state = known[table]
                if state and self._exists(table):
                    self._run(plan_drop(DUCKDB, TargetTable(CATALOG, state.schema)))
                self._refuse_foreign(table)
            self._run(plan_renames(DUCKDB, CATALOG, renames))
            for table in set(renames) - set(renames.values()):
                self._state.set_table(table, origins[renames[table]].end(order))
            for move in moves:
                self._settle(origins[TableId.parse(move.table)], move, order, schemas[move.schema_id])

    def _settle(self, origin: TableState, move: Move, order: tuple[int, int, int], schema: TableSchema) -> None:
        """Give a table, which has its new name by now, the schema and the state that belong to it."""
        before = replace(origin.schema, table=schema.table)
        self._migrate(before, schema)
        in_place = SchemaInPlace(move.schema_id, order)
        self._state.set_table(schema.table, TableState(keep_fill_values(before, schema), in_place, order))

    def serve_queries(self, run_file: Path) -> None:
        """Answer `penstock sql` of other processes from now on; `run_file` tells them how to reach us."""
        self._server = QueryServer(self._connection, run_file)

    def close(self) -> None:
        """See `Sink`. Queries under way end in an error."""
        if self._server:
            self._server.close()
            self._server = None
        with self._explained():
            self._connection.close()

    def _take(self, table: TableId, step: Step, schema: TableSchema) -> int:
        """Bring a step in; return how many changes it had."""
        known = self._known(table)
        if step.kind is Kind.SCHEMA:
            check_behind_border(known, step)
            return self._take_rows(table, step, schema, known)
        if known is None or known.has_before_it(step):
            self._state.set_table(table, self._cross_border(step, schema, known))
        return 0

    def _take_rows(self, table: TableId, step: Step, schema: TableSchema, known: TableState | None) -> int:
        """Bring the schema and the rows of `step` in."""
        if known is None:
            state = TableState(schema, SchemaInPlace(step.schema_id, step.last_order))
            self._create(state.schema)
        elif known.in_place.gives_way_to(step):
            before = self._rename_columns(known.schema, step.column_renames)
            state = replace(known, schema=keep_fill_values(before, schema), in_place=known.in_place.after(step))
            self._migrate(before, schema)
        else:
            state = replace(known, in_place=known.in_place.after(step))
        if state != known:
            self._state.set_table(table, state)
        rows = read_pieces(self._objects, schema, step.pieces)
        if rows is None:
            return 0
        with staged(self._connection, rows):
            self._merge(TargetTable(CATALOG, state.schema), schema, find_lacking(schema, rows))
        return count_changes(rows)

    def _cross_border(self, step: Step, schema: TableSchema, known: TableState | None) -> TableState:
        """Begin, empty or end the table; return what is known of it then. It is done at most once."""
        order = step.last_order
        if step.kind is Kind.RENAME:
            # Where the rows of the other name are here too, `rename` came before, and the table is past this.
            require_rows(None, TableId.parse(_origin(step)), schema.table)
        begun = TableState(schema, SchemaInPlace(step.schema_id, order), order)
        if known is None:
            if step.kind is not Kind.DROP:
                self._create(schema)
            return begun.end(order) if step.kind is Kind.DROP else begun
        target = TargetTable(CATALOG, known.schema)
        if step.kind is Kind.TRUNCATE:
            self._run(plan_truncate(DUCKDB, target, _log_place(step)))
            return replace(known, border=order)
        if (step.kind is Kind.CREATE or self._dropped_tables == "drop") and self._exists(known.schema.table):
            self._run(plan_drop(DUCKDB, target))
        if step.kind is Kind.CREATE:
            self._create(schema)
            return begun
        return known.end(order)

    def _note(self, table: TableId, batches: Sequence[Batch]) -> str | None:
        """Say what people should know of the table; None if these batches change nothing about that."""
        known = self._state.table(table)
        if known is None or not known.ended:
            return ""
        drops = [batch for batch in batches if batch.kind is Kind.DROP and batch.first_order == known.border]
        if not drops:
            return None
        where = f"{drops[0].file}:{known.border[1]}"
        kept = "its rows are kept here" if self._exists(table) else "it is not here any more"
        return f"the source dropped this table, or gave it another name, before {where}; {kept}"

    def _merge(self, target: TargetTable, arriving: TableSchema, lacking: Lacking) -> None:
        if not lacking:
            self._run(plan_merge(DUCKDB, target, arriving, quote_name(DUCKDB, STAGED)))
            return
        completion = plan_completion(DUCKDB, target, arriving, quote_name(DUCKDB, STAGED), lacking)
        self._run([completion.create])
        ((orphans,),) = self._connection.execute(completion.count_orphans).fetchall()
        if orphans:
            reason = f"{orphans} changed row(s) came without all of their columns, and the target does not have them"
            hint = "carry the table from a fresh copy: a new pipeline with another `pipeline` name, `home` and target"
            raise TableStoppedError(str(arriving.table), "", "the target's table", reason, hint)
        self._run([*plan_merge(DUCKDB, target, arriving, quote_name(DUCKDB, WHOLE)), completion.drop])

    def _known(self, table: TableId) -> TableState | None:
        known = self._state.table(table)
        if known and not known.ended and not self._exists(table):
            reason = "somebody dropped it from the target"
            hint = (
                "to load its files again, delete its rows in penstock.tables and penstock.positions of the target, "
                "set next_batch_offset in penstock.batches to 0, and run again"
            )
            raise TableStoppedError(str(table), "", "the target's table", reason, hint)
        return known

    def _refuse_foreign(self, table: TableId) -> None:
        if self._exists(table):
            reason = "the target has a table of this name that is not ours (upper and lower case do not count)"
            hint = "drop or rename that table, or load this one into another target"
            raise TableStoppedError(str(table), "", "the target's table", reason, hint)

    def _create(self, schema: TableSchema) -> None:
        self._refuse_foreign(schema.table)
        self._run(plan_create(DUCKDB, TargetTable(CATALOG, schema)))

    def _rename_columns(self, schema: TableSchema, names: Sequence[tuple[str, str]]) -> TableSchema:
        self._run(plan_column_renames(DUCKDB, TargetTable(CATALOG, schema), names))
        return schema.with_columns_renamed(names)

    def _migrate(self, before: TableSchema, after: TableSchema) -> None:
        target = TargetTable(CATALOG, before)
        # DuckDB wants a result to be fetched to its end before it runs the next statement.
        probe = f"SELECT 1 FROM {target.path(DUCKDB)} LIMIT 1"  # noqa: S608 - the name is quoted
        if self._connection.execute(probe).fetchall():
            self._run(plan_migration(DUCKDB, target, after))
        else:
            # An empty table can become any other, for it has no values to keep.
            self._run([*plan_drop(DUCKDB, target), *plan_create(DUCKDB, TargetTable(CATALOG, after))])

    def _exists(self, table: TableId) -> bool:
        query = (
            "SELECT 1 FROM duckdb_tables() WHERE database_name = $1 "
            "AND lower(schema_name) = lower($2) AND lower(table_name) = lower($3)"
        )
        return bool(self._connection.execute(query, [CATALOG, table.schema, table.name]).fetchall())

    def _run(self, statements: Sequence[str]) -> None:
        for statement in statements:
            self._connection.execute(statement)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit what is done inside, or nothing of it."""
        with write_lock(self._path), self._explained():
            self._connection.execute("BEGIN TRANSACTION")
            done = False
            try:
                yield
                self._connection.execute("COMMIT")
                done = True
            finally:
                if not done:
                    # After some failures DuckDB has rolled back already, or cannot be asked any more.
                    with suppress(duckdb.Error):
                        self._connection.execute("ROLLBACK")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except duckdb.Error as error:
            raise explain(self._path, error) from error


def _origin(step: Step) -> str:
    batch = step.pieces[0].batch
    return next(move.origin for move in batch.moves if move.table == str(batch.table))


def _log_place(step: Step) -> LogPlace:
    batch = step.pieces[0].batch
    _, pos, row = batch.first_order
    return LogPlace(batch.file, pos, row, batch.last_timestamp_ms)
