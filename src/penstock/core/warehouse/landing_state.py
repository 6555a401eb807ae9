"""What is not well with the objects of a landing zone, told from what Snowflake shows of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from penstock.core.commands import shell_word
from penstock.core.errors import TableStoppedError
from penstock.core.warehouse.dialect import quote_name, quote_text
from penstock.core.warehouse.dialects import SNOWFLAKE
from penstock.core.warehouse.landing import ROW_OPS, plan_landed_merge, plan_revoke
from penstock.core.warehouse.landing_rules import TREATED
from penstock.core.warehouse.landing_tasks import plan_removal, plan_stream, tasks_of
from penstock.core.warehouse.state_schema import state_schema

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from penstock.core.tables import TableId, TableSchema
    from penstock.core.warehouse.landing import LandingZone
    from penstock.core.warehouse.landing_rules import ColumnFound
    from penstock.core.warehouse.landing_tasks import ZoneTask


@dataclass(frozen=True, slots=True)
class TaskFound:
    """A task as SHOW TASKS has it, and what its last run that ended said: `error` is "" where it went well.

    `predecessors` are names in the zone's schema.
    """

    is_started: bool
    schedule: str
    virtual_warehouse: str
    definition: str
    error: str = ""
    condition: str = ""
    predecessors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamFound:
    """A stream as SHOW STREAMS has it. `table` is what it is on, in full and without quotes; "" where nobody knows."""

    is_stale: bool
    table: str = ""

    def is_on(self, table: TableId) -> bool:
        """Whether it may be on a table."""
        return self.table in {"", table.name} or f".{self.table}".endswith(f".{table}")


@dataclass(frozen=True, slots=True)
class Writer:
    """A role that is not ours and may do more with a landing table than read it."""

    table: str
    privilege: str
    role: str


@dataclass(frozen=True, slots=True)
class ZoneFound:
    """The tasks and streams of a zone, by name, and who else may write to its landing tables.

    `columns` are those of public tables for which a rule makes some.
    """

    tasks: Mapping[str, TaskFound]
    streams: Mapping[str, StreamFound]
    writers: Sequence[Writer] = ()
    columns: Mapping[TableId, Mapping[str, ColumnFound]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is not well with a table of a zone, or with a task of the user's."""

    level: Literal["warning", "error"]
    table: str
    text: str
    hint: str


def plan_foreign_rows(zone: LandingZone, table: TableId) -> str:
    """Return the query for how many messages of a table we cannot have loaded: its parameters are pipeline and source.

    They stand nowhere in a topic, at a place that another one has too, or behind what is loaded.
    """
    return f"SELECT COUNT(*) FROM {foreign_messages(zone, table, '?', '?')}"  # noqa: S608 - names are quoted


def foreign_messages(zone: LandingZone, table: TableId, pipeline: str, source: str) -> str:
    """Return what stands behind FROM for these messages: topic `t`, partition `p`, offset `o`, when it came `l`.

    `pipeline` and `source` are texts in SQL, or parameters.
    """
    names = {"pipeline": pipeline, "source": source, "source_table": quote_text(str(table), SNOWFLAKE)}
    ours = " AND ".join(f"p.{quote_name(SNOWFLAKE, name)} = {value}" for name, value in names.items())
    place = ", ".join(f'm."{name}"' for name in ("topic", "partition", "offset"))
    positions = quote_name(SNOWFLAKE, state_schema(SNOWFLAKE, "", ""), "positions")
    same = 'p."topic" = m."topic" AND p."partition" = m."partition"'
    found = (
        f'SELECT m."topic" AS t, m."partition" AS p, m."offset" AS o, m."loaded_at" AS l, p."next_offset" AS e, '  # noqa: S608 - names are quoted
        f"COUNT(*) OVER (PARTITION BY {place}) AS n "
        f"FROM {zone.table(table)} AS m LEFT JOIN {positions} AS p ON {ours} AND {same} "
        f'WHERE m."message":op::VARCHAR IN {ROW_OPS}'
    )
    return f"(SELECT t, p, o, l FROM ({found}) AS g WHERE o IS NULL OR n > 1 OR o >= e) AS f"  # noqa: S608 - names are quoted


def foreign_rows(table: TableId, rows: int) -> Trouble:
    """Say that somebody else wrote messages."""
    text = f"{rows} messages in its landing table are not Penstock's, and the public table may have what they say"
    hint = f"delete them from the landing table, then type: penstock snapshot FILE {shell_word(table)} --full-refresh"
    return Trouble("error", str(table), text, hint)


