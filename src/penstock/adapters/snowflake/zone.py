"""Asking Snowflake what streams and tasks a landing zone has, and how the last runs of tasks ended."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from penstock.core.tables import TableId
from penstock.core.warehouse.dialect import quote_name
from penstock.core.warehouse.dialects import SNOWFLAKE
from penstock.core.warehouse.landing_rules import ColumnFound
from penstock.core.warehouse.landing_state import StreamFound, TaskFound, Writer, ZoneFound

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from penstock.adapters.snowflake.connection import SnowflakeDatabase

_RUNS_MAX: Final = 10_000
"""The most that TASK_HISTORY answers; it has a week, and the newest come first."""


def read_zone(database: SnowflakeDatabase, schema: str, made: Collection[TableId] = ()) -> ZoneFound:
    """Read the objects of the schema, and the columns of the tables `made`. Raises what a connection raises."""
    errors = _last_errors(database, schema)
    where = f"IN SCHEMA {quote_name(SNOWFLAKE, schema)}"
    tasks = {
        row["name"]: TaskFound(
            is_started=row["state"].casefold() == "started",
            schedule=_text(row["schedule"]),
            virtual_warehouse=row["warehouse"],
            definition=row["definition"],
            error=errors.get(row["name"], ""),
            condition=_text(row["condition"]),
            predecessors=tuple(_last_part(name) for name in json.loads(_text(row["predecessors"]) or "[]")),
        )
        for row in _rows(database, f"SHOW TASKS {where}")
    }
    streams = {
        row["name"]: StreamFound(row["stale"].casefold() == "true", _text(row["table_name"]).replace('"', ""))
        for row in _rows(database, f"SHOW STREAMS {where}")
    }
    return ZoneFound(tasks, streams, _writers(database, schema), _columns(database, made))


def _columns(database: SnowflakeDatabase, tables: Collection[TableId]) -> Mapping[TableId, Mapping[str, ColumnFound]]:
    schemas = sorted({table.schema for table in tables})
    query = (
        "SELECT table_schema, table_name, column_name, data_type, numeric_precision, numeric_scale, "  # noqa: S608 - marks
        "character_maximum_length FROM information_schema.columns "
        f"WHERE table_schema IN ({', '.join('?' for _ in schemas)})"
    )
    found: dict[TableId, dict[str, ColumnFound]] = {table: {} for table in tables}
    for of, table, name, type_, *numbers in database.fetch(query, schemas) if schemas else ():
        precision, scale, length = map(_number, numbers)
        found.get(TableId(str(of), str(table)), {})[str(name)] = ColumnFound(str(type_), precision, scale, length)
    return found


def _writers(database: SnowflakeDatabase, schema: str) -> list[Writer]:
    statement = (
        "SELECT table_name, privilege_type, grantee FROM information_schema.table_privileges "
        "WHERE table_schema = ? AND grantee <> CURRENT_ROLE() "
        "AND privilege_type IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE') ORDER BY 1, 2, 3"
    )
    return [Writer(str(table), str(what), str(role)) for table, what, role in database.fetch(statement, [schema])]


def _last_errors(database: SnowflakeDatabase, schema: str) -> Mapping[str, str]:
    """Return the errors of tasks whose last run failed, of those that ended."""
    statement = (
        f"SELECT NAME, STATE, ERROR_MESSAGE FROM TABLE(INFORMATION_SCHEMA.TASK_HISTORY(RESULT_LIMIT => {_RUNS_MAX})) "  # noqa: S608 - a number
        "WHERE SCHEMA_NAME = ? AND (STATE = 'SUCCEEDED' OR STATE LIKE 'FAILED%') "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY NAME ORDER BY COMPLETED_TIME DESC) = 1"
    )
    return {
        str(name): " ".join(str(error or "no reason is known").split())
        for name, state, error in database.fetch(statement, [schema])
        if state != "SUCCEEDED"
    }


def _number(value: object) -> int | None:
    return None if value is None else int(str(value))


def _text(value: str) -> str:
    """A column of SHOW as a text: a NULL is none."""
    return "" if value in {"None", "null"} else value


def _last_part(name: str) -> str:
    """The last part of a full name, which may be quoted, as it is."""
    quoted = re.search(r'"((?:[^"]|"")+)"$', name)
    return quoted[1].replace('""', '"') if quoted else name.rpartition(".")[2]


def _rows(database: SnowflakeDatabase, statement: str) -> Iterator[Mapping[str, str]]:
    cursor = database.execute(statement)
    names = [str(column[0]).lower() for column in cursor.description]
    for row in cursor.fetchall():
        yield {name: str(value) for name, value in zip(names, row, strict=True)}
