"""The SQL of a landing zone in Snowflake: per table a landing table, a stream on it, a public table and a task.

A landing table has each message once, and nothing in it is changed:

`message`    VARIANT: `op` (c, r, u, d; truncate, create, drop, schema), and `row`, whose values are texts, or null
`topic`, `partition`, `offset`  where the message stands in Kafka; NULL where it is no message of a row
`position`   how far in the source's log its batch reaches; texts of one length, so that they sort
`loaded_at`  when it came, in UTC

Of one key, later messages have a higher (`position`, `offset`): it stays in one
partition as long as its topic lives, and a topic takes over behind the one before
it. So a stream's rows are deduplicated by that order, and what a later run of the
task reads is newer than what an earlier one did.

What landed before an entry without a row (of the last four) is merged when that
one lands, and no merge takes it again, whatever the stream shows. An entry `schema`
is of one partition: what has a lower `offset` and a lower `position` had landed, and
what comes late from another partition had not. Those of older releases have a
`position` alone, as the other three.

Source: Snowflake documentation, "Introduction to streams", CREATE STREAM, CREATE TASK, MERGE.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.errors import FULL_REFRESH
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
from penstock.core.warehouse.landing_rules import LACKS
from penstock.core.warehouse.landing_tasks import (
    MERGE_PARAMETERS,
    follows_merge,
    identifier,
    plan_graphs,
    plan_graphs_end,
    plan_suspension,
    render_parameters,
)
from penstock.core.warehouse.planner import plan_create
from penstock.core.warehouse.target_table import TargetTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.core.tables import Column, ColumnType, TableId, TableSchema
    from penstock.core.warehouse.landing_rules import ZoneRule
    from penstock.core.warehouse.landing_tasks import ZoneTask

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
_NAMES: Final = ", ".join(f'"{name}"' for name in COLUMNS)
ROW_OPS = "('c', 'r', 'u', 'd')"
_MERGED: Final = '"__penstock_merged"'
"""The place up to which messages are merged already."""
_LANDED: Final = '"__penstock_landed"'
"""The first offset of a partition that had not landed when the table's columns last changed."""
_CHANGED: Final = '"__penstock_changed"'
"""The place where they changed: a topic that was made anew counts its offsets from 0 behind it."""
_ORPHAN: Final = "a changed row lacks columns, and the public table has no row of its key; op "


@dataclass(frozen=True, slots=True)
class LandingZone:
    """The schema `schema`, and the `virtual_warehouse` that runs its tasks by `schedule` (as in CREATE TASK).

    The roles `readers` may read what is in it, and the public tables. `tasks` are the
    user's, each behind those that it comes after. The first of `rules` that matches a
    table says what is done to its rows.
    """

    schema: str
    virtual_warehouse: str
    schedule: str
    readers: tuple[str, ...] = ()
    tasks: tuple[ZoneTask, ...] = ()
    rules: tuple[ZoneRule, ...] = ()

    def rule(self, table: TableId) -> ZoneRule | None:
        """What is done to rows of a table; None for nothing."""
        first = next((rule for rule in self.rules if rule.patterns.matches(table)), None)
        return first if first and (first.where or first.columns) else None

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


