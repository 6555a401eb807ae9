"""Keeps a link's rules for columns, in the transactions of its loads.

The table `columns` of the target's state schema has a row per table: what
`ColumnHistory` says of it. It is made for links that have rules; where it is
there, links without rules look into it too, for what was hidden must not show.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.core.announcements import Kind
from penstock.core.tables import TableId
from penstock.core.transforms.column_history import ColumnHistory
from penstock.core.warehouse.dialect import quote_name
from penstock.core.warehouse.state_schema import state_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.announcements import Move
    from penstock.core.tables import TableSchema
    from penstock.core.transforms.column_rules import ColumnRules, Treatment
    from penstock.core.warehouse.load_plan import Step
    from penstock.links.warehouse.progress import TableState
    from penstock.ports.warehouse import Value, Warehouse

_TABLE = "columns"


class TreatedColumns:
    """The rules of one pipeline's and source's link. Its statements run in the caller's transaction."""

    def __init__(self, warehouse: Warehouse, pipeline: str, source: str, rules: ColumnRules) -> None:
        """Use `warehouse`, which the caller closes."""
        self._warehouse = warehouse
        self._mine: dict[str, Value] = {"pipeline": pipeline, "source": source}
        self._rules = rules
        self._table = TableId(state_schema(warehouse.dialect, pipeline, source), _TABLE)
        self._path = quote_name(warehouse.dialect, warehouse.catalog, self._table.schema, _TABLE)
        self._is_active = False

    def create(self) -> None:
        """Make the table if it is needed and missing. The schema is there."""
        self._is_active = self._warehouse.exists(self._table)
        if self._rules and not self._is_active:
            names = ("pipeline", "source", "source_table", "history")
            columns = ", ".join(f"{name} {self._warehouse.dialect.any_text} NOT NULL" for name in names)
            self._warehouse.run(f"CREATE TABLE {self._path} ({columns})")
            self._is_active = True

    @property
    def is_active(self) -> bool:
        """Whether anything may have to be done to rows, as `create` found."""
        return self._is_active

    def treat(
        self, table: TableId, known: TableState | None, step: Step, schema: TableSchema
    ) -> tuple[Step, TableSchema]:
        """Return `step` with what is to be done to its rows, and the schema that `schema` becomes.

        `known` is what the target has of the table. Raises TableStoppedError as `ColumnRules.treat`.
        """
        if not self._is_active:
            return step, schema
        history = self._history(table, known)
        begins = known is None or (step.kind is Kind.CREATE and known.has_before_it(step))
        if known is None or begins:
            if step.kind is not Kind.DROP:
                self._rules.require_known(schema)
            treatment, history = self._rules.treat(schema, ColumnHistory())
            self._keep(table, history)
            return _treated(step, treatment, ()), treatment.schema
        if step.kind is not Kind.SCHEMA:
            # The table empties or ends; its columns stay as they are.
            return step, known.schema
        if not known.in_place.gives_way_to(step):
            treatment, _ = self._rules.treat(schema, history)
            return _treated(step, treatment, ()), treatment.schema
        treatment, followed = self._rules.treat(schema, history.with_columns_renamed(step.column_renames))
        self._keep(table, followed)
        there = {column.name for column in known.schema.columns}
        renames = tuple((old, new) for old, new in step.column_renames if old in there)
        return _treated(step, treatment, renames), treatment.schema

    def preview(self, known: TableState | None, schema: TableSchema) -> TableSchema:
        """Return what `schema` would become in the next load, if no column has got another name. Raises as `treat`."""
        is_kept = self._warehouse.exists(self._table)
        if not (is_kept or self._rules):
            return schema
        plain = ColumnHistory() if known is None else ColumnHistory.of_plain(known.schema)
        treatment, _ = self._rules.treat(schema, self._history(schema.table, known) if is_kept else plain)
        return treatment.schema

    def move(
        self, moves: Sequence[Move], known: Mapping[TableId, TableState | None], schemas: Mapping[int, TableSchema]
    ) -> dict[int, TableSchema]:
        """Follow tables that get other names; return what `schemas` become. Raises as `treat`."""
        if not self._is_active:
            return dict(schemas)
        # All are read before one is kept: names may be swapped.
        origins = {move: TableId.parse(move.origin) for move in moves}
        histories = {move: self._history(origin, known[origin]) for move, origin in origins.items()}
        found = {}
        for move, history in histories.items():
            followed = history.with_table_renamed(origins[move])
            treatment, followed = self._rules.treat(schemas[move.schema_id], followed)
            self._keep(TableId.parse(move.table), followed)
            found[move.schema_id] = treatment.schema
        return found

    def _history(self, table: TableId, known: TableState | None) -> ColumnHistory:
        where, values = self._where(table)
        query = f"SELECT history FROM {self._path} WHERE {where}"  # noqa: S608 - names of ours
        for (text,) in self._warehouse.fetch(query, values):
            return ColumnHistory.from_json(str(text))
        # What came in before the link had any rules came as it is.
        return ColumnHistory() if known is None else ColumnHistory.of_plain(known.schema)

    def _keep(self, table: TableId, history: ColumnHistory) -> None:
        where, values = self._where(table)
        self._warehouse.run(f"DELETE FROM {self._path} WHERE {where}", values)  # noqa: S608 - names of ours
        insert = f"INSERT INTO {self._path} (pipeline, source, source_table, history) VALUES (?, ?, ?, ?)"  # noqa: S608 - names of ours
        self._warehouse.run(insert, [*values, history.to_json()])

    def _where(self, table: TableId) -> tuple[str, list[Value]]:
        return "pipeline = ? AND source = ? AND source_table = ?", [*self._mine.values(), str(table)]


def _treated(step: Step, treatment: Treatment, renames: tuple[tuple[str, str], ...]) -> Step:
    """Return `step` with the treatment of its rows, and the renames of columns that the target has."""
    first, *rest = (replace(piece, treatment=treatment if treatment.steps else None) for piece in step.pieces)
    return replace(step, pieces=(replace(first, batch=replace(first.batch, column_renames=renames)), *rest))
