"""What a target knows of its own progress: the tables of its state schema (`penstock`, see `state_schema`).

`positions`  for each topic partition of a table, the first Kafka offset not loaded
`tables`     for each table, the schema that it has now, the furthest place in the
             source's log where that schema was seen, where it was last emptied,
             begun or ended, and whether it has ended in the source
`batches`    for each source, the offset in the batch topic from which to read on, and a digest of the message before it
`waiting`    for each table that did not go on with the others, the offset there from which to read it

All are written in the transactions whose progress they tell. They have no
indexes: a few rows are found without, and in DuckDB they make updates conflict.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.core.batches import BatchOffset
from penstock.core.errors import CASE_THAT_COUNTS, TEXTS_WITHOUT_CASE, ConflictError, UnfitServerError
from penstock.core.tables import TableId
from penstock.core.warehouse.definitions import render_again
from penstock.core.warehouse.dialect import quote_name
from penstock.core.warehouse.load_plan import SchemaInPlace
from penstock.core.warehouse.schema_text import parse_schema, render_schema
from penstock.core.warehouse.state_schema import state_schema
from penstock.links.warehouse.table_state import TableState, begin_anew

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from penstock.core.warehouse.load_plan import Deletes
    from penstock.ports.warehouse import StateDatabase, Value

_TEXT = "text"
_OF_ALL = {"pipeline": _TEXT, "source": _TEXT}
_TABLES = {
    "positions": {**_OF_ALL, "source_table": _TEXT, "topic": _TEXT, "partition": "INTEGER", "next_offset": "BIGINT"},
    "batches": {**_OF_ALL, "next_batch_offset": "BIGINT"},
    "waiting": {**_OF_ALL, "source_table": _TEXT, "next_batch_offset": "BIGINT"},
    # The last one: where it is there, the others are.
    "tables": {
        **_OF_ALL,
        "source_table": _TEXT,
        "schema_id": "INTEGER",
        "schema": _TEXT,
        "log_file": "BIGINT",
        "log_offset": "BIGINT",
        "log_row": "BIGINT",
    },
}
"""Their columns, none of which is ever NULL; `_TEXT` stands for whatever a warehouse calls a text of any length."""
_LATER_COLUMNS = {
    "border_file": ("BIGINT", "-1"),
    "border_offset": ("BIGINT", "-1"),
    "border_row": ("BIGINT", "-1"),
    "ended": ("BOOLEAN", "FALSE"),
    "deletes": (_TEXT, "'hard'"),
    "misfits": ("BIGINT", "0"),
}
"""What the first release's `tables` lacked."""
_LATER_OF_BATCHES = {"last_message": (_TEXT, "''")}
"""The same of `batches`."""
_ROWS_AT_ONCE = 100


@dataclass(slots=True)
class _Pages:
    """What is known of some tables within a transaction, and which of it is to be written at its end."""

    tables: dict[TableId, TableState | None]
    positions: dict[TableId, dict[tuple[str, int], int]]
    new_tables: set[TableId] = field(default_factory=set)
    new_positions: set[TableId] = field(default_factory=set)


