"""Tasks of a user behind a landing zone: Snowflake's task graphs, on streams of public tables.

A graph has one root: the task that merges a table, or a task with a schedule. All of
its streams are on one table, and what it is made of comes and goes with that table.
Snowflake changes nothing in a graph whose root is started.

Source: Snowflake user guide, "Create a sequence of tasks with a task graph"; SQL
reference, CREATE TASK, CREATE STREAM, SYSTEM$TASK_DEPENDENTS_ENABLE; Snowflake
Scripting, "Working with transactions".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from penstock.core.warehouse.dialect import quote_name, quote_text
from penstock.core.warehouse.dialects import SNOWFLAKE
from penstock.core.warehouse.micro_batches import NEWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.core.tables import TableId

NAMES_PARAMETERS: Final[Mapping[str, str | bool]] = {"QUOTED_IDENTIFIERS_IGNORE_CASE": False}
"""Session parameters of every task, whatever the account sets. With `true`, names in quotes would be in capitals."""
MERGE_PARAMETERS: Final = {**NAMES_PARAMETERS, "DATE_INPUT_FORMAT": "AUTO", "TIMESTAMP_INPUT_FORMAT": "AUTO"}
"""Those of a merge, which casts texts of ours. How SQL of the user's reads dates is left to the account."""
_TEXT_OR_COMMENT: Final = re.compile(r"'(?:[^'\\]|''|\\.)*'|\"(?:[^\"]|\"\")*\"|(?:--|//)[^\n]*|/\*.*?\*/", re.DOTALL)


class TaskZone(Protocol):
    """What tasks need of a landing zone: its schema, the warehouse that runs them, and all of them in order."""

    @property
    def schema(self) -> str:
        """Where they are."""
        ...

    @property
    def virtual_warehouse(self) -> str:
        """What runs them."""
        ...

    @property
    def tasks(self) -> tuple[ZoneTask, ...]:
        """Each behind those that it comes after."""
        ...


@dataclass(frozen=True, slots=True)
class ZoneTask:
    """A task by `schedule` (as in CREATE TASK), or behind the tasks and the merges of tables that `after` names.

    `name` is the user's, below that of the pipeline. `root` is what its graph begins
    with: a task's name, or a table's. `table` is what the graph belongs to: the table
    of its root, or of its streams; None for a graph that has neither.
    """

    name: str
    statements: tuple[str, ...]
    root: str
    table: TableId | None = None
    schedule: str = ""
    after: tuple[str, ...] = ()
    stream: TableId | None = None
    failures_max: int = 10

    @property
    def object(self) -> str:
        """What the task is called in the zone's schema. No table has a name without a dot."""
        return f"{self.name}/task"

    @property
    def predecessors(self) -> tuple[str, ...]:
        """What the tasks are called in the zone's schema that it comes after."""
        return tuple(f"{name}/task" for name in self.after)

    def stream_path(self, zone: TaskZone) -> str:
        """The full name of its stream, quoted."""
        return _path(zone, f"{self.name}/stream")

    def condition(self, zone: TaskZone) -> str:
        """What WHEN says; "" where it runs each time."""
        return f"SYSTEM$STREAM_HAS_DATA({quote_text(self.stream_path(zone), SNOWFLAKE)})" if self.stream else ""

    def body(self, zone: TaskZone) -> str:
        """What it runs: one statement, or a block that is one transaction."""
        statements = [each.replace(NEWS, self.stream_path(zone)) for each in self.statements if not _defines(each)]
        if len(statements) == 1:
            return statements[0]
        # A comment may end a statement.
        listed = " ".join(f"{each}\n;" for each in statements)
        return f"BEGIN BEGIN TRANSACTION; {listed} COMMIT; EXCEPTION WHEN OTHER THEN ROLLBACK; RAISE; END"


def plan_graphs(zone: TaskZone, table: TableId | None) -> list[str]:
    """Return what makes the graphs of a table whose root, if that is its merge, is suspended; and lets them run.

    Each statement may be run again. A stream begins with the rows that are there.
    """
    tasks = tasks_of(zone, table)
    # A task whose predecessor was replaced may be a root now.
    statements = [_suspend(zone, task.object) for task in tasks]
    for task in tasks:
        statements += [each for each in task.statements if _defines(each)]
        statements += plan_stream(zone, task)
        statements.append(_create(zone, task))
    return statements + [plan_start(zone, root) for root in dict.fromkeys(f"{task.root}/task" for task in tasks)]


