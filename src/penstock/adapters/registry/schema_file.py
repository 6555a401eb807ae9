"""Schemas by id on disk: what a registry told once is known to every process of a machine, and after a restart."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")

_PAGE_BYTES = 4096
_FILE_BYTES_MAX = 64 << 20
_BUSY_SECONDS = 5.0
_CREATE = "CREATE TABLE IF NOT EXISTS schemas (id INTEGER PRIMARY KEY, digest BLOB NOT NULL, text TEXT NOT NULL)"
_PUT = "INSERT OR IGNORE INTO schemas (id, digest, text) VALUES (?, ?, ?)"
_FORGET = (
    "DELETE FROM schemas WHERE id IN (SELECT id FROM schemas ORDER BY id LIMIT (SELECT COUNT(*) / 2 + 1 FROM schemas))"
)


class SchemaFile:
    """The schemas of the registry at one URL, in an SQLite file of their own below a directory.

    SQLite makes each write whole or not at all, and lets several processes in.
    The file stays below 64 MiB: the oldest half goes when it is full. It is a
    help, never needed: where it cannot be read or written nothing is known and
    nothing is kept, and a damaged one is begun anew. Every call opens it by
    itself, so that forks and threads share nothing.
    """

    def __init__(self, directory: Path, url: str) -> None:
        """Name the directory, which is made when something is kept, and the registry's URL."""
        self.path = directory / f"{hashlib.sha256(url.encode()).hexdigest()[:16]}.db"

    def get(self, schema_id: int) -> str | None:
        """Return the schema with this id, None if it is not known."""
        if not self.path.exists():
            return None
        found = self._try(lambda connection: _get(connection, schema_id))
        if found is None:
            return None
        digest, text = found
        return text if digest == _digest(schema_id, text) else None

    def put(self, schema_id: int, text: str) -> None:
        """Keep a schema. One that is known by this id stays as it is."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            return
        self._try(lambda connection: _put(connection, schema_id, text))

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        try:
            with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
                connection.execute(f"PRAGMA max_page_count = {_FILE_BYTES_MAX // _PAGE_BYTES}")
                # A loss of power may damage the file, which is then noticed: nobody waits for the disk.
                connection.execute("PRAGMA synchronous = OFF")
                return work(connection)
        except (sqlite3.OperationalError, OverflowError):
            return None
        except sqlite3.DatabaseError:
            self.path.unlink(missing_ok=True)
            return None


def _get(connection: sqlite3.Connection, schema_id: int) -> tuple[bytes, str] | None:
    found: tuple[bytes, str] | None = connection.execute(
        "SELECT digest, text FROM schemas WHERE id = ?", (schema_id,)
    ).fetchone()
    return found


def _put(connection: sqlite3.Connection, schema_id: int, text: str) -> None:
    values = (schema_id, _digest(schema_id, text), text)
    try:
        _write(connection, (_CREATE, ()), (_PUT, values))
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
            raise
        _write(connection, (_FORGET, ()), (_PUT, values))


def _write(connection: sqlite3.Connection, *statements: tuple[str, tuple[object, ...]]) -> None:
    """Run statements in a transaction that waits for its turn: one that begins to write later can fail at once."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement, values in statements:
            connection.execute(statement, values)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _digest(schema_id: int, text: str) -> bytes:
    return hashlib.sha256(f"{schema_id}:{text}".encode()).digest()
