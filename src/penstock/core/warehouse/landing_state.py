"""What is not well with the objects of a landing zone, told from what Snowflake shows of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.core.warehouse.dialect import quote_name, quote_text
from penstock.core.warehouse.dialects import SNOWFLAKE
from penstock.core.warehouse.landing import ROW_OPS, plan_landed_merge, plan_revoke
from penstock.core.warehouse.state_schema import state_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.core.tables import TableId, TableSchema
    from penstock.core.warehouse.landing import LandingZone


@dataclass(frozen=True, slots=True)
class TaskFound:
    """A task as SHOW TASKS has it, and what its last run that ended said: `error` is "" where it went well."""

    is_started: bool
    schedule: str
    virtual_warehouse: str
    definition: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class StreamFound:
    """A stream as SHOW STREAMS has it."""

    is_stale: bool


@dataclass(frozen=True, slots=True)
class Writer:
    """A role that is not ours and may do more with a landing table than read it."""

    table: str
    privilege: str
    role: str


@dataclass(frozen=True, slots=True)
class ZoneFound:
    """The tasks and streams of a zone, by name, and who else may write to its landing tables."""

    tasks: Mapping[str, TaskFound]
    streams: Mapping[str, StreamFound]
    writers: Sequence[Writer] = ()


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is not well with a table of a zone."""

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
    hint = f"delete them from the landing table, then type: penstock snowflake rebuild FILE {table}"
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
    task = found.tasks.get(f"{table}/task")
    if task is None:
        yield Trouble("error", table, "it has no task any more: nothing merges what lands", _APPLY)
        return
    yield from _failures(table, task, stream)
    if _plain(task.definition) != _plain(plan_landed_merge(zone, schema)):
        text = "its task does something else than Penstock would make it do"
        yield Trouble("warning", table, text, f"see its SQL: penstock snowflake plan FILE; {_APPLY}")
    elif (task.schedule, task.virtual_warehouse.casefold()) != (zone.schedule, zone.virtual_warehouse.casefold()):
        there = f"{task.schedule} on {task.virtual_warehouse}"
        text = f"its task runs by {there}, and the sink says {zone.schedule} on {zone.virtual_warehouse}"
        yield Trouble("warning", table, text, _APPLY)


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
    return " ".join(definition.split()).rstrip("; ")


def _rebuild(table: str) -> str:
    return f"type: penstock snowflake rebuild FILE {table}"


_APPLY = "type: penstock snowflake apply FILE"
