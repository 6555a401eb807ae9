"""Running tasks in a target: the rows that a task makes and its offset are one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.errors import UsageError
from penstock.core.warehouse.dialect import quote_name, quote_text
from penstock.core.warehouse.micro_batches import (
    BEGIN_ANEW,
    NEWS,
    Stream,
    TaskPlace,
    by_folded_names,
    check_in_order,
    choose_columns,
    has_work,
    parse_offset,
    render_offset,
    sees,
)
from penstock.core.warehouse.state_schema import TASKS, state_schema
from penstock.core.warehouse.target_table import table_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.tables import TableId
    from penstock.core.warehouse.micro_batches import Offset, Task
    from penstock.ports.warehouse import Value, Warehouse

NOWHERE = TaskPlace()
_BARRIER = ("border_file", "border_offset", "border_row")


class TaskRuns:
    """Tasks of a pipeline in one target. It is for one thread; `close` closes the target."""

    def __init__(self, warehouse: Warehouse, pipeline: str, sources: Sequence[str] = ()) -> None:
        """Use `warehouse`, in whose schema of state tables how far each task is will be kept.

        `sources` are those whose loads count, where each has a schema of its own.
        """
        self._warehouse = warehouse
        self._pipeline = pipeline
        self._schema = state_schema(warehouse.dialect, pipeline, TASKS)
        self._table = self._named(self._schema, TASKS)
        self._of_sources = {state_schema(warehouse.dialect, pipeline, source) for source in sources or ("",)}
        self._made: list[str] = []
        self.places: dict[str, TaskPlace] = {}

    def start(self) -> None:
        """Make the table of places if it is missing, and read it."""
        self._warehouse.transact(self._create)
        self.places = self._read_places()

    def loads(self) -> Mapping[str, str]:
        """Return how far each table is loaded, by its name: one query for all streams, once each source has loaded."""
        if len(self._made) < len(self._of_sources):
            self._made = self._find_made()
        if not self._made:
            return {}
        columns = ("source", "source_table", "topic", "partition", "next_offset")
        names, positions = self._quoted(*columns), self._progress("positions", "pipeline", *columns)
        query = f"SELECT {names} FROM {positions} WHERE {self._quoted('pipeline')} = ? ORDER BY {names}"  # noqa: S608 - names of ours
        found: dict[str, str] = {}
        for _, table, topic, partition, offset in self._warehouse.fetch(query, [self._pipeline]):
            found[str(table)] = f"{found.get(str(table), '')} {topic}/{partition}:{offset}".strip()
        return by_folded_names(self._warehouse.dialect, found)

    def has_work(self, task: Task, loads: Mapping[str, str]) -> bool:
        """Whether a task whose time has come has something to do, as far as we know; `run` looks again."""
        return has_work(task, sees(task, loads, self.places), self.places.get(task.name, NOWHERE))

    def run(self, task: Task) -> bool:
        """Run a task, unless it has nothing to do any more; return whether it ran.

        Raises PositionError and UsageError for its stream, and what `Warehouse` raises.
        """
        before = self.places.get(task.name, NOWHERE)
        # Positions are read ahead of rows: what is loaded in between is seen again, and found to be read.
        # In the transaction they would stay locked to its end, where a load locks them for itself.
        loads = self.loads()
        self.places[task.name] = after = self._warehouse.transact(lambda: self._run(task, loads))
        return after.runs > before.runs

    def close(self) -> None:
        """Close the target."""
        self._warehouse.close()

    def _run(self, task: Task, loads: Mapping[str, str]) -> TaskPlace:
        places = self._read_places()
        place, seen = places.get(task.name, NOWHERE), sees(task, loads, places)
        if not has_work(task, seen, place):
            return place
        news, offset = "", place.offset
        if task.stream is not None and task.reads_news:
            load = loads.get(str(task.stream), "")
            news, offset = self._read_news(task, task.stream, load, place.offset)
        ran = bool(news) or not task.reads_news
        for statement in task.statements if ran else ():
            self._warehouse.run(statement.replace(NEWS, news))
        after = TaskPlace(place.runs + ran, seen, offset)
        self._write(task, after)
        return after

    def _read_news(self, task: Task, table: TableId, load: str, known: Offset | None) -> tuple[str, Offset | None]:
        """Return what stands in SQL for what is new, "" for nothing, and the offset behind it."""
        dialect = self._warehouse.dialect
        types = self._warehouse.columns(table)
        by = choose_columns(dialect, task, types)
        check_in_order(by, load)
        name = str(table).lower() if dialect.folds_names else str(table)
        stream = Stream(dialect, name, table_path(dialect, self._warehouse.catalog, table), by, types)
        if known is not None and known.columns != stream.columns:
            read, now = ", ".join(known.columns), ", ".join(stream.columns)
            message = f"the task {task.name} has read {read}; now it is to read {now}"
            raise UsageError(message, BEGIN_ANEW)
        end = tuple(str(value) for row in self._warehouse.fetch(stream.plan_end()) for value in row)
        if not end:
            return "", known
        ((*counts, barrier),) = self._warehouse.fetch(stream.plan_counts(known, end, self._barrier(table)))
        after = stream.advance(known, end, [int(count) for count in counts], str(barrier or ""))
        return "" if known is not None and known.values == after.values else stream.render(known, end), after

    def _barrier(self, table: TableId) -> str:
        """Return the expression for where a table was last emptied, begun or ended, as its loads keep it."""
        dialect = self._warehouse.dialect
        names = (quote_name(dialect, name) for name in _BARRIER)
        place = " || ':' || ".join(f"CAST({name} AS {dialect.any_text})" for name in names)
        columns, name = ("pipeline", "source_table", *_BARRIER), str(table)
        pipeline, source_table = (quote_name(dialect, column) for column in columns[:2])
        if dialect.folds_names:
            source_table, name = f"LOWER({source_table})", name.lower()
        mine = f"{pipeline} = {quote_text(self._pipeline, dialect)}"
        where = f"{mine} AND {source_table} = {quote_text(name, dialect)}"
        return f"(SELECT MAX({place}) FROM {self._progress('tables', *columns)} WHERE {where})"  # noqa: S608 - quoted

    def _create(self) -> None:
        any_text = self._warehouse.dialect.any_text
        types = {"pipeline": any_text, "task": any_text, "runs": "BIGINT", "seen": any_text, "stream": any_text}
        listed = ", ".join(f"{self._quoted(name)} {type_} NOT NULL" for name, type_ in types.items())
        schema = quote_name(self._warehouse.dialect, self._warehouse.catalog, self._schema)
        self._warehouse.run(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        self._warehouse.run(f"CREATE TABLE IF NOT EXISTS {self._table} ({listed})")

    def _read_places(self) -> dict[str, TaskPlace]:
        names = self._quoted("task", "runs", "seen", "stream")
        query = f"SELECT {names} FROM {self._table} WHERE {self._quoted('pipeline')} = ?"  # noqa: S608 - names of ours
        rows = self._warehouse.fetch(query, [self._pipeline])
        return {str(t): TaskPlace(int(runs), str(seen), parse_offset(str(offset))) for t, runs, seen, offset in rows}

    def _write(self, task: Task, place: TaskPlace) -> None:
        whose = f"{self._quoted('pipeline')} = ? AND {self._quoted('task')} = ?"
        self._warehouse.run(f"DELETE FROM {self._table} WHERE {whose}", [self._pipeline, task.name])  # noqa: S608 - names of ours
        values: list[Value] = [self._pipeline, task.name, place.runs, place.seen, render_offset(place.offset)]
        self._warehouse.run(f"INSERT INTO {self._table} VALUES (?, ?, ?, ?, ?)", values)  # noqa: S608 - names of ours

    def _find_made(self) -> list[str]:
        """Return the schemas that have tables of progress, of which `tables` is the one that is made last."""
        listed = ", ".join("?" for _ in self._of_sources)
        where = f"table_name = 'tables' AND table_schema IN ({listed})"
        query = f"SELECT table_schema FROM information_schema.tables WHERE {where}"  # noqa: S608 - names of ours
        return sorted({str(schema) for (schema,) in self._warehouse.fetch(query, sorted(self._of_sources))})

    def _progress(self, table: str, *columns: str) -> str:
        """Return what stands behind FROM for a table of progress, of all sources."""
        paths = [self._named(schema, table) for schema in self._made]
        if len(paths) == 1:
            return paths[0]
        selects = (f"SELECT {self._quoted(*columns)} FROM {path}" for path in paths)  # noqa: S608 - names of ours
        return f"({' UNION ALL '.join(selects)}) AS progress"

    def _named(self, schema: str, table: str) -> str:
        return quote_name(self._warehouse.dialect, self._warehouse.catalog, schema, table)

    def _quoted(self, *names: str) -> str:
        return ", ".join(quote_name(self._warehouse.dialect, name) for name in names)
