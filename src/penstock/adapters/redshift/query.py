"""Querying a Redshift target."""

from __future__ import annotations

import pyarrow as pa

from penstock.adapters.redshift.connection import DRIVER_ERRORS, RedshiftCluster, close, connect, execute, explain, told
from penstock.core.arrow_columns import any_column
from penstock.core.errors import SinkError, UsageError
from penstock.ports.queries import QueryResult, ReadLimits

_READ_ONLY = "25006"
_CANCELLED = "57014"
_MISTAKES = ("22", "42", "0A", "3F")


def query(cluster: RedshiftCluster, statement: str, limits: ReadLimits) -> QueryResult:
    """Run one reading statement on one committed state of the database.

    Raises UsageError for a statement that does not read or has a mistake,
    SinkError for one that takes too long, and what `connect` raises.
    """
    if not statement.strip():
        message = "there is no statement"
        raise UsageError(message, "give one SELECT or EXPLAIN")
    connection = connect(cluster)
    try:
        execute(connection, f"SET statement_timeout TO {int(limits.seconds_max * 1000)}")
        # The server sees to it that nothing is written; the protocol takes one statement only.
        execute(connection, "BEGIN READ ONLY")
        cursor = execute(connection, statement)
        rows = cursor.fetchmany(limits.rows_max + 1) if cursor.description else []
        names = [_text(column[0]) for column in cursor.description or ()]
    except DRIVER_ERRORS as error:
        said = told(error)
        code, cause = said.get("C", ""), said.get("M", str(error))
        if code == _READ_ONLY:
            message = f"the statement would write: {cause}"
            raise UsageError(message, "give one SELECT or EXPLAIN; the pipeline alone writes to its targets") from error
        if code == _CANCELLED:
            message = f"the query was ended after {limits.seconds_max:g} seconds"
            raise SinkError(message, "ask for less at once") from error
        if code.startswith(_MISTAKES):
            raise UsageError(cause, "correct the statement; it must be one that reads") from error
        raise explain(cluster, error) from error
    finally:
        close(connection)
    shown = rows[: limits.rows_max]
    columns = [any_column([row[index] for row in shown]) for index in range(len(names))]
    return QueryResult(pa.Table.from_arrays(columns, names), len(rows) > limits.rows_max)


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name
