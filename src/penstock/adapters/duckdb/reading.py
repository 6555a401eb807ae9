"""Running one reading statement, within bounds of rows, bytes and time."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from penstock.core.errors import SinkError, UsageError
from penstock.ports.queries import QueryResult, ReadLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

_READING = frozenset({duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN})
_ONE_READ = "give one SELECT, DESCRIBE, SHOW or EXPLAIN; the pipeline alone writes to its targets"
_BATCH_ROWS = 1024


def run_query(connection: duckdb.DuckDBPyConnection, statement: str, limits: ReadLimits) -> QueryResult:
    """Run one statement over one committed state of the file, and change nothing.

    Raises UsageError for a statement that does not read or that DuckDB does not
    understand, and SinkError for one that fails or takes too long.
    """
    try:
        _check_reads(connection, statement)
        with _read_transaction(connection), _time_limit(connection, limits.seconds_max):
            return _fetch(connection.sql(statement), limits)
    except duckdb.InterruptException as error:
        raise _too_long(limits) from error
    except duckdb.TransactionException as error:
        message = f"the statement would write: {error}"
        raise UsageError(message, _ONE_READ) from error
    except duckdb.ProgrammingError as error:
        raise UsageError(str(error), "correct the statement") from error
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        if "INTERRUPT" in str(error).upper():
            raise _too_long(limits) from error
        message = f"the query failed: {error}"
        raise SinkError(message, "correct the statement, or ask for less at once") from error


def _check_reads(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    found = connection.extract_statements(statement)
    if len(found) != 1:
        message = f"there are {len(found)} statements"
        raise UsageError(message, _ONE_READ)
    if found[0].type not in _READING:
        message = f"{found[0].type.name} does not only read"
        raise UsageError(message, _ONE_READ)


@contextmanager
def _read_transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Hold one snapshot. It also stops what the statement's type does not show, such as a CTE that deletes."""
    connection.execute("BEGIN TRANSACTION READ ONLY")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


@contextmanager
def _time_limit(connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _fetch(relation: duckdb.DuckDBPyRelation | None, limits: ReadLimits) -> QueryResult:
    if relation is None:
        return QueryResult(pa.table({}), truncated=False)
    batches: list[pa.RecordBatch] = []
    rows_left, bytes_left = limits.rows_max, limits.bytes_max
    truncated = False
    reader = relation.to_arrow_reader(_BATCH_ROWS)
    while not truncated and (batch := next(reader, None)) is not None:
        fitting = _fit(batch, rows_left, bytes_left)
        truncated = fitting.num_rows < batch.num_rows
        batches.append(fitting)
        rows_left -= fitting.num_rows
        bytes_left -= fitting.nbytes
    return QueryResult(pa.Table.from_batches(batches, reader.schema), truncated)


def _fit(batch: pa.RecordBatch, rows_max: int, bytes_max: int) -> pa.RecordBatch:
    """Return the first rows of `batch`, at most `rows_max`, and so few that they take at most `bytes_max`."""
    fitting = batch.slice(0, rows_max)
    while fitting.nbytes > bytes_max:
        fitting = fitting.slice(0, fitting.num_rows // 2)
    return fitting


def _too_long(limits: ReadLimits) -> SinkError:
    return SinkError(f"the query was ended after {limits.seconds_max:g} seconds", "ask for less at once")
