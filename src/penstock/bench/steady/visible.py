"""When rows can be seen in a PostgreSQL target."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import errors

from penstock.bench.beside import Beside
from penstock.bench.warehouse.compare import connect_postgres
from penstock.core.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.dev.postgres import PostgresServer

_POLL_SECONDS: Final = 0.005


class Visible(Beside):
    """Asks a table for new ids every 5 ms while a `with` block lasts, and notes when each was first seen.

    Ids only grow. A table that is not there yet has none.
    """

    def __init__(self, server: PostgresServer, database: str, table: str) -> None:
        """Ask nothing yet."""
        self.seen: dict[int, float] = {}
        self._query = f"SELECT id FROM {table} WHERE id > %s ORDER BY id".encode()  # noqa: S608 - names of ours
        self._connection = connect_postgres(server, database)
        self._newest = 0
        super().__init__("visible")

    def _end(self) -> None:
        self._connection.close()

    def await_id(self, newest: int, wait_seconds: float, alive: Callable[[], bool]) -> None:
        """Wait until this id is there. Raises UnavailableError when time is up, or who brings it is not `alive`."""
        deadline = time.monotonic() + wait_seconds
        while self._newest < newest:
            if time.monotonic() > deadline or not alive():
                message = f"row {newest:,} did not come within {wait_seconds:.0f} s; the newest is {self._newest:,}"
                raise UnavailableError(message, "read the log of whoever carries it")
            time.sleep(_POLL_SECONDS)

    def _run(self) -> None:
        while not self._stopping.wait(_POLL_SECONDS):
            with suppress(
                errors.UndefinedTable, errors.InvalidSchemaName, errors.UndefinedColumn, psycopg.OperationalError
            ):
                rows = self._connection.execute(self._query, [self._newest]).fetchall()
                now = time.monotonic()
                for (id_,) in rows:
                    self.seen[id_] = now
                    self._newest = id_
