"""Micro-batches in a target: tasks, the streams that they read, which of them have something to do, and their SQL.

A stream is a table of the target by columns that only grow. A task's offset in it is
written in the transaction of the rows that the task makes of what is new there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PositionError, UsageError
from penstock.core.warehouse.dialect import quote_name, quote_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.core.tables import TableId
    from penstock.core.warehouse.dialect import Dialect

NEWS: Final = "{stream}"
"""What stands in a task's SQL for what is new in its stream."""
LOG_PLACE: Final = ("_file", "_pos", "_row")
"""The columns of a change log that only grow: where a change stands in the source's log."""
BEGIN_ANEW: Final = "empty what the task made, and give it another name: then it begins at the table's beginning"
"""What to do where a task cannot go on from its offset. Without the first half it would make rows twice."""
SPREAD: Final = (
    f"{NEWS} of a change log is read in the log's order, which its rows do not arrive in by several partitions"
)
READ_ALL: Final = f"let the task delete what it made and read all of the table, by its name in place of {NEWS}"
"""What to do about a change log that is spread over partitions."""


@dataclass(frozen=True, slots=True)
class Task:
    """Statements that run together: every `seconds`, if their stream has something; or behind the tasks `after`.

    `stream` is a table by its columns `by`. After `failures_max` failures in a row it is suspended.
    """

    name: str
    statements: tuple[str, ...]
    stream: TableId | None = None
    by: tuple[str, ...] = ()
    seconds: int = 60
    after: tuple[str, ...] = ()
    failures_max: int = 10

    @property
    def reads_news(self) -> bool:
        """Whether it reads what is new in its stream, and not only whether something is."""
        return any(NEWS in statement for statement in self.statements)


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a stream is read: its table and columns, their newest values as texts, and how many rows are up to it.

    `barrier` is where the table was last emptied, begun or ended in the source's log, as a text.
    """

    columns: tuple[str, ...]
    values: tuple[str, ...]
    rows: int
    barrier: str


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """How far a task is: how often it ran, what it saw when it ran or looked, and its offset."""

    runs: int = 0
    seen: str = ""
    offset: Offset | None = None


def order_tasks(tasks: Iterable[Task]) -> list[Task]:
    """Return tasks so that each stands behind those that it comes `after`. Raises UsageError for a circle."""
    named = {task.name: task for task in tasks}
    try:
        return [named[name] for name in TopologicalSorter({t.name: t.after for t in named.values()}).static_order()]
    except CycleError as error:
        message = f"tasks come after each other in a circle: {' after '.join(error.args[1])}"
        raise UsageError(message, "let one of them have a `schedule` in place of `after`") from error


def sees(task: Task, loads: Mapping[str, str], places: Mapping[str, TaskPlace]) -> str:
    """Return what decides whether a task has something to do, as a text that differs when it has.

    `loads` has, by name, how far each table is loaded; "" is returned where there is nothing yet.
    """
    if task.after:
        runs = {name: places[name].runs for name in task.after if name in places}
        return " ".join(f"{name}:{count}" for name, count in runs.items() if count)
    return loads.get(str(task.stream), "")


def has_work(task: Task, seen_now: str, place: TaskPlace) -> bool:
    """Whether a task whose time has come has something to do."""
    if not task.after and task.stream is None:
        return True
    return seen_now not in {"", place.seen}


def find_due(tasks: Sequence[Task], checked_at: Mapping[str, float], now: float) -> set[str]:
    """Return the tasks with a schedule that were last looked at an interval ago, or never."""
    return {
        task.name for task in tasks if not task.after and now - checked_at.get(task.name, float("-inf")) >= task.seconds
    }


def seconds_to_next(tasks: Sequence[Task], checked_at: Mapping[str, float], now: float) -> float:
    """Return in how many seconds the next task is due."""
    dues = [checked_at[t.name] + t.seconds - now for t in tasks if not t.after and t.name in checked_at]
    return max(0.0, min(dues, default=0.0))


def by_folded_names(dialect: Dialect, loads: Mapping[str, str]) -> Mapping[str, str]:
    """Return how far tables are loaded, also by the names in small letters that a warehouse may have made of theirs."""
    return {**{name.lower(): load for name, load in loads.items()}, **loads} if dialect.folds_names else loads


def check_in_order(by: tuple[str, ...], load: str) -> None:
    """Raise UsageError for a change log whose rows do not arrive in its order, by how far its table is loaded."""
    if by == LOG_PLACE and any(not place.rpartition(":")[0].endswith("/0") for place in load.split()):
        raise UsageError(SPREAD, READ_ALL)


@dataclass(frozen=True, slots=True)
class Stream:
    """A table at `path` (quoted), by columns of which `types` has the types and none has NULL. Its rows only come."""

    dialect: Dialect
    name: str
    path: str
    by: tuple[str, ...]
    types: Mapping[str, str]

    @property
    def columns(self) -> tuple[str, ...]:
        """What an offset must be about to be one of this stream."""
        return (self.name, *self.by)

    def plan_end(self) -> str:
        """Return the query for the newest values, as texts; it has no row where the table has none."""
        # A name alone would mean the text that is selected, in PostgreSQL.
        newest = ", ".join(f"t.{column} DESC" for column in self._columns)
        texts = ", ".join(f"CAST(t.{column} AS {self.dialect.any_text})" for column in self._columns)
        return f"SELECT {texts} FROM {self.path} AS t WHERE {self._nulls(negated=True)} ORDER BY {newest} LIMIT 1"  # noqa: S608 - quoted

    def plan_counts(self, known: Offset | None, end: tuple[str, ...], barrier: str) -> str:
        """Return the query for how many rows lack a value, are up to the known offset, and are up to `end`.

        `barrier` is an expression that is selected with them, and so seen at the same moment.
        """
        up_to = "0" if known is None else _count(f"NOT {self._behind(known.values)}")
        counts = (_count(self._nulls(negated=False)), up_to, _count(f"NOT {self._behind(end)}"))
        return f"SELECT {', '.join(counts)}, {barrier} FROM {self.path}"  # noqa: S608 - quoted

    def advance(self, known: Offset | None, end: tuple[str, ...], counts: Sequence[int], barrier: str) -> Offset:
        """Return the offset at `end`, or the known one where there is nothing behind it.

        Raises PositionError for rows that nobody would ever see, and for a table whose
        rows are not those that were read: they would be read twice, or never.
        """
        nulls, up_to, through = counts
        named = f"the stream {self.name} by {', '.join(self.by)}"
        if nulls:
            message = f"{named} has got {nulls} rows without a value there"
            raise PositionError(message, f"give the task columns in `by` that have one in each row; {BEGIN_ANEW}")
        if known is None:
            return Offset(self.columns, end, through, barrier)
        more, goes_back = up_to - known.rows, end != known.values and up_to == through
        if barrier != known.barrier and (more or goes_back):
            message = f"{named} was emptied or made anew, and its rows are not those that were read"
            raise PositionError(message, f"if it is being filled again, wait for that; if this stays, {BEGIN_ANEW}")
        if more > 0:
            message = f"{named} has got {more} rows that are not behind its offset"
            raise PositionError(message, f"give the task columns in `by` that only grow; {BEGIN_ANEW}")
        if goes_back and self.by == LOG_PLACE:
            message = f"{named} ends at {' '.join(end)}, before its offset {' '.join(known.values)}"
            raise PositionError(message, BEGIN_ANEW)
        # The newest rows may have been deleted: what comes behind them is new all the same.
        return Offset(self.columns, known.values if goes_back else end, through, barrier)

    def render(self, known: Offset | None, end: tuple[str, ...]) -> str:
        """Return what stands in SQL for the rows behind the known offset, up to `end`."""
        conditions = [f"NOT {self._behind(end)}"] + ([] if known is None else [self._behind(known.values)])
        return f"(SELECT * FROM {self.path} WHERE {' AND '.join(conditions)})"  # noqa: S608 - quoted

    @property
    def _columns(self) -> list[str]:
        return [quote_name(self.dialect, name) for name in self.by]

    def _behind(self, values: tuple[str, ...]) -> str:
        """Return the condition of rows behind `values`. Not every warehouse compares rows of columns."""
        condition = ""
        for name, value in reversed([*zip(self.by, values, strict=True)]):
            column = quote_name(self.dialect, name)
            given = f"CAST({quote_text(value, self.dialect)} AS {self.types[name]})"
            equal = f" OR ({column} = {given} AND {condition})" if condition else ""
            condition = f"({column} > {given}{equal})"
        return condition

    def _nulls(self, *, negated: bool) -> str:
        check, glue = ("IS NOT NULL", " AND ") if negated else ("IS NULL", " OR ")
        return glue.join(f"{column} {check}" for column in self._columns)


def choose_columns(dialect: Dialect, task: Task, types: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns by which a task reads its stream, of those with `types`.

    Raises UsageError where the table lacks one, or where an offset cannot keep its values.
    """
    by = task.by or LOG_PLACE
    if dialect.folds_names:
        by = tuple(name.lower() for name in by)
    reads = f"the task {task.name} reads what is new in {task.stream}"
    if lacking := [name for name in by if name not in types]:
        message = f"{reads}, which has no column {lacking[0]}"
        raise UsageError(message, "name the columns that only grow: `by: [id]`; a change log needs none")
    floats = () if dialect.prints_floats else dialect.floats.values()
    if inexact := [name for name in by if types[name] in floats]:
        message = f"{reads} by {inexact[0]}, of whose floats {dialect.name} does not print all digits"
        raise UsageError(message, "name columns of another type in `by`, such as numbers or instants")
    return by


def render_offset(offset: Offset | None) -> str:
    """Return an offset as a text; "" for none."""
    return "" if offset is None else json.dumps([offset.columns, offset.values, offset.rows, offset.barrier])


def parse_offset(text: str) -> Offset | None:
    """Return what `render_offset` made a text of."""
    if not text:
        return None
    columns, values, rows, barrier = json.loads(text)
    return Offset(tuple(columns), tuple(values), rows, barrier)


def _count(condition: str) -> str:
    return f"COALESCE(SUM(CASE WHEN {condition} THEN 1 ELSE 0 END), 0)"
