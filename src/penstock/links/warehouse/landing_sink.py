"""Loading a landing zone: batches become messages, in transactions that also say how far they go."""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from penstock.core.errors import ConflictError, RefusedStatementError, TableStoppedError
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.warehouse.landing import plan_landing, plan_landings, plan_passing, plan_table
from penstock.core.warehouse.load_plan import plan_positions, plan_steps
from penstock.core.warehouse.messages import (
    find_later_values,
    render_barrier,
    render_of_table,
    render_rows,
    render_schema_changes,
    require_fitting,
    split_texts,
)
from penstock.core.warehouse.target_table import TargetTable
from penstock.links.warehouse.landing_limits import (
    alone,
    not_renamed,
    require_plain,
    require_whole_changes,
    require_whole_inserts,
)
from penstock.links.warehouse.landing_tables import LandingTables
from penstock.links.warehouse.pieces import count_changes, read_piece
from penstock.links.warehouse.progress import TargetProgress
from penstock.links.warehouse.table_steps import Empty, End, Keep, Make, MakeAnew, Migrate, plan_barrier, plan_columns
from penstock.ports.sink import Loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from penstock.core.batches import Batch
    from penstock.core.schema_changes import Move
    from penstock.core.tables import TableId, TableSchema
    from penstock.core.warehouse.landing import LandingZone
    from penstock.core.warehouse.load_plan import Step
    from penstock.links.warehouse.definitions import Unfinished
    from penstock.links.warehouse.load_rules import LoadRules
    from penstock.links.warehouse.table_state import TableState
    from penstock.ports.landing import LandingDatabase
    from penstock.ports.objects import ObjectStore

_INSERT_BYTES = 8 << 20
"""How much JSON a statement brings; a value has 16 MiB at most."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a step was planned from: what was known of its table, and what of it was loaded."""

    state: TableState | None
    positions: Mapping[tuple[str, int], int]


