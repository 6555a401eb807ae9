"""What every SQLite file of ours needs when it is opened."""

from __future__ import annotations

import sqlite3
import time

_PAUSE_SECONDS = 0.01
_PRIMARY_CODE = 0xFF  # SQLite's extended result codes keep the primary one in their lowest byte.


def use_write_ahead_log(connection: sqlite3.Connection, wait_seconds: float) -> None:
    """Let readers go on beside a writer, from now on and for everybody who opens the file.

    Tries for `wait_seconds` while others use the file: SQLite answers "database is
    locked" to this change at once, whatever the connection's own timeout
    (https://www.sqlite.org/c3ref/busy_handler.html). Raises sqlite3.OperationalError.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & _PRIMARY_CODE != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return