def find_troubles(zone: LandingZone, schema: TableSchema, found: ZoneFound) -> Iterator[Trouble]:
    """Yield what keeps messages of a table from being merged, and what differs from what we would make."""
    table = str(schema.table)
    stream = found.streams.get(f"{table}/stream")
    if stream is None:
        text = "it has no stream any more: nothing knows which of its messages are merged"
        yield Trouble("error", table, text, _rebuild(table))
    elif stream.is_stale:
        text = "its stream is stale: it was not read for longer than Snowflake keeps the changes of a table"
        yield Trouble("error", table, text, f"the messages are all there; {_rebuild(table)}")
    for writer in found.writers:
        if writer.table == table:
            text = f"the role {writer.role} has {writer.privilege} on its landing table, which only Penstock adds to"
            revoke = plan_revoke(zone, schema.table, writer.privilege, writer.role)
            yield Trouble("warning", table, text, f"run in Snowflake: {revoke}")
    yield from _other_types(zone, schema, found)
    task = found.tasks.get(f"{table}/task")
    if task is None:
        yield Trouble("error", table, "it has no task any more: nothing merges what lands", _APPLY)
        return
    yield from _failures(table, task, stream)
    try:
        merge = plan_landed_merge(zone, schema)
    except TableStoppedError as error:
        yield Trouble("error", table, error.message, error.hint)
        return
    if treats_otherwise(zone, schema, task.definition):
        text = "its rows are filtered or converted otherwise than the sink's `tables` say now"
        yield Trouble("warning", table, text, f"{_APPLY}, which also merges its messages again")
    elif _plain(task.definition) != _plain(merge):
        text = "its task does something else than Penstock would make it do"
        yield Trouble("warning", table, text, f"see its SQL: penstock snowflake plan FILE; {_APPLY}")
    elif (task.schedule, task.virtual_warehouse.casefold()) != (zone.schedule, zone.virtual_warehouse.casefold()):
        there = f"{task.schedule} on {task.virtual_warehouse}"
        text = f"its task runs by {there}, and the sink says {zone.schedule} on {zone.virtual_warehouse}"
        yield Trouble("warning", table, text, _APPLY)
    yield from find_task_troubles(zone, schema.table, found)


def _other_types(zone: LandingZone, schema: TableSchema, found: ZoneFound) -> Iterator[Trouble]:
    """Tell of columns that a rule made with another type than it says now."""
    rule, there = zone.rule(schema.table), found.columns.get(schema.table, {})
    for name, type_ in rule.new_columns(schema).items() if rule else ():
        column = there.get(name)
        # One without a type stops its table, and is told with that.
        if type_ and column is not None and not column.is_made_by(type_):
            text = f"its column {name} is {column}, and the sink's `tables` make it {type_}"
            hint = f"type: penstock snapshot FILE {shell_word(schema.table)} --full-refresh, which makes the table anew"
            yield Trouble("warning", str(schema.table), text, hint)


def treats_otherwise(zone: LandingZone, schema: TableSchema, definition: str | None) -> bool:
    """Whether the rows of a public table were made by another rule than the file has, or by none where it has one.

    `definition` is what the table's task runs, None where it is gone: nobody knows then by which rule it merged.
    """
    merge = plan_landed_merge(zone, schema)
    return definition is None or (TREATED in merge + definition and _plain(definition) != _plain(merge))


def find_task_troubles(zone: LandingZone, table: TableId | None, found: ZoneFound) -> Iterator[Trouble]:
    """Yield what keeps the user's tasks from running that belong to `table`, and what differs from the file."""
    for task in tasks_of(zone, table):
        subject = f"task {task.name.partition('/')[2]}"
        stream, there = found.streams.get(f"{task.name}/stream"), found.tasks.get(task.object)
        if task.stream and stream is None:
            text = f"it has no stream on {task.stream}: nothing knows what it has read"
            yield Trouble("error", subject, text, f"{_APPLY}, which makes one that begins with all rows")
        elif stream is not None and stream.is_stale:
            text = f"its stream on {task.stream} is stale: what changed there and it has not read cannot be read"
            hint = f"empty what the task made; then run in Snowflake: {next(plan_stream(zone, task, anew=True))}"
            yield Trouble("error", subject, text, hint)
        elif stream is not None and task.stream and not stream.is_on(task.stream):
            text = f"its stream is on {stream.table}, and the file says {task.stream}"
            yield Trouble("error", subject, text, f"{_APPLY}, which makes one that begins with all rows")
        if there is None:
            yield Trouble("error", subject, "Snowflake has no such task", _APPLY)
            continue
        if not there.is_started:
            why = f" after its last run failed: {there.error}" if there.error else ""
            yield Trouble("error", subject, f"it is suspended{why}", f"{_MEND_SQL}; {_APPLY}, which lets it run again")
        elif there.error:
            hint = f"{_MEND_SQL}; its stream stays where it is until it succeeds"
            yield Trouble("error", subject, f"its last run failed: {there.error}", hint)
        if not _is_made_by(task, there, zone):
            yield Trouble("warning", subject, "it is another one in Snowflake than in the file", _APPLY)


