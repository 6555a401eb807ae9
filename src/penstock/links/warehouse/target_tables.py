"""The tables of a target: made, changed and looked at in the caller's transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.core.errors import FULL_REFRESH, TableStoppedError
from penstock.core.tables import taken_names
from penstock.core.warehouse.alter import keeps_shape, needs_rebuild, plan_migration
from penstock.core.warehouse.attributes import Attributes, plan_attributes
from penstock.core.warehouse.columns import REFRESH_OR_ANEW, check_names, column_type, define_columns
from penstock.core.warehouse.definitions import is_definition
from penstock.core.warehouse.dialect import may_have_become
from penstock.core.warehouse.migration import Around, Migration
from penstock.core.warehouse.planner import (
    plan_column_renames,
    plan_create,
    plan_deletes,
    plan_drop,
    plan_renames,
    plan_schema,
)
from penstock.core.warehouse.rebuild import plan_copy_drops, plan_rebuild, refuse_losses
from penstock.core.warehouse.target_table import LogPlace, TargetTable, table_path
from penstock.links.warehouse.definitions import DefinitionsAheadError, Planned

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from penstock.core.tables import TableId, TableSchema
    from penstock.core.warehouse.load_plan import Deletes
    from penstock.links.warehouse.table_state import TableState
    from penstock.ports.warehouse import Warehouse


class AheadOfTransactionError(Exception):
    """Statements have to run before the transaction in which this was raised, and in none themselves."""

    def __init__(self, statements: Sequence[str]) -> None:
        """Ask for `statements`."""
        super().__init__(statements)
        self.statements = tuple(statements)


class OtherTransactionError(Exception):
    """What has to run before a transaction is of a table that an earlier part of it changes: that is one of its own."""


class TargetTables:
    """Plans what becomes of tables, holds it against what is there, and does it."""

    def __init__(self, warehouse: Warehouse, deletes: Deletes, known: Callable[[], Sequence[TableState]]) -> None:
        """Work over `warehouse`; tables that are made have these `deletes`, and `known` are those that were made."""
        self._warehouse = warehouse
        self._known = known
        self._dialect = warehouse.dialect
        self._deletes = deletes
        self._planned: list[Planned] = []
        self._dropped: set[TableId] = set()
        self._moved: dict[TableId, TableId] = {}
        self._renamed: set[TableId] = set()
        self._changed: set[TableId] = set()
        self._old_columns: Sequence[tuple[str, str]] = ()
        self._half_done: frozenset[TableId] = frozenset()

    def target(self, state: TableState) -> TargetTable:
        """The table as it is."""
        return TargetTable(self._warehouse.catalog, state.schema, state.deletes)

    def check_present(self, state: TableState) -> None:
        """Raise TableStoppedError unless the table is there with every column that we gave it, and its type."""
        table = state.schema.table
        found = self._warehouse.columns(table)
        if not found:
            reason = "somebody dropped it from the target"
            raise TableStoppedError(str(table), "", "the target's table", reason, REFRESH_OR_ANEW)
        there = {name.casefold(): type_ for name, type_ in found.items()}
        target = self.target(state)
        # As those who correct it call it: the name of the catalog may be ours alone.
        path = replace(target, catalog="").path(self._dialect)
        for column in (*state.schema.columns, *target.own_columns):
            type_ = column_type(self._dialect, state.schema, column)
            seen = there.get(column.name.casefold())
            if seen == type_ or (seen and may_have_become(self._dialect, seen, type_)):
                continue
            was = "dropped it" if seen is None else f"gave it the type {seen}"
            reason = f"somebody {was}; the pipeline has made it {type_}"
            put_back = f"put it back as it was, with the values that it had, in {path}"
            hint = f"{put_back}, then type: penstock table FILE TABLE resume; or {FULL_REFRESH}"
            raise TableStoppedError(str(table), column.name, "the target's table", reason, hint)

    def begin(self, half_done: Collection[TableId] = ()) -> None:
        """Forget what an earlier transaction, which was rolled back, had planned to come ahead of it.

        Of tables that are `half_done` nobody knows which columns are ours.
        """
        self._half_done = frozenset(half_done)
        self._planned, self._dropped, self._moved, self._old_columns = [], set(), {}, ()
        self._renamed.clear()
        self._changed.clear()

    def define_ahead(self, states: Mapping[TableId, TableState]) -> None:
        """Raise DefinitionsAheadError if anything was planned to come ahead; `states` is what tables are after it."""
        if self._planned:
            raise DefinitionsAheadError(self._planned, states)

    def check_types(self, schema: TableSchema) -> None:
        """Raise TableStoppedError unless rows of `schema` can be staged: a table's older or newer one, too."""
        define_columns(self._dialect, schema, self._deletes)

    def refuse_foreign(self, table: TableId) -> None:
        """Raise TableStoppedError if there is a table of this name; call it for a name that none of ours has."""
        if table not in self._dropped and self._warehouse.exists(table):
            reason = (
                "the target has a table of this name that Penstock did not make (upper and lower case do not count)"
            )
            hint = "drop or rename that table, or load this one into another target"
            raise TableStoppedError(str(table), "", "the target's table", reason, hint)

    def stays(self, table: TableId, renames: Mapping[TableId, TableId]) -> bool:
        """Whether the new name `table` of `renames` (old to new) is, but for case, one that is given up."""
        return self._dialect.ignores_case and any(_is_same(table, old) for old in renames)

    def _refuse_other_case(self, ended: TableState) -> None:
        """Raise TableStoppedError if what has the name of a table that ended is another one of ours, but for case."""
        if not (ended.ended and self._dialect.ignores_case):
            return
        table = ended.schema.table
        for state in self._known():
            other = state.schema.table
            if other != table and not state.ended and _is_same(other, table):
                reason = f"the target has the table {other}, and upper and lower case do not count there"
                hint = "leave one of the two out of the link's `tables`, or load it into another target"
                raise TableStoppedError(str(table), "", "the target's table", reason, hint)

    def create(self, schema: TableSchema) -> None:
        """Make the table of a name that nobody has."""
        self.run(self.plan_begin(None, schema))
        self._changed.add(schema.table)

    def plan_begin(self, ended: TableState | None, schema: TableSchema) -> list[str]:
        """Plan the beginning of a table whose name nobody has, or one of ours had that has `ended`. It only reads."""
        if ended is not None and self._warehouse.exists(schema.table):
            return [*self._plan_anew(ended, schema).statements]
        self.refuse_foreign(schema.table)
        with_schema = not self._warehouse.has_schema(schema.table.schema)
        target = TargetTable(self._warehouse.catalog, schema, self._deletes)
        return plan_create(self._dialect, target, self._warehouse.layout(schema), with_schema=with_schema)

    def create_anew(self, state: TableState, schema: TableSchema) -> None:
        """Make an empty table for `schema` in the place of one that may be there; grants and comments stay."""
        if not self._warehouse.exists(state.schema.table):
            self.create(schema)
            return
        self._carry_out(self._plan_anew(state, schema), schema)

    def _plan_anew(self, state: TableState, schema: TableSchema) -> Migration:
        self._refuse_other_case(state)
        check_names(self._dialect, schema, self._deletes)
        attributes, target = self._attributes(state.schema), replace(self.target(state), deletes=self._deletes)
        if state.schema.table not in self._half_done:
            return plan_rebuild(self._dialect, target, schema, Around(has_rows=False, attributes=attributes))
        around = Around(has_rows=False, attributes=replace(attributes, columns=()))
        change = plan_rebuild(self._dialect, target, schema, around)
        return replace(change, statements=(*plan_copy_drops(self._dialect, target), *change.statements))

    def drop(self, state: TableState) -> None:
        """Drop the table if it is there."""
        if self._warehouse.exists(state.schema.table):
            self._refuse_other_case(state)
            self.run(plan_drop(self._dialect, self.target(state)))
            self._dropped.add(state.schema.table)

    def rename(self, renames: Mapping[TableId, TableId], states: Mapping[TableId, TableState]) -> None:
        """Give tables (old name to new), whose `states` are here by the new names, other names.

        Who could read a name before can read it after. Raises TableStoppedError where somebody added something
        to a name that would stay with the rows which leave it.
        """
        taken = [table for table in renames.values() if table in renames or not self.stays(table, renames)]
        kept = {table: self._warehouse.attributes(table) for table in taken if self._warehouse.exists(table)}
        for table in renames.keys() & kept.keys():
            state = states[renames[table]]
            refuse_losses(self.target(state), kept[table], "it gets the rows of another table")
            Migration(is_remade=True).check_dependents(state.schema, self._warehouse.dependents(table))
        origins = {new: old for old, new in renames.items()}
        for table in set(renames.values()) - set(renames):
            self._make_schema(table.schema)
        self.run(plan_renames(self._dialect, self._warehouse.catalog, renames))
        for table, attributes in kept.items():
            path = table_path(self._dialect, self._warehouse.catalog, table)
            columns = list(self._warehouse.columns(origins[table] if self._planned else table))
            # Its indexes went with the rows, and have their names still.
            self.run([*plan_attributes(self._dialect, path, columns, replace(attributes, indexes=(), owner=""))])
        self._moved = origins if self._planned else {}
        self._renamed.update(origins)

    def rename_columns(self, state: TableState, names: Sequence[tuple[str, str]]) -> TableState:
        """Give columns (old, new) other names; return the table as it is then."""
        if not names:
            return state
        renamed = frozenset(old.casefold() for old, _ in names)
        gone = taken_names(names)
        if self._is_hindered(state.schema.table, gone):
            kept = tuple(column for column in state.schema.columns if column.name.casefold() not in gone)
            lesser = replace(state.schema, columns=kept)
            self.migrate(state, lesser, LogPlace("", 0, 0, 0))
            state = replace(state, schema=lesser)
        statements = tuple(plan_column_renames(self._dialect, self.target(state), names))
        self._carry_out(Migration(statements, going=gone, renamed=renamed), state.schema)
        self._old_columns = [(new, old) for old, new in names] if self._planned else ()
        self._renamed.add(state.schema.table)
        return replace(state, schema=state.schema.with_columns_renamed(names))

    def settle_deletes(self, state: TableState) -> TableState:
        """Give the table the deletes that are configured; return it as it is then."""
        statements, settled = self.plan_deletes(state)
        self.run(statements)
        return settled

    def plan_deletes(self, state: TableState) -> tuple[Sequence[str], TableState]:
        """Plan `settle_deletes`, and return the table as it is then. It only reads."""
        change = plan_deletes(self._dialect, self.target(state), self._deletes)
        self.check(change, state.schema)
        return change.statements, replace(state, deletes=self._deletes)

    def migrate(self, state: TableState, after: TableSchema, place: LogPlace) -> None:
        """Turn the table into the one for `after`, which the source made of it at `place`."""
        self._carry_out(self.plan(state, after, place, renames_are_told=True), after)

    def plan(
        self, state: TableState, after: TableSchema, place: LogPlace, *, renames_are_told: bool = False
    ) -> Migration:
        """Plan `migrate`, which knows of columns that got other names. It reads, and changes nothing."""
        target, before = self.target(state), self._as_it_is(state.schema)
        there = replace(target, schema=before)
        probe = f"SELECT 1 FROM {there.path(self._dialect)} LIMIT 1"  # noqa: S608 - the name is quoted
        has_rows = bool(self._warehouse.fetch(probe))
        keeps = keeps_shape(self._dialect, before, after)
        remade = needs_rebuild(self._dialect, before, after) if has_rows else not keeps
        attributes = self._attributes(before) if remade else Attributes()
        around = Around(place, has_rows, attributes, renames_are_told)
        change = plan_migration(self._dialect, target, after, around)
        # What has another name in this transaction alone cannot be changed ahead of it.
        is_renamed = bool(change.ahead) and after.table in self._renamed
        if not change.is_remade and (is_renamed or self._is_hindered(before.table, change.going, change.retyped)):
            around = Around(place, has_rows, self._attributes(before), renames_are_told, stays_put=True)
            change = plan_migration(self._dialect, target, after, around)
        if not self._planned:
            return change
        return replace(change, checks=plan_migration(self._dialect, there, self._as_it_is(after), around).checks)

    def check(self, change: Migration, schema: TableSchema) -> None:
        """Raise TableStoppedError where a change cannot be made to what is there. It reads, and changes nothing."""
        if change.statements or change.ahead:
            change.check_dependents(schema, self._warehouse.dependents(self._as_it_is(schema).table))
        for check in change.checks:
            for row in self._warehouse.fetch(check.query):
                raise check.refusal(schema, row)

    def run(self, statements: Sequence[str], alone: TableId | None = None) -> None:
        """Run statements in order; from the first one on that would commit what is open, plan them to come ahead.

        They are about one table `alone`, if one is given.
        """
        for statement in statements:
            if self._planned or (self._dialect.definitions_commit and is_definition(statement)):
                self._planned.append(Planned(statement, alone))
            else:
                self._warehouse.run(statement)

    def run_ahead(self, error: AheadOfTransactionError) -> None:
        """Run what has to be done before the transaction, which is over."""
        for statement in error.statements:
            self._warehouse.run(statement)

    def _attributes(self, schema: TableSchema) -> Attributes:
        """What the table has, and the encodings that are asked for: other ones are the warehouse's choice."""
        found, layout = self._warehouse.attributes(schema.table), self._warehouse.layout(schema)
        if found.spread is None:
            return found
        return replace(found, spread=replace(found.spread, encodings=layout.encodings if layout else {}))

    def _carry_out(self, change: Migration, schema: TableSchema) -> None:
        self.check(change, schema)
        if left := self._left_ahead(change, schema):
            if schema.table in self._changed:
                # Outside of this transaction the column may be another one, or not be there.
                raise OtherTransactionError
            raise AheadOfTransactionError(left)
        self.run(change.statements, schema.table)
        if change.statements:
            self._changed.add(schema.table)

    def _is_hindered(self, table: TableId, going: Collection[str], longer: Collection[str] = ()) -> bool:
        """Whether the way in which the table is laid out keeps these columns from going or from getting longer."""
        spread = self._warehouse.attributes(table).spread if going or longer else None
        return spread is not None and spread.hinders(going, longer)

    def _left_ahead(self, change: Migration, schema: TableSchema) -> list[str]:
        """Return what is to be done ahead, and was not by a load that failed behind it: Redshift refuses it then."""
        if not change.ahead:
            return []
        there = {name.casefold(): type_ for name, type_ in self._warehouse.columns(schema.table).items()}
        return [each.statement for each in change.ahead if there.get(each.column.casefold()) != each.type]

    def _make_schema(self, name: str) -> None:
        if not self._warehouse.has_schema(name):
            self.run([plan_schema(self._dialect, self._warehouse.catalog, name)])

    def _as_it_is(self, schema: TableSchema) -> TableSchema:
        """Return the schema with the names that table and columns still have, where renames are only planned."""
        named = schema.with_columns_renamed(self._old_columns) if self._old_columns else schema
        return replace(named, table=self._moved.get(schema.table, schema.table))


def _is_same(one: TableId, other: TableId) -> bool:
    """Whether two names are one where upper and lower case do not count."""
    return str(one).casefold() == str(other).casefold()
