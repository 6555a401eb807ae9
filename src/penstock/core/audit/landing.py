"""A landing table as an audit reads it: its messages folded by key, and what in it no load of ours can have written.

The fold is a statement of its own, and no part of what tasks merge: a mistake there
shows in the public table, and not in the stage before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.commands import shell_word
from penstock.core.warehouse.columns import column_type
from penstock.core.warehouse.dialect import quote_name, quote_text
from penstock.core.warehouse.dialects import SNOWFLAKE
from penstock.core.warehouse.landing import ROW_OPS, json_value, typed_value
from penstock.core.warehouse.landing_rules import read_columns
from penstock.core.warehouse.landing_state import foreign_messages

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.core.tables import Column, TableId, TableSchema
    from penstock.core.warehouse.landing import LandingZone

LACKED: Final = "it came later than some rows, and no message says what they have in it"
"""Why a column is not compared."""
FOREIGN_MAX: Final = 20
"""So many messages that are not ours are named of a table."""
_OP: Final = '"message":op::VARCHAR'
_NEWEST_FIRST: Final = '"position" DESC, "offset" DESC'


def folded_rows(zone: LandingZone, schema: TableSchema) -> str:
    """Return what stands behind FROM for the rows that the messages of a table amount to."""
    names = ", ".join(quote_name(SNOWFLAKE, column.name) for column in schema.columns)
    return f"(SELECT {names} FROM ({_newest(zone, schema)}) AS n) AS f"  # noqa: S608 - names are quoted


def untreated_rows(zone: LandingZone, schema: TableSchema, rows: str) -> str:
    """Return what stands behind FROM for a public table's `rows`, and those that its rule's filter keeps out of it.

    One that should have been kept out and was not is there twice.
    """
    rule = zone.rule(schema.table)
    if rule is None or not rule.where:
        return rows
    names = ", ".join(quote_name(SNOWFLAKE, column.name) for column in schema.columns)
    kept_out = f"SELECT {names} FROM {folded_rows(zone, schema)} WHERE NOT COALESCE(({rule.where}\n), FALSE)"  # noqa: S608 - names are quoted
    return f"(SELECT {names} FROM {rows} UNION ALL {kept_out}) AS u"  # noqa: S608 - as above


def why_unknown(zone: LandingZone, schema: TableSchema, lacked: Collection[str]) -> str:
    """Say why nobody knows which rows a table's rule keeps out, "" where that is known.

    `lacked` are the columns that messages of some rows lack: see `lacking_query`.
    """
    rule = zone.rule(schema.table)
    if rule is None:
        return ""
    if unknown := sorted(read_columns(rule.where).intersection(lacked)):
        return f"the sink's rule keeps rows out by {unknown[0]}: {LACKED}; a full refresh of the table mends that"
    return ""


def lacking_query(zone: LandingZone, schema: TableSchema) -> str:
    """Return the query for how many living rows lack a value of each column, in their order.

    No message says what such a value is: the column came later, with a default.
    """
    counts = ", ".join(f"SUM({_flag(number)})" for number in range(len(schema.columns)))
    return f"SELECT {counts} FROM ({_newest(zone, schema)}) AS n"  # noqa: S608 - names are quoted


def foreign_query(zone: LandingZone, table: TableId, whose: tuple[str, str]) -> str:
    """Return the query for messages that we cannot have loaded: where they say they stand, and when they came."""
    pipeline, source = (quote_text(name, SNOWFLAKE) for name in whose)
    listed = "t, p, o, CAST(l AS VARCHAR)"
    return (
        f"SELECT {listed} FROM {foreign_messages(zone, table, pipeline, source)} "  # noqa: S608 - names are quoted
        f"ORDER BY 4, 3 LIMIT {FOREIGN_MAX + 1}"
    )


def describe_foreign(landing: str, table: TableId, found: Sequence[Sequence[object]]) -> str:
    """Say which messages somebody else wrote to `landing`, where a `table` of the source lands; "" for none."""
    if not found:
        return ""
    named = [
        f"{topic}/{partition} offset {offset}, loaded at {at}" if offset is not None else f"of no topic, loaded at {at}"
        for topic, partition, offset, at in found[:FOREIGN_MAX]
    ]
    more = ", and more" if len(found) > FOREIGN_MAX else ""
    hint = f"delete them there, then type: penstock snapshot FILE {shell_word(table)} --full-refresh"
    return f"somebody wrote to {landing}: {'; '.join(named)}{more}; {hint}"


def last_position_query(zone: LandingZone, table: TableId) -> str:
    """Return the query for how far the messages are that have landed."""
    return f'SELECT MAX("position") FROM {zone.table(table)}'  # noqa: S608 - names are quoted


def unmerged_query(zone: LandingZone, table: TableId, position: str) -> str:
    """Return the query whose rows say that messages up to `position` are not merged. Reading alone moves no stream."""
    until = f'"position" <= {quote_text(position, SNOWFLAKE)}'
    return f"SELECT 1 FROM {zone.stream(table)} WHERE {until} LIMIT 1"  # noqa: S608 - names are quoted


def _newest(zone: LandingZone, schema: TableSchema) -> str:
    """Return the query for the newest message of each row that is there: its typed values, and a flag for each.

    A flag is 1 where no message has the value. A changed row of a table with partial
    rows may lack some; those are in an older message of its key.
    """
    typed = {column.name: _typed(schema, column) for column in schema.columns}
    key = ", ".join(typed[schema.column(name).name] for name in schema.key)
    selected = [f'{_OP} AS "__penstock_op"']
    for number, column in enumerate(schema.columns):
        path = json_value('"message":row', column.name)
        lacks = f"CASE WHEN {path} IS NULL THEN 1 ELSE 0 END"
        value, flag = typed[column.name], lacks
        if schema.partial_rows and column.name not in schema.key:
            all_of_key = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
            value = f"FIRST_VALUE({value}) OVER (PARTITION BY {key} ORDER BY {lacks}, {_NEWEST_FIRST} {all_of_key})"
            flag = f"MIN({lacks}) OVER (PARTITION BY {key})"
        selected += [f"{value} AS {quote_name(SNOWFLAKE, column.name)}", f"{flag} AS {_flag(number)}"]
    emptied = f"MAX(CASE WHEN {_OP} IN ('create', 'truncate', 'drop') THEN \"position\" ELSE NULL END) OVER ()"
    messages = (
        f'SELECT "message", "position", "offset", {emptied} AS "__penstock_emptied" FROM {zone.table(schema.table)}'  # noqa: S608 - names are quoted
    )
    counts = f'{_OP} IN {ROW_OPS} AND ("__penstock_emptied" IS NULL OR "position" > "__penstock_emptied")'
    newest = f"ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY {_NEWEST_FIRST}) = 1"
    each = f"SELECT {', '.join(selected)} FROM ({messages}) AS m WHERE {counts} QUALIFY {newest}"  # noqa: S608 - names are quoted
    return f"SELECT * FROM ({each}) AS e WHERE \"__penstock_op\" <> 'd'"  # noqa: S608 - names are quoted


def _flag(number: int) -> str:
    return f'"__penstock_lacks_{number}"'


def _typed(schema: TableSchema, column: Column) -> str:
    value = json_value('"message":row', column.name)
    return typed_value(value, column.type, column_type(SNOWFLAKE, schema, column))
