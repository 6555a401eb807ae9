"""What SHOW STREAMS, SHOW TASKS and TASK_HISTORY answer.

Source: Snowflake SQL reference, "SHOW STREAMS", "SHOW TASKS", "TASK_HISTORY".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from penstock.dev.snowflake import streams

if TYPE_CHECKING:
    from penstock.dev.snowflake.streams import Duck, Name
    from penstock.dev.snowflake.tasks import Tasks

PRIVILEGE_COLUMNS: Final = ("GRANTEE", "TABLE_SCHEMA", "TABLE_NAME", "PRIVILEGE_TYPE")
HISTORY_COLUMNS: Final = (
    "NAME",
    "DATABASE_NAME",
    "SCHEMA_NAME",
    "STATE",
    "ERROR_MESSAGE",
    "QUERY_START_TIME",
    "COMPLETED_TIME",
    "SCHEDULED_FROM",
)
_RUNS_BY_DEFAULT: Final = 100


def stream_rows(duck: Duck, where: Name) -> list[dict[str, Any]]:
    """Return the streams of a schema."""
    streams.prepare(duck, where.database)
    columns = "created_on, name, base, is_stale, copy"
    query = f'SELECT {columns} FROM "{where.database}"._penstock.streams WHERE schema_name = ?'  # noqa: S608
    rows = duck.execute(query, [where.schema]).fetchall()
    place = {"database_name": where.database, "schema_name": where.schema}
    return [
        {
            "created_on": str(made),
            "name": name,
            **place,
            "table_name": base.replace('"', ""),
            "type": "DELTA",
            "mode": "DEFAULT" if copy else "APPEND_ONLY",
            "stale": str(is_stale).lower(),
        }
        for made, name, base, is_stale, copy in rows
    ]


def task_rows(tasks: Tasks, where: Name) -> list[dict[str, Any]]:
    """Return the tasks of a schema."""
    return [
        {
            "created_on": str(task.created_on),
            "name": task.name.name,
            "database_name": task.name.database,
            "schema_name": task.name.schema,
            "warehouse": task.made.warehouse,
            "schedule": task.made.schedule,
            "state": task.state,
            "definition": task.made.definition,
            "condition": task.made.when,
            "predecessors": json.dumps([str(each) for each in task.after]),
        }
        for task in sorted(tasks.all(), key=lambda task: task.name.name)
        if (task.name.database, task.name.schema) == (where.database, where.schema)
    ]


def history_rows(tasks: Tasks, name: str | None, limit: str | None) -> list[dict[str, Any]]:
    """Return the runs of the task `name`, or of all, the newest first."""
    runs = [
        {
            "NAME": run.name.name,
            "DATABASE_NAME": run.name.database,
            "SCHEMA_NAME": run.name.schema,
            "STATE": run.state,
            "ERROR_MESSAGE": run.error,
            "QUERY_START_TIME": str(run.began),
            "COMPLETED_TIME": str(run.ended),
            "SCHEDULED_FROM": "SCHEDULE" if run.by_schedule else "EXECUTE TASK",
        }
        for run in tasks.runs()
        if name is None or run.name.name == name
    ]
    return runs[: int(limit or _RUNS_BY_DEFAULT)]
