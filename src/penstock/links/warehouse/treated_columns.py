"""Keeps a link's rules for columns, in the transactions of its loads.

The table `columns` of the target's state schema has a row per table: what
`ColumnHistory` says of it. It is made for links that have rules; where it is
there, links without rules look into it too, for what was hidden must not show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.tables import TableId
from penstock.core.transforms.column_history import ColumnHistory
from penstock.core.transforms.column_patterns import copied_table
from penstock.core.warehouse.dialect import quote_name
from penstock.core.warehouse.schema_text import packed, unpacked
from penstock.core.warehouse.state_schema import state_schema
from penstock.links.warehouse.treatments import Histories, first_history, treat_moves, treat_step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.schema_changes import Move
    from penstock.core.tables import TableSchema
    from penstock.core.transforms.column_rules import ColumnRules
    from penstock.core.warehouse.load_plan import Step
    from penstock.links.warehouse.table_state import TableState
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
            columns = ", ".join(f"{self._quoted(name)} {self._warehouse.dialect.any_text} NOT NULL" for name in names)
            self._warehouse.run(f"CREATE TABLE IF NOT EXISTS {self._path} ({columns})")
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
        treated = treat_step(self._rules, self._histories(table, known), known, step, schema)
        if treated.history is not None:
            self._keep(table, treated.history)
        return treated.step, treated.schema

    def treated(self, table: TableId) -> Mapping[str, str] | None:
        """See `Sink.treated`."""
        kept = self._kept(table) if self._is_active else None
        return None if kept is None else kept.treated

    def preview(self, known: TableState | None, schema: TableSchema) -> TableSchema:
        """Return what `schema` would become in the next load, if no column has got another name. Raises as `treat`."""
        is_kept = self._warehouse.exists(self._table)
        if not (is_kept or self._rules):
            return schema
        histories = self._histories(schema.table, known) if is_kept else Histories(first_history(known))
        if known is None or known.ended:
            treatment, _ = self._rules.begin(schema, histories.original or histories.own)
        else:
            treatment, _ = self._rules.treat(schema, histories.own)
        return treatment.schema

    def move(
        self, moves: Sequence[Move], known: Mapping[TableId, TableState | None], schemas: Mapping[int, TableSchema]
    ) -> dict[int, TableSchema]:
        """Follow tables that get other names; return what `schemas` become. Raises as `treat`."""
        if not self._is_active:
            return dict(schemas)
        origins = [TableId.parse(move.origin) for move in moves]
        named = {table: self._kept(table) for table in (TableId.parse(move.table) for move in moves)}
        histories = {table: history for table, history in named.items() if history is not None}
        histories |= {origin: self._history(origin, known[origin]) for origin in origins}
        treated, followed = treat_moves(self._rules, moves, histories, schemas)
        for table, history in followed.items():
            self._keep(table, history)
        return treated

    def _histories(self, table: TableId, known: TableState | None) -> Histories:
        original = copied_table(table)
        return Histories(self._history(table, known), None if original is None else self._kept(original))

    def _history(self, table: TableId, known: TableState | None) -> ColumnHistory:
        return self._kept(table) or first_history(known)

    def _kept(self, table: TableId) -> ColumnHistory | None:
        where, values = self._where(table)
        query = f"SELECT {self._quoted('history')} FROM {self._path} WHERE {where}"  # noqa: S608 - names of ours
        for (text,) in self._warehouse.fetch(query, values):
            return ColumnHistory.from_json(unpacked(str(text)))
        return None

    def _keep(self, table: TableId, history: ColumnHistory) -> None:
        where, values = self._where(table)
        self._warehouse.run(f"DELETE FROM {self._path} WHERE {where}", values)  # noqa: S608 - names of ours
        names = self._quoted("pipeline", "source", "source_table", "history")
        insert = f"INSERT INTO {self._path} ({names}) VALUES (?, ?, ?, ?)"  # noqa: S608 - names of ours
        self._warehouse.run(insert, [*values, packed(history.to_json())])

    def _where(self, table: TableId) -> tuple[str, list[Value]]:
        names = ("pipeline", "source", "source_table")
        where = " AND ".join(f"{self._quoted(name)} = ?" for name in names)
        return where, [*self._mine.values(), str(table)]

    def _quoted(self, *names: str) -> str:
        return ", ".join(quote_name(self._warehouse.dialect, name) for name in names)