def render_parameters(parameters: Mapping[str, str | bool]) -> str:
    """Return session parameters as CREATE TASK takes them."""
    values = {
        name: str(value).upper() if isinstance(value, bool) else quote_text(value, SNOWFLAKE)
        for name, value in parameters.items()
    }
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def plan_start(zone: TaskZone, root: str) -> str:
    """Return what lets a task and all that come after it run; `root` is its name in the zone's schema."""
    return f"SELECT SYSTEM$TASK_DEPENDENTS_ENABLE({quote_text(_path(zone, root), SNOWFLAKE)})"


def plan_stream(zone: TaskZone, task: ZoneTask, *, anew: bool = False) -> Iterator[str]:
    """Yield what makes the stream of a task, if it has one; `anew` it begins with all rows again."""
    if task.stream is not None:
        create = "CREATE OR REPLACE STREAM" if anew else "CREATE STREAM IF NOT EXISTS"
        base = quote_name(SNOWFLAKE, task.stream.schema, task.stream.name)
        yield f"{create} {task.stream_path(zone)} ON TABLE {base} SHOW_INITIAL_ROWS = TRUE"


def plan_streams_anew(zone: TaskZone, table: TableId) -> list[str]:
    """Return what makes the streams of a table's graphs anew: one cannot be read once its table was replaced."""
    return [statement for task in tasks_of(zone, table) for statement in plan_stream(zone, task, anew=True)]


def plan_graphs_end(zone: TaskZone, table: TableId) -> list[str]:
    """Return what ends the graphs of a table; the task that merges it stays, and is suspended."""
    tasks = tasks_of(zone, table)
    return [
        plan_suspension(zone, table),
        *(_suspend(zone, task.object) for task in tasks if not task.after),
        *(f"DROP TASK IF EXISTS {_path(zone, task.object)}" for task in reversed(tasks)),
        *(f"DROP STREAM IF EXISTS {task.stream_path(zone)}" for task in tasks if task.stream),
    ]


def plan_removal(zone: TaskZone, name: str, roots: Sequence[str], *, keeps_stream: bool = False) -> list[str]:
    """Return what removes a task, and its stream; `name` and `roots` are names in the zone's schema.

    The roots of its graph stay suspended.
    """
    stream = _path(zone, f"{name.removesuffix('/task')}/stream")
    suspends = [_suspend(zone, each) for each in dict.fromkeys([*roots, name])]
    drop = f"DROP TASK IF EXISTS {_path(zone, name)}"
    return [*suspends, drop, *([] if keeps_stream else [f"DROP STREAM IF EXISTS {stream}"])]


def plan_suspension(zone: TaskZone, table: TableId) -> str:
    """Return what suspends the task that merges a table: while others come after it, it cannot be replaced else."""
    return _suspend(zone, f"{table}/task")


def follows_merge(zone: TaskZone, table: TableId) -> bool:
    """Whether a task comes after the merge of a table."""
    return any(task.root == str(table) for task in zone.tasks)


def tasks_of(zone: TaskZone, table: TableId | None) -> list[ZoneTask]:
    """Return the tasks of the graphs that belong to a table, each behind those that it comes after."""
    return [task for task in zone.tasks if task.table == table]


def without_comments(statement: str) -> str:
    """Return a statement as Snowflake runs it."""
    return _TEXT_OR_COMMENT.sub(lambda found: found[0] if found[0][0] in "'\"" else " ", statement).strip()


def first_word(statement: str) -> str:
    """Return the first word of a statement, in capitals."""
    return re.split(r"\W", without_comments(statement), maxsplit=1)[0].upper()


def identifier(name: str) -> str:
    """Return a name as the session's login reads it: in capitals, unless it can only be meant as it is."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]*", name) else quote_name(SNOWFLAKE, name)


def _create(zone: TaskZone, task: ZoneTask) -> str:
    parts = [f"CREATE OR REPLACE TASK {_path(zone, task.object)}", f"WAREHOUSE = {identifier(zone.virtual_warehouse)}"]
    if task.schedule:
        parts.append(f"SCHEDULE = {quote_text(task.schedule, SNOWFLAKE)}")
    parts.append(render_parameters(NAMES_PARAMETERS))
    if task.schedule:
        parts.append(f"SUSPEND_TASK_AFTER_NUM_FAILURES = {task.failures_max}")
    else:
        parts.append(f"AFTER {', '.join(_path(zone, name) for name in task.predecessors)}")
    if task.stream:
        parts.append(f"WHEN {task.condition(zone)}")
    return " ".join([*parts, f"AS {task.body(zone)}"])


def _suspend(zone: TaskZone, name: str) -> str:
    return f"ALTER TASK IF EXISTS {_path(zone, name)} SUSPEND"


def _defines(statement: str) -> bool:
    return first_word(statement) == "CREATE"


def _path(zone: TaskZone, name: str) -> str:
    return quote_name(SNOWFLAKE, zone.schema, name)
