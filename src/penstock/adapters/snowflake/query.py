"""Querying a Snowflake target."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.adapters.snowflake.connection import SnowflakeDatabase
from penstock.core.arrow_columns import any_column
from penstock.core.errors import RefusedStatementError, UsageError
from penstock.ports.queries import QueryResult

if TYPE_CHECKING:
    from penstock.adapters.snowflake.account import SnowflakeAccount
    from penstock.ports.queries import ReadLimits

_READS: Final = re.compile(r"\s*(SELECT|SHOW|DESCRIBE|DESC|EXPLAIN)\b", re.IGNORECASE)


def query(account: SnowflakeAccount, statement: str, limits: ReadLimits) -> QueryResult:
    """Run one reading statement; Snowflake itself takes one at a time.

    Raises UsageError for one that does not read or has a mistake, and what a connection raises.
    """
    if not _READS.match(statement):
        message = "the statement may write: it does not begin with SELECT, SHOW, DESCRIBE or EXPLAIN"
        raise UsageError(message, "give one of these; the pipeline alone writes to its targets")
    with closing(SnowflakeDatabase(account)) as database:
        database.run(f"ALTER SESSION SET STATEMENT_TIMEOUT_IN_SECONDS = {int(limits.seconds_max)}")
        try:
            cursor = database.execute(statement)
        except RefusedStatementError as error:
            raise UsageError(error.message, "correct the statement") from error
        names = [str(column[0]) for column in cursor.description]
        rows = cursor.fetchmany(limits.rows_max + 1)
    truncated = len(rows) > limits.rows_max
    columns = [any_column([row[index] for row in rows[: limits.rows_max]]) for index in range(len(names))]
    return QueryResult(pa.Table.from_arrays(columns, names), truncated)
