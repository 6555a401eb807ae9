"""What a pipeline's file may say of the tasks of a sink, which run SQL on what is new in its tables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from penstock.config.columns import as_list
from penstock.config.spec import Name, Positive, Spec, Text
from penstock.core.errors import UsageError
from penstock.core.tables import TableId
from penstock.core.warehouse.micro_batches import NEWS, Task, order_tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600}
_FIRST_WORDS = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "CREATE"})
_NO_SQL = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
"""Where a semicolon is none."""


def _statement(text: str) -> str:
    """Return one statement; ValueError for several, and for one that would end the transaction of a task."""
    text = text.strip().removesuffix(";").rstrip()
    words = _NO_SQL.sub(" ", text).split()
    if not words or words[0].upper() not in _FIRST_WORDS:
        message = (
            f"should begin with {', '.join(sorted(_FIRST_WORDS))}: it runs in a transaction with the task's offset"
        )
        raise ValueError(message)
    if any(";" in word for word in words):
        message = "has several statements: write each as an item of a list"
        raise ValueError(message)
    return text


def _table(text: str) -> str:
    """Return a table's name if it has a schema."""
    schema, dot, name = text.partition(".")
    if not (schema and dot and name):
        message = "should be a table of this sink with its schema, as in shop.orders"
        raise ValueError(message)
    return text


Statement: TypeAlias = Annotated[str, AfterValidator(_statement)]
TableName: TypeAlias = Annotated[str, AfterValidator(_table)]


class TaskSpec(Spec):
    """SQL that runs by `schedule`, or behind the tasks `after`, on what is new in `stream`.

    `stream` is a table of the sink, and `by` its columns that only grow: of a change log
    they are known. Where the SQL says {stream}, it reads the rows that the task has not
    read. After `suspend_after` failures in a row it is suspended.
    """

    name: Name
    schedule: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,5} (SECONDS?|MINUTES?|HOURS?)$")] | None = None
    after: Annotated[tuple[Name, ...], BeforeValidator(as_list)] = ()
    stream: TableName | None = None
    by: Annotated[tuple[Text, ...], BeforeValidator(as_list)] = ()
    sql: Annotated[tuple[Statement, ...], BeforeValidator(as_list), Field(min_length=1)]
    suspend_after: Positive = 10

    @model_validator(mode="after")
    def _fits_together(self) -> TaskSpec:
        reads = any(NEWS in statement for statement in self.sql)
        message = ""
        if (self.schedule is None) == (not self.after):
            message = "give either a schedule or after"
        elif reads and self.stream is None:
            message = f"the sql reads {NEWS}: give the stream, a table of this sink"
        elif self.by and not reads:
            message = f"by is of no use in sql that does not read {NEWS}"
        if message:
            raise ValueError(message)
        return self

    @property
    def meaning(self) -> str:
        """It in words, for `penstock check`."""
        when = f"every {self.schedule}" if self.schedule else f"after {', '.join(self.after)}"
        return f"{self.name}, {when}" + (f", when {self.stream} was loaded" if self.stream and self.schedule else "")

    @property
    def task(self) -> Task:
        """It, as it runs."""
        number, _, unit = (self.schedule or "1 SECOND").partition(" ")
        seconds = int(number) * _SECONDS[unit.removesuffix("S")]
        stream = None if self.stream is None else TableId.parse(self.stream)
        return Task(self.name, self.sql, stream, self.by, seconds, self.after, self.suspend_after)


def names_in_order(tasks: Sequence[Task], what: str) -> list[str]:
    """Return names of tasks so that each stands behind those that it comes after.

    ValueError for graphs that cannot be; `what` is all that a task of the sink may come after, in words.
    """
    names = [task.name for task in tasks]
    for task in tasks:
        if names.count(task.name) > 1:
            message = f'there are two tasks "{task.name}"'
            raise ValueError(message)
        if unknown := sorted(set(task.after) - set(names)):
            message = f'the task "{task.name}" comes after "{unknown[0]}", which is no {what} of this sink'
            raise ValueError(message)
    try:
        return [task.name for task in order_tasks(tasks)]
    except UsageError as error:
        message = f"{error.message}: {error.hint}"
        raise ValueError(message) from error


def _in_order(tasks: tuple[TaskSpec, ...]) -> tuple[TaskSpec, ...]:
    order = names_in_order([task.task for task in tasks], "task")
    return tuple(sorted(tasks, key=lambda task: order.index(task.name)))


Tasks: TypeAlias = Annotated[tuple[TaskSpec, ...], AfterValidator(_in_order)]
