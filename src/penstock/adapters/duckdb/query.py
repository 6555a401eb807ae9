"""Querying a DuckDB target, whether or not a pipeline has it open."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.adapters.duckdb.attached import attached
from penstock.adapters.duckdb.query_wire import ServerAddress, read_run_file, receive, send
from penstock.adapters.duckdb.reading import run_query
from penstock.core.errors import PenstockError, SinkError, UnavailableError, UsageError
from penstock.ports.queries import QueryResult, ReadLimits

if TYPE_CHECKING:
    from pathlib import Path

_CONNECT_SECONDS = 5.0
_GRACE_SECONDS = 15.0
_WAIT_SECONDS = 5.0
_POLL_SECONDS = 0.2
_DEFAULTS = ReadLimits()
_ERRORS: dict[str, type[PenstockError]] = {error.__name__: error for error in (UsageError, UnavailableError, SinkError)}


def query(path: Path, run_file: Path, statement: str, limits: ReadLimits = _DEFAULTS) -> QueryResult:
    """Run a reading statement on the DuckDB file at `path`.

    The process that writes the file answers, if `run_file` names one that lives;
    otherwise the file is opened for reading. A process that has the file open and
    does not answer (yet) is waited for, some seconds. Raises UsageError for a
    statement that does not read, and where there is no file; UnavailableError and
    SinkError as `run_query` and `open_database` do.
    """
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        address = read_run_file(run_file)
        answer = _ask(address, statement, limits) if address else None
        if answer is not None:
            return answer
        try:
            return _read_file(path, statement, limits)
        except UnavailableError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_POLL_SECONDS)


def _ask(address: ServerAddress, statement: str, limits: ReadLimits) -> QueryResult | None:
    """Let the writing process run the statement; None if nothing listens there."""
    try:
        connection = socket.create_connection(("127.0.0.1", address.port), timeout=_CONNECT_SECONDS)
    except OSError:
        return None
    bounds = {"rows_max": limits.rows_max, "seconds_max": limits.seconds_max}
    request = {"token": address.token, "statement": statement, **bounds}
    with connection:
        connection.settimeout(limits.seconds_max + _GRACE_SECONDS)
        try:
            send(connection, request)
            header, body = receive(connection)
        except (OSError, ValueError, TypeError) as error:
            message = f"process {address.pid} has the warehouse open and did not answer: {error}"
            raise UnavailableError(message, "try again") from error
    if "error" in header:
        kind = _ERRORS.get(str(header["error"]), SinkError)
        raise kind(str(header["message"]), str(header["hint"]))
    with pa.ipc.open_stream(body) as reader:
        return QueryResult(reader.read_all(), truncated=bool(header["truncated"]))


def _read_file(path: Path, statement: str, limits: ReadLimits) -> QueryResult:
    if not path.exists():
        message = f"there is no warehouse at {path} yet"
        raise UsageError(message, "start the pipeline (penstock run FILE), or wait until it has loaded its first rows")
    with attached(path) as connection:
        return run_query(connection, statement, limits)
