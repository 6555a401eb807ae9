"""Reading a DuckDB file, query by query, while other processes may want to write it.

To start DuckDB takes 20 ms of CPU, and to attach a file one. So what was started
for a file stays for the next query, and the file is attached only while somebody
reads it.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.adapters.duckdb.database import CATALOG, DuckdbLimits, connect_instance, open_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import duckdb

_LIMITS = DuckdbLimits(lock_wait_seconds=0.0)


@dataclass(slots=True)
class _Started:
    """A DuckDB that runs in this process, and how many readers have its file attached."""

    connection: duckdb.DuckDBPyConnection
    readers: int = 0


_started: dict[Path, _Started] = {}
_guard = threading.Lock()


@contextmanager
def attached(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Have the file open for reading in a `with` block. Raises as `open_database`, and waits for nobody."""
    path = path.resolve()
    with _guard:
        started = _start(path)
        connection = open_database(path, _LIMITS, read_only=True)
        started.readers += 1
    try:
        yield connection
    finally:
        with _guard:
            connection.close()
            started.readers -= 1
            if not started.readers:
                started.connection.execute(f'DETACH "{CATALOG}"')


def _start(path: Path) -> _Started:
    """Return the DuckDB for a file. That of another file ends unless somebody reads it: one is kept."""
    for other in [each for each, started in _started.items() if each != path and not started.readers]:
        _started.pop(other).connection.close()
    if path not in _started:
        _started[path] = _Started(connect_instance(path, read_only=True))
    return _started[path]
