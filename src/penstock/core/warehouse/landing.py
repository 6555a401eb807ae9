"""The SQL of a landing zone in Snowflake: per table a landing table, a stream on it, a public table and a task.

A landing table has each message once, and nothing in it is changed:

`message`    VARIANT: `op` (c, r, u, d; truncate, create, drop), and `row`, whose values are texts, or null
`topic`, `partition`, `offset`  where the message stands in Kafka; NULL where it is no message of a row
`position`   how far in the source's log its batch reaches; texts of one length, so that they sort
`loaded_at`  when it came, in UTC

Of one key, later messages have a higher (`position`, `offset`): it stays in one
partition as long as its topic lives, and a topic takes over behind the one before
it. So a stream's rows are deduplicated by that order, and what a later run of the
task reads is newer than what an earlier one did.

Source: Snowflake documentation, "Introduction to streams", CREATE STREAM, CREATE TASK, MERGE.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.tables import (
    BytesType,
    EnumType,
    GeometryType,
    PrintedType,
    SetType,
    TextType,
    VectorType,
)
from penstock.core.warehouse.columns import column_type, stopped
from penstock.core.warehouse.dialect import quote_name, quote_text
from penstock.core.warehouse.dialects import SNOWFLAKE
from penstock.core.warehouse.planner import plan_create
from penstock.core.warehouse.target_table import TargetTable

if TYPE_CHECKING:
    from penstock.core.tables import Column, TableId, TableSchema

COLUMNS: Final = {
    "message": "VARIANT",
    "topic": "VARCHAR",
    "partition": "NUMBER(38, 0)",
    "offset": "NUMBER(38, 0)",
    "position": "VARCHAR",
    "loaded_at": "TIMESTAMP_NTZ(6)",
}
"""The columns of a landing table, in order, with their types."""
_TEXTS = (TextType, EnumType, SetType, PrintedType)
_ROW_OPS = "('c', 'r', 'u', 'd')"


@dataclass(frozen=True, slots=True)
class LandingZone:
    """The schema `schema`, and the `virtual_warehouse` that runs its tasks by `schedule` (as in CREATE TASK)."""

    schema: str
    virtual_warehouse: str
    schedule: str

    def table(self, table: TableId) -> str:
        """The full name of the table's landing table, quoted."""
        return quote_name(SNOWFLAKE, self.schema, str(table))

    def stream(self, table: TableId) -> str:
        """The full name of the stream on it."""
        return quote_name(SNOWFLAKE, self.schema, f"{table}/stream")

    def task(self, table: TableId) -> str:
        """The full name of the task that merges."""
        return quote_name(SNOWFLAKE, self.schema, f"{table}/task")


def plan_zone(zone: LandingZone) -> str:
    """Return the statement that makes the schema of the zone."""
    return f"CREATE SCHEMA IF NOT EXISTS {quote_name(SNOWFLAKE, zone.schema)}"


def plan_table(zone: LandingZone, schema: TableSchema) -> list[str]:
    """Return what makes all that a table is made of, in order; each statement may be run again.

    Raises TableStoppedError for a table that cannot be merged from messages.
    """
    require_mergeable(schema)
    table = schema.table
    make_schema, *make = plan_create(SNOWFLAKE, TargetTable("", schema))
    columns = ", ".join(f"{quote_name(SNOWFLAKE, name)} {type_}" for name, type_ in COLUMNS.items())
    return [
        plan_zone(zone),
        make_schema,
        f"CREATE TABLE IF NOT EXISTS {zone.table(table)} ({columns})",
        *(statement.replace("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ", 1) for statement in make),
        f"CREATE STREAM IF NOT EXISTS {zone.stream(table)} ON TABLE {zone.table(table)} APPEND_ONLY = TRUE",
        *plan_task(zone, schema),
    ]


def plan_task(zone: LandingZone, schema: TableSchema) -> list[str]:
    """Return what makes the task, or makes it anew for another schema, and lets it run."""
    task = zone.task(schema.table)
    has_data = quote_text(zone.stream(schema.table), SNOWFLAKE)
    runs = f"WAREHOUSE = {_identifier(zone.virtual_warehouse)} SCHEDULE = {quote_text(zone.schedule, SNOWFLAKE)}"
    body = plan_landed_merge(zone, schema)
    return [
        f"CREATE OR REPLACE TASK {task} {runs} WHEN SYSTEM$STREAM_HAS_DATA({has_data}) AS {body}",
        f"ALTER TASK {task} RESUME",
    ]