def plan_table(zone: LandingZone, schema: TableSchema, *, again: bool = False) -> list[str]:
    """Return what makes all that a table is made of, in order; each statement may be run again.

    With `again`, its messages are merged again: see `plan_rebuild`.
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
        *(plan_stream_anew(zone, table) if again else [_stream(zone, table, "CREATE STREAM IF NOT EXISTS")]),
        *plan_task(zone, schema),
        *plan_grants(zone, schema.table),
    ]


def plan_grants(zone: LandingZone, table: TableId) -> list[str]:
    """Return what lets readers read a table and its messages, and no more; each statement may be run again."""
    schemas = [quote_name(SNOWFLAKE, name) for name in (zone.schema, table.schema)]
    tables = [zone.table(table), quote_name(SNOWFLAKE, table.schema, table.name)]
    objects = [*(f"USAGE ON SCHEMA {schema}" for schema in schemas), *(f"SELECT ON TABLE {name}" for name in tables)]
    return [f"GRANT {what} TO ROLE {identifier(role)}" for role in zone.readers for what in objects]


def plan_revoke(zone: LandingZone, table: TableId, privilege: str, role: str) -> str:
    """Return what takes a privilege on a landing table from a role, which is named as Snowflake has it."""
    return f"REVOKE {privilege} ON TABLE {zone.table(table)} FROM ROLE {quote_name(SNOWFLAKE, role)}"


def plan_task(zone: LandingZone, schema: TableSchema) -> list[str]:
    """Return what makes the task and those behind it, or makes them anew for another schema, and lets them run."""
    task = zone.task(schema.table)
    has_data = quote_text(zone.stream(schema.table), SNOWFLAKE)
    runs = f"WAREHOUSE = {identifier(zone.virtual_warehouse)} SCHEDULE = {quote_text(zone.schedule, SNOWFLAKE)}"
    runs += f" {render_parameters(MERGE_PARAMETERS)}"
    body, has_others = plan_landed_merge(zone, schema), follows_merge(zone, schema.table)
    if has_others:
        # Snowflake counts failures of a graph at its root, and merges go on whatever fails behind them.
        runs += " SUSPEND_TASK_AFTER_NUM_FAILURES = 0"
    return [
        *plan_new_columns(zone, schema),
        *([plan_suspension(zone, schema.table)] if has_others else []),
        f"CREATE OR REPLACE TASK {task} {runs} WHEN SYSTEM$STREAM_HAS_DATA({has_data}) AS {body}",
        *([] if has_others else [f"ALTER TASK {task} RESUME"]),
        *plan_graphs(zone, schema.table),
    ]


def plan_new_columns(zone: LandingZone, schema: TableSchema) -> Iterator[str]:
    """Yield what adds the columns that a rule makes; each statement may be run again."""
    rule, path = zone.rule(schema.table), TargetTable("", schema).path(SNOWFLAKE)
    for name, type_ in rule.new_columns(schema).items() if rule else ():
        yield f"ALTER TABLE {path} ADD COLUMN IF NOT EXISTS {quote_name(SNOWFLAKE, name)} {type_}"


def plan_rebuild(zone: LandingZone, schema: TableSchema) -> list[str]:
    """Return what makes stream and task anew: the first run merges all messages that it may not have merged.

    Each statement may be run again, and from the first one on nothing is lost: the stream shows all messages
    that are there, and of those the merge takes what can still be applied.
    """
    return [*plan_stream_anew(zone, schema.table), *plan_task(zone, schema)]


def plan_stream_anew(zone: LandingZone, table: TableId) -> list[str]:
    """Return what lets a stream show all messages, and no task read them until it is made for them."""
    stream = _stream(zone, table, "CREATE OR REPLACE STREAM")
    return [plan_suspension(zone, table), f"{stream} SHOW_INITIAL_ROWS = TRUE"]


def _stream(zone: LandingZone, table: TableId, create: str) -> str:
    return f"{create} {zone.stream(table)} ON TABLE {zone.table(table)} APPEND_ONLY = TRUE"


def plan_end(zone: LandingZone, table: TableId) -> list[str]:
    """Return what ends the merging of a table; the messages that landed stay."""
    graphs = plan_graphs_end(zone, table)
    return [*graphs, f"DROP TASK IF EXISTS {zone.task(table)}", f"DROP STREAM IF EXISTS {zone.stream(table)}"]


def plan_landed_merge(zone: LandingZone, schema: TableSchema) -> str:
    """Return the MERGE of what the stream has: of each key the newest message, and rows that are gone are deleted.

    A column that a changed row lacks has the value it had before: in an older
    message of the stream, else in the public table. The statement fails where
    neither has the row. With a rule, which needs all of the values, it fails where the
    newest message lacks one.
    """
    rule = zone.rule(schema.table)
    if rule:
        rule.require_for(schema)
    key = [quote_name(SNOWFLAKE, name) for name in schema.key]
    names = [quote_name(SNOWFLAKE, column.name) for column in schema.columns]
    typed = {column.name: _typed(schema, column) for column in schema.columns}
    parts = ", ".join(typed[schema.column(name).name] for name in schema.key)
    may_lack = _may_lack(schema, key)
    lacked = {} if rule else may_lack
    kept = [_Kept(typed[column.name], column, flag, parts) for column, flag in lacked.items()]
    values = typed | {each.column.name: each.value for each in kept}
    op = '"message":op::VARCHAR AS "__penstock_op"'
    selected = [op, *(f"{value} AS {name}" for value, name in zip(values.values(), names, strict=True))]
    selected += [each.is_unknown for each in kept]
    if rule and schema.partial_rows:
        unknown = " OR ".join(_is_unknown(column) for column in may_lack) or "FALSE"
        selected.append(f"CASE WHEN {unknown} THEN 1 ELSE 0 END AS {LACKS}")
    newest = f'ROW_NUMBER() OVER (PARTITION BY {parts} ORDER BY "position" DESC, "offset" DESC) = 1'
    is_row = f'"message":op::VARCHAR IN {ROW_OPS}'
    where = f'{is_row} AND ({_MERGED} IS NULL OR "position" > {_MERGED})'
    where += f' AND ({_LANDED} IS NULL OR "offset" >= {_LANDED} OR "position" >= {_CHANGED})'
    messages = f'SELECT "message", "position", "offset", {_marks(is_row)} FROM {zone.stream(schema.table)}'  # noqa: S608 - names are quoted
    source = f"SELECT {', '.join(selected)} FROM ({messages}) AS m WHERE {where} QUALIFY {newest}"  # noqa: S608 - names are quoted
    if rule:
        source = rule.treat(schema, source)
        names += [quote_name(SNOWFLAKE, name) for name in rule.new_columns(schema)]
    flags = {quote_name(SNOWFLAKE, column.name): f"s.{flag}" for column, flag in lacked.items()}
    path = TargetTable("", schema).path(SNOWFLAKE)
    same = " AND ".join(f"t.{name} = s.{name}" for name in key)
    return f"MERGE INTO {path} AS t USING ({source}) AS s ON {same} {' '.join(_merge_clauses(key, names, flags))}"


def plan_passing(zone: LandingZone, table: TableId) -> str:
    """Return what moves the stream behind all that it has, which is merged by nobody then."""
    return f'INSERT INTO {zone.table(table)} ("message") SELECT "message" FROM {zone.stream(table)} WHERE 0 = 1'  # noqa: S608 - names are quoted


def _marks(is_row: str) -> str:
    """Return what says which messages are merged already, as the entries have it."""
    is_change, of_one = "\"message\":op::VARCHAR = 'schema'", 'OVER (PARTITION BY "topic", "partition")'
    return (
        f'MAX(CASE WHEN {is_row} OR "offset" IS NOT NULL THEN NULL ELSE "position" END) OVER () AS {_MERGED}, '
        f'MAX(CASE WHEN {is_change} THEN "offset" END) {of_one} AS {_LANDED}, '
        f'MAX(CASE WHEN {is_change} THEN "position" END) {of_one} AS {_CHANGED}'
    )


def _merge_clauses(key: list[str], names: list[str], flags: Mapping[str, str]) -> Iterator[str]:
    """Yield what is done to a row; `flags` say by quoted names which values are unknown."""
    yield "WHEN MATCHED AND s.\"__penstock_op\" = 'd' THEN DELETE"
    if others := [name for name in names if name not in key]:
        known = {name: f"CASE WHEN {flag} = 1 THEN t.{name} ELSE s.{name} END" for name, flag in flags.items()}
        yield "WHEN MATCHED THEN UPDATE SET " + ", ".join(f"{name} = {known.get(name, f's.{name}')}" for name in others)
    wanted = "s.\"__penstock_op\" <> 'd'"
    if flags:
        # It fails by not being a truth value, which the error names; with the row's op nothing computes it ahead.
        is_whole = " AND ".join(f"{flag} = 0" for flag in flags.values())
        wanted += f" AND ({is_whole} OR CAST('{_ORPHAN}' || s.\"__penstock_op\" AS BOOLEAN))"
    inserted = f"({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
    yield f"WHEN NOT MATCHED AND {wanted} THEN INSERT {inserted}"


@dataclass(frozen=True, slots=True)
class _Kept:
    """A column that messages of changed rows may lack; `flag` is the quoted name that says whether all of a key do."""

    typed: str
    column: Column
    flag: str
    key: str

    @property
    def _unknown(self) -> str:
        """Whether one message lacks it: what a message has is no SQL NULL, not even a null of JSON."""
        return f"CASE WHEN {_is_unknown(self.column)} THEN 1 ELSE 0 END"

    @property
    def value(self) -> str:
        """The newest value that a message of the key has."""
        rows = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
        order = f'{self._unknown}, "position" DESC, "offset" DESC'
        return f"FIRST_VALUE({self.typed}) OVER (PARTITION BY {self.key} ORDER BY {order} {rows})"

    @property
    def is_unknown(self) -> str:
        """1 where every message of the key lacks it."""
        return f"MIN({self._unknown}) OVER (PARTITION BY {self.key}) AS {self.flag}"


def _is_unknown(column: Column) -> str:
    return f"\"message\":op::VARCHAR = 'u' AND {_path(column.name)} IS NULL"


def _may_lack(schema: TableSchema, key: list[str]) -> dict[Column, str]:
    """Return the columns that messages may lack, with quoted names for flags that say so."""
    if not schema.partial_rows:
        return {}
    numbered = enumerate(schema.columns)
    return {
        column: f'"__penstock_lacks_{number}"'
        for number, column in numbered
        if quote_name(SNOWFLAKE, column.name) not in key
    }


def plan_landing(zone: LandingZone, table: TableId, copied: str = "") -> str:
    """Return the INSERT of messages: its one parameter is a JSON array of objects with all columns but the time.

    Or it has no parameter, and reads the objects in the column `row` of the (quoted) table `copied`.
    """
    values, begin = _landed(copied)
    return f"INSERT INTO {zone.table(table)} ({_NAMES}) SELECT {', '.join(values.values())} {begin}"


def plan_landings(zone: LandingZone, tables: Sequence[TableId], copied: str = "") -> str:
    """Return the INSERT of messages of several tables, as `plan_landing` reads them.

    An object also has, as `table`, the place of its table in `tables`.
    """
    values, begin = _landed(copied)
    into = " ".join(
        f'WHEN "table" = {number} THEN INTO {zone.table(table)} ({_NAMES}) VALUES ({_NAMES})'
        for number, table in enumerate(tables)
    )
    selected = [f"{value} AS {quote_name(SNOWFLAKE, name)}" for name, value in values.items()]
    number = f'{_object(copied)}:"table"::NUMBER(38, 0) AS "table"'
    return f"INSERT ALL {into} SELECT {', '.join([number, *selected])} {begin}"


def _landed(copied: str) -> tuple[Mapping[str, str], str]:
    """Return the values of a landing table's columns, and where they are read from."""
    cast = {"message": "", "topic": "::VARCHAR", "position": "::VARCHAR"}
    given = {name: f"{_object(copied)}:{name}{cast.get(name, '::NUMBER(38, 0)')}" for name in COLUMNS}
    return given | {"loaded_at": "SYSDATE()"}, f"FROM {copied or 'TABLE(FLATTEN(INPUT => PARSE_JSON(?)))'} AS f"


