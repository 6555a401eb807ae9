"""Opening a DuckDB file, and saying in our words what DuckDB refuses.

The file is attached to an in-memory database under a name of ours: opened by
itself it would be called like the file, and with a source's schema of the same
name `shop.orders` would mean two things.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from penstock.core.errors import RefusedStatementError, SinkError, UnavailableError
from penstock.core.warehouse.dialect import quote_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CATALOG = "__penstock"
"""What the file is called inside of our connections."""

_LOCKED = re.compile(r"Could not set lock.*?(?:\(PID (\d+)\))?\. See", re.DOTALL)
_DISK_IS_FULL = re.compile(r"No space left|disk (?:quota|full|is full)|out of disk|errno (?:28|122)\b", re.IGNORECASE)
# All others are about what a statement does, and so about its tables.
_OF_THE_FILE = (duckdb.FatalException, duckdb.InternalError, duckdb.InterruptException, duckdb.OperationalError)
_OF_THE_FILE_WORDS = re.compile("Failed to commit|has been invalidated")
_INVALID = "has been invalidated"
_NO_BLOCK = re.compile("could not allocate block|failed to pin block")
_CONSTRAINT = re.compile("constraint", re.IGNORECASE)
_LOCK_POLL_SECONDS = 0.1
_write_locks: dict[Path, threading.Lock] = {}
_locks_guard = threading.Lock()


@dataclass(frozen=True, slots=True)
class DuckdbLimits:
    """What DuckDB may use, beside what is in memory as Arrow.

    `lock_wait_seconds` is how long to wait for another process, such as a query,
    to let go of the file.
    """

    memory_mb: int = 512
    threads: int = 2
    lock_wait_seconds: float = 10.0


def open_database(path: Path, limits: DuckdbLimits, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """Open the file, made if it is missing, as catalog `CATALOG`; its schemas resolve without naming it.

    Within one process several connections may write; a second process waits
    `lock_wait_seconds`, then raises UnavailableError. Raises SinkError for a file
    that cannot be opened.
    """
    deadline = time.monotonic() + limits.lock_wait_seconds
    while True:
        try:
            return _open(path, limits, read_only=read_only)
        except duckdb.Error as error:
            if not _LOCKED.search(str(error)) or time.monotonic() > deadline:
                raise explain(path, error) from error
        time.sleep(_LOCK_POLL_SECONDS)


def write_lock(path: Path) -> threading.Lock:
    """Return the lock that this process's writers of one file take turns with.

    DuckDB itself fails one of two transactions that make the same schema.
    """
    with _locks_guard:
        return _write_locks.setdefault(path.resolve(), threading.Lock())


def enter(connection: duckdb.DuckDBPyConnection) -> None:
    """Make a connection or cursor resolve names in the file, and read and show instants in UTC."""
    connection.execute(f'USE "{CATALOG}"')
    connection.execute("SET TimeZone = 'UTC'")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what DuckDB raises in the block into errors of ours; see `explain`."""
    try:
        yield
    except duckdb.Error as error:
        raise explain(path, error) from error
    except RuntimeError as error:
        # What DuckDB makes of Ctrl-C while it works for the main thread.
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from error
        raise


def explain(path: Path, error: duckdb.Error) -> SinkError | UnavailableError:
    """Turn a DuckDB error into ours: the file is taken, the disk is full, or something else."""
    cause = str(error)
    locked = _LOCKED.search(cause)
    if locked:
        holder = f"process {locked[1]}" if locked[1] else "another process"
        hint = "wait until it ends or stop it; while a pipeline runs, query with `penstock sql`"
        return UnavailableError(f"{path} is in use by {holder}", hint)
    if _DISK_IS_FULL.search(cause):
        return SinkError(f"the disk under {path} is full: {cause}", "free some space there; a rerun goes on from here")
    if hint := _hint_about_a_table(error):
        return RefusedStatementError(f"DuckDB refused a statement on {path}: {cause}", f"{hint}, and run again")
    if isinstance(error, duckdb.IOException) or _OF_THE_FILE_WORDS.search(cause):
        return SinkError(f"cannot read or write {path}: {cause}", "check that the path is right and may be written to")
    return SinkError(f"DuckDB refused a statement on {path}: {cause}", "run again; report it if it stays")


def is_short_of_memory(error: BaseException | None) -> bool:
    """Whether a transaction needed more memory than it may use beside what queries use just now, and nothing broke."""
    if isinstance(error, duckdb.FatalException) or _INVALID in str(error):
        return False
    return isinstance(error, duckdb.OutOfMemoryException) or bool(_NO_BLOCK.search(str(error)))


def _hint_about_a_table(error: duckdb.Error) -> str:
    """Say what to do about an error that is about the tables of a statement; "" for one of the file."""
    at_commit = _OF_THE_FILE_WORDS.search(str(error))
    if isinstance(error, duckdb.ConstraintException) or (at_commit and _CONSTRAINT.search(str(error))):
        return "drop the constraint or unique index that it names, which Penstock did not make"
    if is_short_of_memory(error):
        return "if that stays, leave columns, or the table, out of what the link carries"
    if at_commit:
        return ""
    if isinstance(error, _OF_THE_FILE):
        return ""
    return "somebody altered the table or what depends on it: see the message, put it back as it was"


def _open(path: Path, limits: DuckdbLimits, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    path = path.resolve()
    connection = connect_instance(path, read_only=read_only)
    try:
        connection.execute(f"SET memory_limit = '{limits.memory_mb}MiB'")
        connection.execute(f"SET threads = {limits.threads}")
        connection.execute(f"SET temp_directory = {quote_text(f'{path}.tmp')}")
        connection.execute("SET preserve_insertion_order = false")
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET autoinstall_known_extensions = false")
        mode = " (READ_ONLY)" if read_only else ""
        connection.execute(f'ATTACH IF NOT EXISTS {quote_text(str(path))} AS "{CATALOG}"{mode}')
        enter(connection)
        connection.execute("DETACH DATABASE IF EXISTS memory")
    except duckdb.Error:
        connection.close()
        raise
    return connection


def connect_instance(path: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    """Return a connection by which this process's connections to one file find each other, whatever it has attached.

    As long as one is open, what DuckDB started for it goes on.
    """
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()
    return duckdb.connect(f":memory:penstock-{digest[:16]}-{'reader' if read_only else 'writer'}")