def plan_end(zone: LandingZone, table: TableId) -> list[str]:
    """Return what ends the merging of a table; the messages that landed stay."""
    return [f"DROP TASK IF EXISTS {zone.task(table)}", f"DROP STREAM IF EXISTS {zone.stream(table)}"]


def plan_landed_merge(zone: LandingZone, schema: TableSchema) -> str:
    """Return the MERGE of what the stream has: of each key the newest message, and rows that are gone are deleted."""
    key = [quote_name(SNOWFLAKE, name) for name in schema.key]
    names = [quote_name(SNOWFLAKE, column.name) for column in schema.columns]
    values = [_typed(schema, column) for column in schema.columns]
    typed = dict(zip((column.name for column in schema.columns), values, strict=True))
    parts = ", ".join(typed[schema.column(name).name] for name in schema.key)
    selected = ", ".join(f"{value} AS {name}" for value, name in zip(values, names, strict=True))
    newest = f'ROW_NUMBER() OVER (PARTITION BY {parts} ORDER BY "position" DESC, "offset" DESC) = 1'
    where = f'"message":op::VARCHAR IN {_ROW_OPS}'
    op = '"message":op::VARCHAR AS "__penstock_op"'
    source = f"SELECT {op}, {selected} FROM {zone.stream(schema.table)} WHERE {where} QUALIFY {newest}"  # noqa: S608 - names are quoted
    others = [name for name in names if name not in key]
    clauses = ["WHEN MATCHED AND s.\"__penstock_op\" = 'd' THEN DELETE"]
    if others:
        clauses.append("WHEN MATCHED THEN UPDATE SET " + ", ".join(f"{name} = s.{name}" for name in others))
    inserted = f"({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
    clauses.append(f"WHEN NOT MATCHED AND s.\"__penstock_op\" <> 'd' THEN INSERT {inserted}")
    path = TargetTable("", schema).path(SNOWFLAKE)
    same = " AND ".join(f"t.{name} = s.{name}" for name in key)
    return f"MERGE INTO {path} AS t USING ({source}) AS s ON {same} {' '.join(clauses)}"


def plan_landing(zone: LandingZone, table: TableId) -> str:
    """Return the INSERT of messages: its one parameter is a JSON array of objects with all columns but the time."""
    cast = {"message": "", "topic": "::VARCHAR", "position": "::VARCHAR"}
    given = [name for name in COLUMNS if name != "loaded_at"]
    values = ", ".join(f"f.value:{name}{cast.get(name, '::NUMBER(38, 0)')}" for name in given)
    names = ", ".join(quote_name(SNOWFLAKE, name) for name in COLUMNS)
    return (
        f"INSERT INTO {zone.table(table)} ({names}) "  # noqa: S608 - names are quoted
        f"SELECT {values}, SYSDATE() FROM TABLE(FLATTEN(INPUT => PARSE_JSON(?))) AS f"
    )


def require_mergeable(schema: TableSchema) -> None:
    """Raise TableStoppedError for a table whose rows cannot be told by a key, or whose messages lack columns."""
    if not schema.key:
        reason = "a landing zone merges rows by their key, and this table has none"
        raise stopped(schema, "", reason, "give it a primary key, or leave it out of the link's `tables`")
    if schema.partial_rows:
        reason = "its rows may lack columns, which a landing zone cannot complete"
        raise stopped(schema, "", reason, "log full row images, or leave it out of the link's `tables`")


def render_position(order: tuple[int, int, int]) -> str:
    """Return a place in the source's log so that texts sort as places do."""
    file, offset, row = order
    return f"{file:020d}/{offset:020d}/{row:010d}"


def _identifier(name: str) -> str:
    """Return a name as the session's login reads it: in capitals, unless it can only be meant as it is."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]*", name) else quote_name(SNOWFLAKE, name)


def _typed(schema: TableSchema, column: Column) -> str:
    """Return the value of a column in a message, as the public table has it."""
    text = f'"message":row."{column.name}"::VARCHAR'
    if re.search(r"[\"'\\]", column.name):
        # A path has no way to write these.
        text = f'GET("message":row, {quote_text(column.name, SNOWFLAKE)})::VARCHAR'
    type_ = column_type(SNOWFLAKE, schema, column)
    if isinstance(column.type, _TEXTS):
        return text
    if isinstance(column.type, (BytesType, GeometryType)):
        return f"TO_BINARY({text}, 'HEX')"
    if isinstance(column.type, VectorType):
        return f"CAST(PARSE_JSON({text}) AS {type_})"
    return f"CAST({text} AS {type_})"