class LandingSink:
    """One pipeline's and source's way into a landing zone. It implements the port `Sink`. It is for one thread.

    Each statement that defines something commits what is open, so those go ahead
    of the transaction that brings the rows; all of them may be run again.
    """

    def __init__(
        self,
        database: LandingDatabase,
        zone: LandingZone,
        whose: tuple[str, str],
        objects: ObjectStore,
        rules: LoadRules,
    ) -> None:
        """Load into `database`, which is closed with this, the files of `objects`; `whose` are pipeline and source.

        Raises UsageError for rules of the link that a landing zone does not know.
        """
        self._database = database
        self._zone = zone
        self._objects = objects
        self._rules = rules
        self._progress = TargetProgress(database, *whose)
        self._name = re.sub(r"\W", "_", "_".join(("penstock", *whose)))
        self._tables = LandingTables(database, zone, whose, self._name)
        # What need not be asked for. Whoever relies on it is refused where somebody took it away.
        self._made: set[TableId] = set()
        self._seen: int | None = None
        try:
            require_plain(rules)
            # A load that was killed holds locks, and must not commit behind us.
            self._database.end_transactions(self._name)
            self._progress.create()
            self._tables.create()
        except BaseException:
            database.close()
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
        with self._database.transaction(self._name):
            self._progress.finish(batch_offset, waiting, anew, self._seen)
        self._seen = int(batch_offset)

    def positions(self, table: TableId) -> dict[tuple[str, int], int]:
        """See `Sink`."""
        return self._progress.positions(table)

    def treated(self, table: TableId) -> None:
        """See `Sink`. Links with rules for columns are refused."""
        del table

    def absent(self, tables: Collection[TableId]) -> set[TableId]:
        """See `Sink`."""
        return self._progress.absent(tables)

    def load(
        self, table: TableId, batches: Sequence[Batch], schemas: Mapping[int, TableSchema], at_once: int = 1
    ) -> Loaded:
        """See `Sink`. Each step is a transaction of its own."""
        share = self._rules.shared_by(at_once)
        changes = 0
        try:
            positions = self.positions(table)
            for step in plan_steps(positions, batches, share.rows_max, share.bytes_max):
                changes += self._take(table, step, schemas[step.schema_id], positions)
                positions |= plan_positions(positions, [piece.batch for piece in step.pieces])
        except RefusedStatementError as error:
            self._forget()
            raise TableStoppedError(str(table), "", "the target's table", error.message, error.hint) from error
        known = self._progress.table(table)
        note = "the source dropped this table" if known and known.ended else ""
        return Loaded(changes, time.time_ns() // 1_000_000, note)

    @property
    def tables_together(self) -> int:
        """See `Sink`. Of a table alone, most statements are about how far it is."""
        return 50

    def load_together(
        self, work: Mapping[TableId, Sequence[Batch]], schemas: Mapping[int, TableSchema]
    ) -> Mapping[TableId, Loaded]:
        """See `Sink`. Tables that are new are made ahead of the transaction, which can define nothing."""
        tables = list(work)
        try:
            new = self._make_ahead(work, schemas)
            with self._database.transaction(self._name), self._progress.of_tables(tables):
                changes = self._add_all(work, schemas, new)
        except RefusedStatementError as error:
            self._forget()
            raise alone(tables[0], str(error)) from error
        self._made.update(tables)
        return {table: Loaded(changes[table], time.time_ns() // 1_000_000, "") for table in tables}

    def rename(self, moves: Sequence[Move], order: tuple[int, int, int], schemas: Mapping[int, TableSchema]) -> None:
        """See `Sink`. A landing table holds the messages of one name."""
        del order, schemas
        raise not_renamed(moves)

    def close(self) -> None:
        """See `Sink`."""
        self._database.close()

    def _take(self, table: TableId, step: Step, schema: TableSchema, positions: Mapping[tuple[str, int], int]) -> int:
        """Bring a step in, which was planned from `positions`, and return how many changes it had."""
        known = self._progress.table(table)
        seen = _Seen(known, positions)
        if step.kind is not SchemaChangeKind.SCHEMA:
            self._cross_barrier(table, step, schema, seen)
            return 0
        state, altered = self._follow_schema(step, schema, known)
        with self._transaction(table, seen):
            if known is not None and known.schema != state.schema:
                entries = render_schema_changes(self._progress.positions(table), max(step.first_orders))
                self._database.run(plan_landing(self._zone, table), [entries])
            self._tables.delete(altered)
            changes = self._bring(table, step, schema, state)
        self._tables.forget(altered)
        return changes

    @contextmanager
    def _transaction(self, table: TableId, seen: _Seen) -> Iterator[None]:
        """Begin a transaction. Raises ConflictError where the table is not where it was when this was planned."""
        with self._database.transaction(self._name), self._progress.of_tables([table]):
            if _Seen(self._progress.table(table), self._progress.positions(table)) != seen:
                message = f"{table}: another instance of this pipeline has loaded it meanwhile"
                raise ConflictError(message, "a rerun goes on from here; see that only one instance runs")
            yield

    def _make_ahead(
        self, work: Mapping[TableId, Sequence[Batch]], schemas: Mapping[int, TableSchema]
    ) -> Collection[TableId]:
        """Make what is not made yet, and return it. Two questions for all tables; none for those that were here."""
        unseen = [table for table in work if table not in self._made]
        new = self._progress.unknown(unseen) if unseen else []
        there = self._database.present(new)
        # One that is refused is so before any is made: all are taken one by one then.
        planned = {table: plan_table(self._zone, schemas[work[table][0].schema_id]) for table in new}
        for table, statements in planned.items():
            if table in there:
                self._tables.begin(schemas[work[table][0].schema_id])
            else:
                self._tables.make(statements)
        return set(new)

    def _add_all(
        self, work: Mapping[TableId, Sequence[Batch]], schemas: Mapping[int, TableSchema], new: Collection[TableId]
    ) -> Mapping[TableId, int]:
        """Land what tables have, in the open transaction and by one statement; return how many changes each had."""
        share = self._rules.shared_by(len(work))
        steps = [
            (table, step)
            for table, batches in work.items()
            for step in plan_steps(self.positions(table), batches, share.rows_max, share.bytes_max)
        ]
        for table, step in steps:
            self._remember(table, step, self._keep(table, step, schemas[step.schema_id], new))
        counts: dict[TableId, list[int]] = {table: [] for table in work}
        numbers = {table: number for number, table in enumerate(dict.fromkeys(table for table, _ in steps))}
        if numbers:
            messages = (
                render_of_table(numbers[table], text)
                for table, step in steps
                for text in self._messages(step, schemas[step.schema_id], counts[table])
            )
            self._land(partial(plan_landings, self._zone, list(numbers)), messages)
        return {table: sum(each) for table, each in counts.items()}

    def _keep(self, table: TableId, step: Step, schema: TableSchema, new: Collection[TableId]) -> TableState:
        """Return what is known of a table after a step that defines nothing; TableStoppedError for every other one."""
        following = None
        if step.kind is SchemaChangeKind.SCHEMA:
            following = plan_columns(self._progress.table(table), step, schema, "hard")
        if isinstance(following, Keep) or (isinstance(following, Make) and table in new):
            return following.after
        raise alone(table, "something is to be defined for it")

    def _bring(self, table: TableId, step: Step, schema: TableSchema, state: TableState) -> int:
        """Land the rows of a step in the open transaction, and return how many changes they are."""
        self._remember(table, step, state)
        counts: list[int] = []
        if any(piece.batch.rows for piece in step.pieces):
            # Batches of few rows are one statement.
            self._land(partial(plan_landing, self._zone, table), self._messages(step, schema, counts))
        return sum(counts)

    def _messages(self, step: Step, schema: TableSchema, counts: list[int]) -> Iterator[str]:
        """Yield the messages of a step, and add to `counts` how many changes each of its batches is."""
        known = self._progress.table(schema.table)
        later = find_later_values(schema, known.schema) if known else {}
        for piece in step.pieces:
            rows = read_piece(self._objects, schema, piece)
            if rows is not None:
                require_whole_inserts(schema, rows)
                if self._zone.rule(schema.table):
                    require_whole_changes(schema, rows)
                yield from require_fitting(schema, render_rows(schema, piece.batch, rows, later))
                counts.append(count_changes(rows))

    def _land(self, plan: Callable[..., str], messages: Iterator[str]) -> None:
        """Insert messages by the statement of `plan`, which takes the name of a table that has them as files."""
        copied = self._database.copied(messages)
        if copied is None:
            for array in split_texts(messages, _INSERT_BYTES):
                self._database.run(plan(), [array])
            return
        with copied as staged:
            self._database.run(plan(staged))

    def _remember(self, table: TableId, step: Step, state: TableState) -> None:
        self._progress.set_table(table, state)
        batches = [piece.batch for piece in step.pieces]
        self._progress.set_positions(table, plan_positions(self._progress.positions(table), batches))

    def _follow_schema(
        self, step: Step, schema: TableSchema, known: TableState | None
    ) -> tuple[TableState, Sequence[Unfinished]]:
        """Make or change the public table and its task for what `step` brings; return it as it is then, and how."""
        following = plan_columns(known, step, schema, "hard")
        match following:
            case Make():
                self._tables.begin(schema)
            case Migrate():
                return following.after, self._tables.migrate(following, step, schema)
        return following.after, ()

    def _cross_barrier(self, table: TableId, step: Step, schema: TableSchema, seen: _Seen) -> None:
        """Begin, empty or end the table, at most once."""
        crossing = plan_barrier(seen.state, step, schema, "hard")
        if crossing is None:
            return
        match crossing:
            case Make():
                self._tables.begin(schema)
            case MakeAnew(before):
                self._tables.end(before.schema, drop=True)
                self._tables.begin(schema)
            case End(before) if before is not None and not before.ended:
                self._tables.end(before.schema, drop=self._rules.dropped_tables == "drop")
        moot = () if isinstance(crossing, Empty) else self._tables.unfinished(table)
        with self._transaction(table, seen):
            if isinstance(crossing, Empty) and not crossing.before.ended:
                self._database.run(plan_passing(self._zone, table))
                path = TargetTable("", crossing.before.schema).path(self._database.dialect)
                self._database.run(f"DELETE FROM {path}")  # noqa: S608 - the name is quoted
            if seen.state is not None or isinstance(crossing, Make):
                self._database.run(plan_landing(self._zone, table), [f"[{render_barrier(step.pieces[0].batch)}]"])
            self._tables.delete(moot)
            self._remember(table, step, crossing.after)
        self._tables.forget(moot)

    def _forget(self) -> None:
        self._made.clear()
        self._tables.ask_again()