def find_removed(zone: LandingZone, pipeline: str, found: ZoneFound) -> list[str]:
    """Return the names of tasks that a pipeline had, and its file has no more."""
    ours = {task.object for task in zone.tasks}
    return [name for name in found.tasks if name.startswith(f"{pipeline}/") and name not in ours]


def find_displaced(zone: LandingZone, found: ZoneFound) -> dict[str, bool]:
    """Return the names of tasks that come after others than the file says, or whose streams are on another table.

    True for those whose streams are as they should be. Each is dropped before its new graph is made: Snowflake
    changes nothing in the old one, which may be another table's, while that runs.
    """
    displaced = {}
    for task in zone.tasks:
        there, stream = found.tasks.get(task.object), found.streams.get(f"{task.name}/stream")
        keeps_stream = not (task.stream and stream and not stream.is_on(task.stream))
        if not keeps_stream or (there and sorted(there.predecessors) != sorted(task.predecessors)):
            displaced[task.object] = keeps_stream
    return displaced


def find_cleared(zone: LandingZone, pipeline: str, found: ZoneFound) -> dict[str, bool]:
    """Return the names of tasks that are dropped ahead of others; True for those whose streams stay."""
    return dict.fromkeys(find_removed(zone, pipeline, found), False) | find_displaced(zone, found)


def plan_clearing(zone: LandingZone, pipeline: str, found: ZoneFound) -> list[str]:
    """Return what drops tasks that the file has no more or has elsewhere; the roots of their graphs stay suspended."""
    return [
        statement
        for name, keeps_stream in find_cleared(zone, pipeline, found).items()
        for statement in plan_removal(zone, name, roots_of(name, found), keeps_stream=keeps_stream)
    ]


def find_halted(names: Collection[str], before: ZoneFound, now: ZoneFound) -> list[str]:
    """Return which of these tasks began graphs, ran before, and are suspended now."""
    there = {name: now.tasks[name] for name in sorted(names) if name in now.tasks and name in before.tasks}
    return [
        name
        for name, task in there.items()
        if before.tasks[name].is_started and not task.is_started and not task.predecessors
    ]


def removed_task(name: str) -> Trouble:
    """Say that a task is still in Snowflake."""
    subject = f"task {name.partition('/')[2].removesuffix('/task')}"
    return Trouble("warning", subject, "it is no longer in the file, and Snowflake still has it", _APPLY)


def waiting_task(task: ZoneTask) -> Trouble:
    """Say that a task belongs to a table that is not there: its name may be a mistake."""
    text = f"it waits for the first rows of {task.table}; is that what the sink calls the table?"
    return Trouble("warning", f"task {task.name.partition('/')[2]}", text, "nothing, if the source has such a table")


def roots_of(name: str, found: ZoneFound) -> list[str]:
    """Return the tasks that the graph of a task begins with, by their names in the zone's schema."""
    task = found.tasks.get(name)
    if task is None or not task.predecessors:
        return [name]
    return list(dict.fromkeys(root for each in task.predecessors for root in roots_of(each, found)))


def _is_made_by(task: ZoneTask, there: TaskFound, zone: LandingZone) -> bool:
    runs = (there.schedule, there.virtual_warehouse.casefold(), sorted(there.predecessors))
    does = (_plain(there.definition), _plain(there.condition))
    wanted = (_plain(task.body(zone)), _plain(task.condition(zone)))
    return does == wanted and runs == (task.schedule, zone.virtual_warehouse.casefold(), sorted(task.predecessors))


def _failures(table: str, task: TaskFound, stream: StreamFound | None) -> Iterator[Trouble]:
    if stream is not None and stream.is_stale:
        hint = _rebuild(table)
    else:
        hint = "correct what the error names; what landed waits in the stream, and is merged by the next run"
    if not task.is_started:
        why = f" after its last run failed: {task.error}" if task.error else ""
        yield Trouble("error", table, f"its task is suspended{why}", f"{hint}; {_APPLY}, which lets it run again")
    elif task.error:
        yield Trouble("error", table, f"the last run of its task failed: {task.error}", hint)


def _plain(definition: str) -> str:
    """Return SQL without what says nothing: white space within quotes does."""
    return _TEXT_OR_SPACE.sub(lambda found: found[1] or " ", definition).strip().rstrip("; ")


def _rebuild(table: str) -> str:
    return f"type: penstock snowflake rebuild FILE {shell_word(table)}"


_APPLY = "type: penstock snowflake apply FILE"
_TEXT_OR_SPACE = re.compile(r"""('(?:[^'\\]|''|\\.)*'|"(?:[^"]|"")*")|\s+""", re.DOTALL)
_MEND_SQL = "correct its `sql`, or what the error names"