def _object(copied: str) -> str:
    return 'f."row"' if copied else "f.value"


def require_mergeable(schema: TableSchema) -> None:
    """Raise TableStoppedError for a table whose rows cannot be told by a key."""
    if not schema.key:
        reason = "a landing zone merges rows by their key, and this table has none"
        hint = f"give it a primary key, then {FULL_REFRESH}; or leave it out of the link's `tables`"
        raise stopped(schema, "", reason, hint)


def render_position(order: tuple[int, int, int]) -> str:
    """Return a place in the source's log so that texts sort as places do."""
    file, offset, row = order
    return f"{file:020d}/{offset:020d}/{row:010d}"


def json_value(row: str, name: str) -> str:
    """Return the value called `name` of a JSON object, as VARIANT; SQL NULL where the object has none."""
    if re.search(r"[\"'\\]", name):
        # A path has no way to write these.
        return f"GET({row}, {quote_text(name, SNOWFLAKE)})"
    return f'{row}{"." if ":" in row else ":"}"{name}"'


def typed_value(value: str, type_: ColumnType, name: str) -> str:
    """Return a `value` of JSON, which is a text, as one of `type_`, which Snowflake calls `name`."""
    text = f"{value}::VARCHAR"
    if isinstance(type_, _TEXTS):
        return text
    if isinstance(type_, (BytesType, GeometryType)):
        return f"TO_BINARY({text}, 'HEX')"
    if isinstance(type_, VectorType):
        return f"CAST(PARSE_JSON({text}) AS {name})"
    return f"CAST({text} AS {name})"


def _path(name: str) -> str:
    return json_value('"message":row', name)


def _typed(schema: TableSchema, column: Column) -> str:
    """Return the value of a column in a message, as the public table has it."""
    return typed_value(_path(column.name), column.type, column_type(SNOWFLAKE, schema, column))
