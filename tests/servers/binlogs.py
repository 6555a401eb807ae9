"""Binlogs of a source that go away."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pymysql.cursors import Cursor


def purge_to(cursor: Cursor, file: str) -> None:
    """Purge all binlogs before `file`; TimeoutError after half a minute.

    MariaDB answers PURGE without an error and keeps a file that it may still need
    for a recovery, for a moment.
    Source: MariaDB documentation, "PURGE BINARY LOGS".
    """
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        cursor.execute("PURGE BINARY LOGS TO %s", (file,))
        cursor.execute("SHOW BINARY LOGS")
        if (cursor.fetchone() or ())[0] == file:
            return
        time.sleep(0.1)
    message = f"the server still keeps binlogs before {file}"
    raise TimeoutError(message)
