"""Definitions of tables that go ahead of the transaction which needs them, where they commit by themselves.

The table `definitions` of the target's state schema has a row for each list of
statements that is not done to its end: about which tables, and how many of them
are done. It comes in the transaction that says what the tables are afterwards, so
that a run which ends anywhere is followed by one that goes on there. Until then
nothing else is done to those tables, but that one of them begins anew: what is
left of a list about that table alone is forgotten then.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from penstock.core.errors import FULL_REFRESH, RefusedStatementError
from penstock.core.tables import TableId
from penstock.core.warehouse.definitions import parse_column_rename, render_again
from penstock.core.warehouse.dialect import quote_name
from penstock.core.warehouse.state_schema import state_schema

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.links.warehouse.table_state import TableState
    from penstock.ports.warehouse import StateDatabase, Value

_TABLE = "definitions"
_SHOWN = 1_000
"""How much of a statement that is refused is told."""
_MAKE_POSSIBLE = (
    "it is of a change of several tables, and a full refresh of one of them asks for it again: make it possible (grant "
    "what it needs, make or take away what is in its way), then start the pipeline again"
)
_COLUMNS = ("pipeline", "source", "number", "tables", "statements", "done")


class DefinitionsAheadError(Exception):
    """Definitions have to come ahead of the transaction that raised this; `states` says what tables are after them."""

    def __init__(self, statements: Sequence[Planned], states: Mapping[TableId, TableState]) -> None:
        """Ask for `statements`."""
        super().__init__(statements, states)
        self.statements = tuple(statements)
        self.states = dict(states)


@dataclass(frozen=True, slots=True)
class Planned:
    """A statement about one table `alone`, or about all that the transaction is about."""

    statement: str
    alone: TableId | None = None


@dataclass(slots=True)
class Unfinished:
    """Statements about some tables, of which the first `done` ones are done, and the next may be."""

    number: int
    tables: frozenset[TableId]
    statements: tuple[str, ...]
    done: int = 0
    is_in_doubt: bool = False


class Definitions:
    """The unfinished definitions of one pipeline and source, for one connection that loads."""

    def __init__(self, warehouse: StateDatabase, pipeline: str, source: str) -> None:
        """Use `warehouse`, which the caller closes."""
        self._warehouse = warehouse
        self._mine: dict[str, Value] = {"pipeline": pipeline, "source": source}
        self._table = TableId(state_schema(warehouse.dialect, pipeline, source), _TABLE)
        self._path = quote_name(warehouse.dialect, warehouse.catalog, self._table.schema, _TABLE)
        self._unfinished: list[Unfinished] = []

    def create(self) -> None:
        """Make the table if it is missing, and read what an earlier run left. The schema is there."""
        if not self._warehouse.columns(self._table):
            text = self._warehouse.dialect.any_text
            types = {"number": "BIGINT", "done": "BIGINT"}
            columns = ", ".join(f"{self._quoted(name)} {types.get(name, text)} NOT NULL" for name in _COLUMNS)
            self._warehouse.run(f"CREATE TABLE IF NOT EXISTS {self._path} ({columns})")
        where, values = self._where()
        listed = self._quoted("number", "tables", "statements", "done")
        query = f"SELECT {listed} FROM {self._path} WHERE {where} ORDER BY {self._quoted('number')}"  # noqa: S608 - names of ours
        for number, tables, given, done in self._warehouse.fetch(query, values):
            about = frozenset(TableId.parse(name) for name in json.loads(str(tables)))
            left = Unfinished(int(number), about, tuple(json.loads(str(given))), int(done), is_in_doubt=True)
            self._unfinished.append(left)

    def plan(self, tables: Collection[TableId], statements: Sequence[Planned]) -> Sequence[Unfinished]:
        """Write, in the caller's transaction, what is to be done about `tables` behind it; then `add` it.

        What is about one table alone is a list of its own, so that no other table waits for it.
        """
        lists = []
        first = max((each.number for each in self._unfinished), default=0) + 1
        for number, (alone, those) in enumerate(groupby(statements, lambda each: each.alone), first):
            about = frozenset(tables if alone is None else [alone])
            given = tuple(each.statement for each in those)
            names = json.dumps(sorted(map(str, about)))
            insert = f"INSERT INTO {self._path} ({self._quoted(*_COLUMNS)}) VALUES (?, ?, ?, ?, ?, 0)"  # noqa: S608 - names of ours
            self._warehouse.run(insert, [*self._mine.values(), number, names, json.dumps(given)])
            lists.append(Unfinished(number, about, given))
        return lists

    def add(self, planned: Sequence[Unfinished]) -> None:
        """Take what was planned in a transaction that is committed by now."""
        self._unfinished.extend(planned)

    def about(self, table: TableId) -> Sequence[Unfinished]:
        """Return what is unfinished about `table` alone."""
        return [each for each in self._unfinished if each.tables == {table}]

    def delete(self, moot: Collection[Unfinished]) -> None:
        """Write, in the caller's transaction, that nothing of this is to be done any more; then `forget` it."""
        for each in moot:
            where, values = self._where(each)
            self._warehouse.run(f"DELETE FROM {self._path} WHERE {where}", values)  # noqa: S608 - names of ours

    def forget(self, moot: Collection[Unfinished]) -> None:
        """Let go of what was deleted in a transaction that is committed by now."""
        self._unfinished = [each for each in self._unfinished if each not in moot]

    def carry_out_together(self, tables: Collection[TableId]) -> None:
        """Do what is unfinished about `tables`, in order, and leave what is refused of one alone to its next load."""
        for each in [each for each in self._unfinished if len(each.tables) > 1 and each.tables & set(tables)]:
            self._finish(each)
        for table in tables:
            # The table's own load tells it.
            with suppress(RefusedStatementError):
                self.carry_out([table])

    def carry_out(self, tables: Collection[TableId], moot: Collection[Unfinished] = ()) -> None:
        """Do what is unfinished about `tables`, but for `moot`, in order.

        Raises what the statements raise, and goes on there then.
        """
        for each in [each for each in self._unfinished if each.tables & set(tables) and each not in moot]:
            self._finish(each)

    def carry_out_alone(self, table: TableId) -> Sequence[Unfinished]:
        """Do what is unfinished about `table` alone, and return it; it stays written down until it is deleted."""
        unfinished = self.about(table)
        for each in unfinished:
            self._carry_out(each)
        return unfinished

    def _finish(self, each: Unfinished) -> None:
        self._carry_out(each)
        self.delete([each])
        self._unfinished.remove(each)

    def _carry_out(self, each: Unfinished) -> None:
        where, values = self._where(each)
        while each.done < len(each.statements):
            statement = each.statements[each.done]
            was_in_doubt, each.is_in_doubt = each.is_in_doubt, True
            try:
                self._define(statement, is_in_doubt=was_in_doubt)
            except RefusedStatementError as error:
                message = f"{error.message} (the statement: {statement[:_SHOWN]})"
                # A list about several tables is not set aside by one of them that begins anew.
                way_out = f"or {FULL_REFRESH}" if len(each.tables) == 1 else _MAKE_POSSIBLE
                raise RefusedStatementError(message, f"{error.hint}; {way_out}") from error
            each.done += 1
            if each.done < len(each.statements):
                update = f"UPDATE {self._path} SET {self._quoted('done')} = {each.done} WHERE {where}"  # noqa: S608 - names of ours
                self._warehouse.run(update, values)
            each.is_in_doubt = False

    def _define(self, statement: str, *, is_in_doubt: bool) -> None:
        if not is_in_doubt:
            self._warehouse.run(statement)
        elif not self._is_renamed(statement):
            self._warehouse.run(render_again(statement))

    def _is_renamed(self, statement: str) -> bool:
        """Whether a statement renames a column that has its new name already."""
        rename = parse_column_rename(statement)
        if rename is None:
            return False
        *_, schema, name = rename.path
        return rename.old not in self._warehouse.columns(TableId(schema, name))

    def _where(self, each: Unfinished | None = None) -> tuple[str, list[Value]]:
        where, values = " AND ".join(f"{self._quoted(name)} = ?" for name in self._mine), list(self._mine.values())
        return (
            (where, values) if each is None else (f"{where} AND {self._quoted('number')} = ?", [*values, each.number])
        )

    def _quoted(self, *names: str) -> str:
        return ", ".join(quote_name(self._warehouse.dialect, name) for name in names)
