"""What a pipeline's file may say of the tasks behind a landing zone in Snowflake."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from penstock.config.columns import as_list
from penstock.config.spec import NAME_PATTERN, Name, Positive, Spec
from penstock.config.tasks import (
    Statement,
    TableName,
    names_in_order,
)
from penstock.core.tables import TableId
from penstock.core.warehouse.landing_tasks import ZoneTask, first_word, without_comments
from penstock.core.warehouse.micro_batches import NEWS, Task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCHEDULE_PATTERN = r"^([1-9][0-9]* (SECONDS?|MINUTES?|HOURS?)|USING CRON [^']+)$"
"""What CREATE TASK takes for a schedule."""
_REPEATABLE = re.compile(
    r"CREATE\b(\s+SCHEMA\s+IF\s+NOT\s+EXISTS\s|[^('\"]*?\sIF\s+NOT\s+EXISTS\s+(\"[^\"]+\"|[\w$]+)\s*\.)", re.IGNORECASE
)
"""A task's session has another schema than ours, so that names need theirs."""


def _predecessor(text: str) -> str:
    """Return the name of a task or a table."""
    schema, dot, name = text.partition(".")
    if not (schema and name if dot else re.fullmatch(NAME_PATTERN, text)):
        message = "should be a task of this sink, or a table with its schema, as in shop.orders"
        raise ValueError(message)
    return text


class ZoneTaskSpec(Spec):
    """SQL that Snowflake runs by `schedule`, or `after` a table's merge or other tasks, on what is new in `stream`.

    `stream` is a public table. Where the SQL says {stream}, it reads what changed in it
    since the task last ran. CREATE runs when the task is made. After `suspend_after`
    failures in a row a task with a schedule is suspended.
    """

    name: Name
    schedule: Annotated[str, Field(pattern=SCHEDULE_PATTERN)] | None = None
    after: Annotated[tuple[Annotated[str, AfterValidator(_predecessor)], ...], BeforeValidator(as_list)] = ()
    stream: TableName | None = None
    sql: Annotated[tuple[Statement, ...], BeforeValidator(as_list), Field(min_length=1)]
    suspend_after: Positive = 10

    @model_validator(mode="after")
    def _fits_together(self) -> ZoneTaskSpec:
        statements = [without_comments(statement) for statement in self.sql]
        words = [first_word(statement) for statement in statements]
        creates = [word == "CREATE" for word in words]
        reads = any(NEWS in statement for statement in statements)
        message = ""
        if (self.schedule is None) == (not self.after):
            message = "give either a schedule or after"
        elif "WITH" in words:
            message = "begins with WITH, which is a query in Snowflake and changes nothing: write INSERT INTO ... WITH"
        elif reads and self.stream is None:
            message = f"the sql reads {NEWS}: give the stream, a table of this sink"
        elif self.stream and not reads:
            message = (
                f"no sql reads {NEWS}, and only that moves a stream in Snowflake: read it, or come after the table"
            )
        elif self.after and "suspend_after" in self.model_fields_set:
            message = (
                "suspend_after is for a task with a schedule: Snowflake counts the failures of a graph at its root"
            )
        elif all(creates) or creates != sorted(creates, reverse=True):
            message = "CREATE runs when the task is made: put it first, and what the task does behind it"
        elif any(NEWS in statement or not _REPEATABLE.match(statement) for statement in statements[: sum(creates)]):
            message = f"CREATE runs when the task is made: say IF NOT EXISTS, name the schema, and read no {NEWS} in it"
        if message:
            raise ValueError(message)
        return self

    @property
    def meaning(self) -> str:
        """It in words, for `penstock check`."""
        when = f"every {self.schedule}" if self.schedule else f"after {', '.join(self.after)}"
        return f"{self.name}, {when}" + (f", when {self.stream} has changed" if self.stream else "")

    @property
    def tables_after(self) -> tuple[str, ...]:
        """The tables whose merges it comes after: no task has a dot in its name."""
        return tuple(name for name in self.after if "." in name)

    @property
    def tasks_after(self) -> tuple[str, ...]:
        """The tasks that it comes after."""
        return tuple(name for name in self.after if "." not in name)


def plan_tasks(pipeline: str, tasks: Sequence[ZoneTaskSpec]) -> tuple[ZoneTask, ...]:
    """Return tasks, which are in order, as a landing zone has them."""
    roots, graphs = _roots(tasks), _tables(tasks)

    def named(name: str) -> str:
        return name if "." in name else f"{pipeline}/{name}"

    return tuple(
        ZoneTask(
            named(task.name),
            task.sql,
            named(roots[task.name]),
            graphs[roots[task.name]],
            task.schedule or "",
            tuple(named(name) for name in task.after),
            None if task.stream is None else TableId.parse(task.stream),
            task.suspend_after,
        )
        for task in tasks
    )


def _in_order(tasks: tuple[ZoneTaskSpec, ...]) -> tuple[ZoneTaskSpec, ...]:
    """Return tasks so that each stands behind those that it comes after. ValueError for graphs that cannot be."""
    order = names_in_order([Task(t.name, t.sql, after=t.tasks_after) for t in tasks], "task and no table")
    ordered = tuple(sorted(tasks, key=lambda task: order.index(task.name)))
    _tables(ordered)
    return ordered


def _roots(tasks: Sequence[ZoneTaskSpec]) -> Mapping[str, str]:
    """Return what the graph of each task begins with: a task or a table. ValueError for a graph of several."""
    roots: dict[str, str] = {}
    for task in tasks:
        found = sorted({*task.tables_after, *(roots[name] for name in task.tasks_after)} or {task.name})
        if len(found) > 1:
            message = (
                f'the task "{task.name}" begins behind {" and ".join(found)}, and a graph of Snowflake has one root: '
                "give it a schedule, or let it come after one of them"
            )
            raise ValueError(message)
        roots[task.name] = found[0]
    return roots


def _tables(tasks: Sequence[ZoneTaskSpec]) -> Mapping[str, TableId | None]:
    """Return the table that each graph belongs to, by its root. ValueError for one with several."""
    tables: dict[str, TableId | None] = {}
    for name, root in _roots(tasks).items():
        graph = [task for task in tasks if task.name == name]
        found = {TableId.parse(text) for task in graph for text in (task.stream, *task.tables_after) if text}
        found |= {table for table in (tables.get(root), TableId.parse(root) if "." in root else None) if table}
        if len(found) > 1:
            listed = " and ".join(sorted(map(str, found)))
            message = (
                f'the task "{name}" is of a graph on {listed}, and the streams of a graph are on one table: '
                "give it a schedule of its own"
            )
            raise ValueError(message)
        tables[root] = next(iter(found), None)
    return tables


ZoneTasks: TypeAlias = Annotated[tuple[ZoneTaskSpec, ...], AfterValidator(_in_order)]
