"""Answering queries in the process that has the DuckDB file open, because no other can open it."""

from __future__ import annotations

import hmac
import os
import secrets
import select
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.adapters.duckdb.database import enter
from penstock.adapters.duckdb.query_wire import ServerAddress, read_run_file, receive, send, write_run_file
from penstock.adapters.duckdb.reading import run_query
from penstock.core.errors import PenstockError, SinkError, UnavailableError, UsageError
from penstock.ports.queries import ReadLimits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import duckdb

_AT_ONCE_MAX = 4
_WAIT_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
_LOOK_SECONDS = 0.2
_DEFAULTS = ReadLimits()
_SECONDS_MAX = 3600.0
"""So long a query of an audit may take; who asks says so, and others have less."""


class QueryServer:
    """Answers on a loopback port, from threads of this process, to who knows the token in the run file.

    Each query has its own cursor and sees one committed state; writes go on
    meanwhile. At most four run at once, within the rows and bytes of `ReadLimits`.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, run_file: Path, seconds_max: float = _SECONDS_MAX
    ) -> None:
        """Start to answer. `connection` must stay open until `close()`; no query takes more than `seconds_max`."""
        self._database = connection.cursor()
        self._places = threading.BoundedSemaphore(_AT_ONCE_MAX)
        self._closing = False
        self._seconds_max = seconds_max
        self._run_file = run_file
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._wakes, self._wake = socket.socketpair()
        self._address = ServerAddress(self._listener.getsockname()[1], secrets.token_urlsafe(32), os.getpid())
        try:
            write_run_file(run_file, self._address)
        except BaseException:
            self._close_sockets()
            self._database.close()
            raise
        self._thread = threading.Thread(target=self._listen, name="penstock-queries", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering: end the queries under way and remove the run file."""
        self._closing = True
        if read_run_file(self._run_file) == self._address:
            # Another sink on the same file, for another source, may have taken its place.
            self._run_file.unlink(missing_ok=True)
        self._wake.send(b"\0")
        self._thread.join(_CLOSE_SECONDS)
        self._close_sockets()
        # Who watches over a query ends it now.
        taken = [self._places.acquire(timeout=_CLOSE_SECONDS) for _ in range(_AT_ONCE_MAX)]
        self._database.close()
        # Who waits for a place hears that it is over.
        for _ in filter(None, taken):
            self._places.release()

    def _close_sockets(self) -> None:
        for each in (self._listener, self._wakes, self._wake):
            each.close()

    def _listen(self) -> None:
        poll = select.poll()
        for each in (self._listener, self._wakes):
            poll.register(each, select.POLLIN)
        # At the end, whoever has connected already is still let in, to hear that it is over.
        while self._listener.fileno() in dict(poll.poll()):
            connection, _ = self._listener.accept()
            threading.Thread(target=self._answer, args=(connection,), name="penstock-query", daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(_WAIT_SECONDS)
        with connection:
            try:
                request, _ = receive(connection)
                header, body = self._respond(request, connection)
                send(connection, header, body)
            except (OSError, ValueError, TypeError):
                # The asker is gone or does not speak our language: there is nobody to tell.
                return

    def _respond(self, request: dict[str, object], asker: socket.socket) -> tuple[dict[str, object], bytes]:
        try:
            return self._run(request, asker)
        except PenstockError as error:
            return {"error": type(error).__name__, "message": error.message, "hint": error.hint}, b""

    def _run(self, request: dict[str, object], asker: socket.socket) -> tuple[dict[str, object], bytes]:
        if not hmac.compare_digest(str(request.get("token")).encode(), self._address.token.encode()):
            message = "the query was not let in: its token is wrong"
            raise UsageError(message, "use `penstock sql`, as the user who runs the pipeline")
        if not self._places.acquire(timeout=_WAIT_SECONDS):
            message = f"{_AT_ONCE_MAX} queries are running already"
            raise UnavailableError(message, "try again when they are done")
        try:
            return self._read(str(request.get("statement")), _limits(request, self._seconds_max), asker)
        finally:
            self._places.release()

    def _read(self, statement: str, limits: ReadLimits, asker: socket.socket) -> tuple[dict[str, object], bytes]:
        if self._closing:
            raise _ending()
        cursor = self._database.cursor()
        try:
            enter(cursor)
            with self._watched(cursor, asker):
                result = run_query(cursor, statement, limits)
        except SinkError as error:
            if self._closing:
                raise _ending() from error
            raise
        finally:
            cursor.close()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, result.rows.schema) as writer:
            writer.write_table(result.rows)
        return {"truncated": result.truncated}, sink.getvalue().to_pybytes()

    @contextmanager
    def _watched(self, cursor: duckdb.DuckDBPyConnection, asker: socket.socket) -> Iterator[None]:
        """End the query in the block when nobody waits for it, or the file is wanted."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(_LOOK_SECONDS):
                if self._closing or _is_gone(asker):
                    # Again and again: an interrupt before the statement has begun is lost.
                    cursor.interrupt()

        watcher = threading.Thread(target=watch, name="penstock-query-watch", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def _is_gone(asker: socket.socket) -> bool:
    """Whether the other side has closed its end; it sends nothing more while it waits."""
    poll = select.poll()
    poll.register(asker, select.POLLIN)
    try:
        return bool(poll.poll(0)) and not asker.recv(1, socket.MSG_PEEK)
    except OSError:
        return True


def _ending() -> UnavailableError:
    return UnavailableError("the pipeline is ending", "try again: the file can then be read without it")


def _limits(request: dict[str, object], seconds_max: float) -> ReadLimits:
    """Take the asker's limits as far as ours allow."""
    rows, seconds = request.get("rows_max"), request.get("seconds_max")
    return ReadLimits(
        rows_max=min(rows, _DEFAULTS.rows_max) if isinstance(rows, int) else _DEFAULTS.rows_max,
        seconds_max=min(seconds if isinstance(seconds, int | float) else _DEFAULTS.seconds_max, seconds_max),
    )
