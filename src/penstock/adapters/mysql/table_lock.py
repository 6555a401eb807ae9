"""A table that is locked for those who write, and its rows, which are read over the connection of the lock."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING, Final

import pymysql
from pymysql.constants import ER

from penstock.adapters.mysql.catalog import quote, quote_table
from penstock.adapters.mysql.connection import ask, error_code, explain, server_of
from penstock.adapters.mysql.printed_rows import rows_expected, select_rows, stream_rows
from penstock.adapters.mysql.read_batches import read_batch
from penstock.adapters.mysql.write_locks import is_denied
from penstock.core.errors import PenstockError, UnavailableError, UnfitServerError
from penstock.core.mysql.types.text_rows import PrintedRows
from penstock.ports.snapshots import Chunk

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.core.positions import Position
    from penstock.core.tables import TableId
    from penstock.ports.snapshots import ChunkOrder

_SESSION: Final = (
    "SET SESSION sql_mode = ''",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    # So InnoDB locks the table, too, and waits for what XA PREPARE left open.
    "SET SESSION autocommit = 0, innodb_table_locks = 1, innodb_lock_wait_timeout = 5",
    # Behind us others wait, who want to write.
    "SET SESSION lock_wait_timeout = 5",
    # The server waits with the rest of the rows while the capture publishes what it has.
    "SET SESSION net_write_timeout = 600",
    # And it gives the lock up where our host was lost, not after eight hours.
    "SET SESSION wait_timeout = 600",
)


class LockedTable:
    """One locked table. Closing the connection ends the lock."""

    def __init__(self, connection: pymysql.Connection, table: TableId) -> None:
        """Lock `table`. Raises UnfitServerError where we may not, and UnavailableError where others write for long."""
        self.table = table
        self._connection = connection
        self._token = secrets.token_hex(8)
        self._rows: Generator[PrintedRows] | None = None
        self._ahead = PrintedRows(())
        try:
            for statement in _SESSION:
                ask(connection, statement)
            ask(connection, f"LOCK TABLES {quote_table(table)} READ")
        except UnfitServerError as error:
            connection.close()
            if not is_denied(error):
                raise
            message = f"{server_of(connection)}: no privilege to lock {table}: {error.message}"
            hint = f"GRANT SELECT, LOCK TABLES ON {quote(table.schema)}.* TO {server_of(connection).user}"
            raise UnfitServerError(message, hint) from error
        except UnavailableError as error:
            connection.close()
            if error_code(error) != ER.LOCK_WAIT_TIMEOUT:
                raise
            raise lock_is_held(table, "5 seconds") from error
        except BaseException:
            connection.close()
            raise

    @property
    def is_held(self) -> bool:
        """Whether the connection is open, as far as we know."""
        return self._connection.open

    def read(self, order: ChunkOrder, high: Position) -> Chunk:
        """Return the next rows; all of them are as they are at `high` and as long as the lock is held."""
        server, schema = server_of(self._connection), order.schema
        expected = None
        try:
            if self._rows is None:
                expected = rows_expected(self._connection, schema.table)
                self._rows = stream_rows(server, self._connection, select_rows(schema), order.options.chunk_rows)
                self._ahead = next(self._rows, PrintedRows(()))
            fetched, self._ahead = self._ahead, next(self._rows, PrintedRows(()))
            is_last = not self._ahead
            if is_last:
                # Whoever still answers has held the lock until now.
                ask(self._connection, "SET character_set_results = utf8mb4")
        except pymysql.err.MySQLError as error:
            self.close()
            raise explain(error, server) from error
        rows = read_batch(schema, fetched, str(high)) if fetched else None
        return Chunk(rows, None, high, None if is_last else self._token, expected)

    def close(self) -> None:
        """End the lock. Safe to call twice."""
        if self._rows is not None:
            # ValueError: another thread is in it, and finds the connection closed.
            with contextlib.suppress(PenstockError, pymysql.err.MySQLError, ValueError):
                self._rows.close()
            self._rows = None
        if self._connection.open:
            self._connection.close()


def lock_is_held(table: TableId, waited: str) -> UnavailableError:
    """Say that somebody else holds what the lock of a table waits for."""
    message = f"the lock of {table} was not granted within {waited}: a transaction that wrote to it is open"
    return UnavailableError(message, "end long transactions of the source, or take the snapshot later")