class TargetProgress:
    """The state rows of one pipeline and source. Its statements run in the caller's transaction."""

    def __init__(self, warehouse: StateDatabase, pipeline: str, source: str) -> None:
        """Use `warehouse`, which the caller closes."""
        self._warehouse = warehouse
        self._mine: dict[str, Value] = {"pipeline": pipeline, "source": source}
        self._name = state_schema(warehouse.dialect, pipeline, source)
        self._schema = quote_name(warehouse.dialect, warehouse.catalog, self._name)
        self._pages: _Pages | None = None
        self._has_last_message = False

    @contextmanager
    def of_tables(self, tables: Sequence[TableId]) -> Iterator[None]:
        """Read what is known of `tables` at once; what is set of them in the block is written together at its end.

        The block sets nothing of other tables.
        """
        self._pages = _Pages(self._read_tables(tables), self._read_positions(tables))
        try:
            yield
            self._write(self._pages)
        finally:
            self._pages = None

    def is_made(self) -> bool:
        """Whether there are such tables."""
        return "tables" in self._read_columns()

    def is_older(self) -> bool:
        """Whether an older release made them, and none like this one has been here since."""
        found = self._read_columns().get("tables")
        return found is not None and not found.issuperset(_LATER_COLUMNS)

    def create(self) -> None:
        """Make the tables if they are missing, and the columns that older releases did not have."""
        found = self._read_columns()
        if not found and not self._warehouse.has_schema(self._name):
            self._warehouse.run(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
        # One by one: where DDL commits by itself, a crash leaves some of them; and older releases had fewer.
        for table, columns in _TABLES.items():
            if table not in found:
                self._create(table, columns)
                found[table] = set(columns)
        for table, later in {"tables": _LATER_COLUMNS, "batches": _LATER_OF_BATCHES}.items():
            for name, (type_, default) in later.items():
                if name not in found[table]:
                    column = f"{self._column(name, type_)} DEFAULT {default}"
                    self._define(f"ALTER TABLE {self._table(table)} ADD COLUMN {column}")
        if not self.batch_offset():
            self._require_case()

    def _require_case(self) -> None:
        """Raise UnfitServerError where texts of a new target are equal in upper and lower case: so would keys be."""
        source, table = self._quoted("source"), self._table("batches")
        texts = f"SELECT {source} AS t FROM {table} WHERE 1 = 0 UNION ALL SELECT 'a'"  # noqa: S608 - names of ours
        ((same,),) = self._warehouse.fetch(f"SELECT COUNT(*) FROM ({texts}) AS p WHERE t = 'A'")  # noqa: S608 - as above
        if same:
            message = f"the target of the source {self._mine['source']}: {TEXTS_WITHOUT_CASE}"
            raise UnfitServerError(message, CASE_THAT_COUNTS)

    def batch_offset(self) -> BatchOffset:
        """Return where to read on in the batch topic; 0 at first."""
        # Who only looks at a target may find one that an older release made.
        if not self._has_last_message:
            self._has_last_message = "last_message" in self._read_columns().get("batches", ())
        known = ("last_message",) if self._has_last_message else ()
        for offset, *message in self._select("batches", ("next_batch_offset", *known)):
            return BatchOffset(int(offset), *map(str, message))
        return BatchOffset(0)

    def set_batch_offset(self, offset: int) -> None:
        """Remember where to read on."""
        self._delete("batches")
        self._insert("batches", [{"next_batch_offset": int(offset), "last_message": BatchOffset.of(offset).message}])

    def waiting(self) -> dict[TableId, int]:
        """Return where each table waits in the batch topic."""
        found = self._select("waiting", ("source_table", "next_batch_offset"))
        return {TableId.parse(str(table)): int(offset) for table, offset in found}

    def set_waiting(self, waiting: Mapping[TableId, int]) -> None:
        """Remember where tables wait, and that no others do."""
        self._delete("waiting")
        self._insert("waiting", [{"source_table": str(t), "next_batch_offset": at} for t, at in waiting.items()])

    def positions(self, table: TableId) -> dict[tuple[str, int], int]:
        """Return the first offset not loaded, by topic and partition."""
        known = self._read_positions([table]) if self._pages is None else self._pages.positions
        return dict(known[table])

    def set_positions(self, table: TableId, positions: Mapping[tuple[str, int], int]) -> None:
        """Replace the positions of these topic partitions; call it in a block of `of_tables`."""
        assert self._pages is not None  # noqa: S101 - as is said above
        if positions:
            self._pages.positions[table].update(positions)
            self._pages.new_positions.add(table)

    def finish(
        self,
        batch_offset: int,
        waiting: Mapping[TableId, int] | None,
        anew: Collection[TableId],
        seen: int | None,
    ) -> None:
        """Do what `Sink.finish` says, outside of a block of `of_tables`.

        `seen` is the offset that the caller has read or written last, None where it never did.
        """
        for (offset,) in self._select("batches", ("next_batch_offset",)) if seen is not None else ():
            if int(offset) != seen:
                message = f"another instance of this pipeline has moved its target from offset {seen} to {offset}"
                raise ConflictError(message, "a rerun goes on from there; see that only one instance runs")
        self.set_batch_offset(batch_offset)
        if waiting is not None:
            self.set_waiting(waiting)
        if anew:
            self._delete("positions", sorted(anew))
        begun = begin_anew(anew, waiting)
        known = self._read_tables(begun) if begun else {}
        self._write_tables({table: replace(state, ended=True) for table, state in known.items() if state})

    def table(self, table: TableId) -> TableState | None:
        """Return the schema of the target's table; None if it has not been made."""
        known = self._read_tables([table]) if self._pages is None else self._pages.tables
        return known[table]

    def tables(self) -> Sequence[TableState]:
        """Return the schemas of all tables that were made in the target, and which of them ended."""
        names = [TableId.parse(str(name)) for (name,) in self._select("tables", ("source_table",))]
        return [state for state in self._read_tables(names).values() if state is not None] if names else ()

    def absent(self, tables: Collection[TableId]) -> set[TableId]:
        """Return which of `tables` have not been made, or have ended."""
        return set(tables) - {state.schema.table for state in self.tables() if not state.ended}

    def unknown(self, tables: Sequence[TableId]) -> list[TableId]:
        """Return which of `tables` have not been made."""
        return [table for table, state in self._read_tables(tables).items() if state is None]

    def set_table(self, table: TableId, state: TableState) -> None:
        """Replace what is known of the target's table."""
        if self._pages is None:
            self._write_tables({table: state})
            return
        self._pages.tables[table] = state
        self._pages.new_tables.add(table)

    def _read_positions(self, tables: Sequence[TableId]) -> dict[TableId, dict[tuple[str, int], int]]:
        known: dict[TableId, dict[tuple[str, int], int]] = {table: {} for table in tables}
        named = {str(table): table for table in tables}
        for name, topic, partition, offset in self._select(
            "positions", ("source_table", "topic", "partition", "next_offset"), tables
        ):
            known[named[str(name)]][str(topic), int(partition)] = int(offset)
        return known

    def _read_tables(self, tables: Sequence[TableId]) -> dict[TableId, TableState | None]:
        columns = ("source_table", "schema", "schema_id", "log_file", "log_offset", "log_row", *_LATER_COLUMNS)
        known: dict[TableId, TableState | None] = dict.fromkeys(tables)
        named = {str(table): table for table in tables}
        for name, text, schema_id, *numbers, ended, deletes, out_of_range in self._select("tables", columns, tables):
            file, offset, row, *barrier = map(int, numbers)
            in_place = SchemaInPlace(int(schema_id), (file, offset, row))
            barrier_order = (barrier[0], barrier[1], barrier[2])
            kept: Deletes = "soft" if deletes == "soft" else "hard"
            known[named[str(name)]] = TableState(
                parse_schema(str(text)), in_place, barrier_order, bool(ended), kept, int(out_of_range)
            )
        return known

    def _write(self, pages: _Pages) -> None:
        states = {table: state for table, state in pages.tables.items() if state and table in pages.new_tables}
        self._write_tables(states)
        rows: list[dict[str, Value]] = [
            {"source_table": str(table), "topic": topic, "partition": partition, "next_offset": offset}
            for table in sorted(pages.new_positions)
            for (topic, partition), offset in pages.positions[table].items()
        ]
        self._delete("positions", sorted(pages.new_positions))
        self._insert("positions", rows)

    def _write_tables(self, states: Mapping[TableId, TableState]) -> None:
        rows: list[dict[str, Value]] = [
            {
                "source_table": str(table),
                "schema_id": state.in_place.schema_id,
                "schema": render_schema(state.schema),
                **dict(zip(("log_file", "log_offset", "log_row"), state.in_place.order, strict=True)),
                **dict(zip(("border_file", "border_offset", "border_row"), state.barrier, strict=True)),
                "ended": state.ended,
                "deletes": state.deletes,
                "misfits": state.out_of_range,
            }
            for table, state in states.items()
        ]
        self._delete("tables", list(states))
        self._insert("tables", rows)

    def _create(self, table: str, columns: Mapping[str, str]) -> None:
        listed = ", ".join(f"{self._column(name, type_)} NOT NULL" for name, type_ in columns.items())
        self._define(f"CREATE TABLE {self._table(table)} ({listed})")

    def _define(self, statement: str) -> None:
        """Define something; where no transaction keeps others from it, they may be quicker."""
        again = self._warehouse.dialect.definitions_commit
        self._warehouse.run(render_again(statement) if again else statement)

    def _read_columns(self) -> dict[str, set[str]]:
        """Read which columns each of our tables has, those that are there: catalogs are slow, so all at once."""
        query = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = ?"
        values: list[Value] = [self._name]
        if self._warehouse.catalog:
            query, values = f"{query} AND table_catalog = ?", [*values, self._warehouse.catalog]
        found: dict[str, set[str]] = {}
        for table, column in self._warehouse.fetch(query, values):
            found.setdefault(str(table), set()).add(str(column))
        return found

    def _column(self, name: str, type_: str) -> str:
        return f"{self._quoted(name)} {self._warehouse.dialect.any_text if type_ == _TEXT else type_}"

    def _table(self, name: str) -> str:
        return f"{self._schema}.{self._quoted(name)}"

    def _quoted(self, *names: str) -> str:
        """Some of the names are words of SQL in one warehouse or another."""
        return ", ".join(quote_name(self._warehouse.dialect, name) for name in names)

    def _select(
        self, name: str, columns: Sequence[str], tables: Sequence[TableId] | None = None
    ) -> list[tuple[Value, ...]]:
        where, values = self._where(tables)
        statement = f"SELECT {self._quoted(*columns)} FROM {self._table(name)} WHERE {where}"  # noqa: S608 - names of ours
        return self._warehouse.fetch(statement, values)

    def _delete(self, name: str, tables: Sequence[TableId] | None = None) -> None:
        if tables is None or tables:
            where, values = self._where(tables)
            self._warehouse.run(f"DELETE FROM {self._table(name)} WHERE {where}", values)  # noqa: S608 - names of ours

    def _insert(self, name: str, rows: Sequence[Mapping[str, Value]]) -> None:
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = [{**self._mine, **row} for row in rows[start : start + _ROWS_AT_ONCE]]
            marks = ", ".join(f"({', '.join('?' for _ in row)})" for row in some)
            statement = f"INSERT INTO {self._table(name)} ({self._quoted(*some[0])}) VALUES {marks}"  # noqa: S608 - names of ours
            self._warehouse.run(statement, [value for row in some for value in row.values()])

    def _where(self, tables: Sequence[TableId] | None) -> tuple[str, list[Value]]:
        """Say whose rows: of these tables, or of all of ours."""
        where, values = " AND ".join(f"{self._quoted(column)} = ?" for column in self._mine), list(self._mine.values())
        if tables is None:
            return where, values
        listed = ", ".join("?" for _ in tables)
        return f"{where} AND {self._quoted('source_table')} IN ({listed})", [*values, *map(str, tables)]
