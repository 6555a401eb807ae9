"""Querying a PostgreSQL target."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pyarrow as pa
from psycopg import errors

from penstock.adapters.postgres.connection import PostgresServer, connect, explain
from penstock.core.arrow_columns import any_column
from penstock.core.errors import SinkError, UsageError
from penstock.ports.queries import QueryResult, ReadLimits

_MISTAKES = (psycopg.DataError, psycopg.NotSupportedError, psycopg.ProgrammingError)


def query(server: PostgresServer, statement: str, limits: ReadLimits) -> QueryResult:
    """Run one reading statement on one committed state of the database.

    Raises UsageError for a statement that does not read or has a mistake,
    SinkError for one that takes too long, and what `connect` raises.
    """
    if not statement.strip():
        message = "there is no statement"
        raise UsageError(message, "give one SELECT or EXPLAIN")
    with closing(connect(server)) as connection:
        try:
            # The server sees to it that nothing is written, and that there is one statement.
            connection.execute("SET default_transaction_read_only = on")
            connection.execute(f"SET statement_timeout = {int(limits.seconds_max * 1000)}")
            with connection.transaction():
                return _fetch(connection, statement, limits)
        except errors.ReadOnlySqlTransaction as error:
            message = f"the statement would write: {error}"
            raise UsageError(message, "give one SELECT or EXPLAIN; the pipeline alone writes to its targets") from error
        except errors.QueryCanceled as error:
            message = f"the query was ended after {limits.seconds_max:g} seconds"
            raise SinkError(message, "ask for less at once") from error
        except _MISTAKES as error:
            raise UsageError(str(error).strip(), "correct the statement; it must be one that reads") from error
        except psycopg.Error as error:
            raise explain(server, error) from error


def _fetch(connection: psycopg.Connection, statement: str, limits: ReadLimits) -> QueryResult:
    rows: list[tuple[object, ...]] = []
    truncated = False
    with connection.cursor() as cursor:
        # psycopg would take a per cent sign for a parameter's.
        for row in cursor.stream(statement.encode().replace(b"%", b"%%"), ()):
            truncated = len(rows) == limits.rows_max
            if truncated:
                connection.cancel_safe()
                break
            rows.append(row)
        names = [column.name for column in cursor.description or ()]
    columns = [any_column([row[index] for row in rows]) for index in range(len(names))]
    return QueryResult(pa.Table.from_arrays(columns, names), truncated)
