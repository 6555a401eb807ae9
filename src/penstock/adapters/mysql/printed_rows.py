"""Rows as a SELECT prints them: every value as the bytes of its column.

pymysql takes rows apart value by value, which costs most of what a snapshot does. So
of each stretch of the answer it reads the first row, with all that may be special
about it (none, an error, 16 MiB and more, a wait), and the others are read from what
has arrived by then: core/mysql/types/text_rows.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pymysql
from pymysql.cursors import SSCursor

from penstock.adapters.mysql.catalog import quote, quote_table
from penstock.adapters.mysql.connection import MysqlServer, ask, buffered, connect, explain, server_of
from penstock.core.errors import PenstockError
from penstock.core.mysql.statements.describe import is_system_versioned
from penstock.core.mysql.types.bytes_reader import MalformedError
from penstock.core.mysql.types.text_rows import PrintedRows, find_rows, read_rows
from penstock.core.mysql.types.text_values import select_expression

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from penstock.core.tables import TableId, TableSchema

_BATCH_BYTES = 16 << 20
_ROWS_AT_ONCE = 1 << 20


def select_rows(schema: TableSchema) -> str:
    """What to ask for all rows of a table; a WHERE may follow."""
    expressions = ", ".join(select_expression(column, quote(column.name)) for column in schema.columns)
    history = " FOR SYSTEM_TIME ALL" if is_system_versioned(schema) else ""
    return f"SELECT {expressions} FROM {quote_table(schema.table)}{history}"  # noqa: S608 - every name is quoted


def stream_rows(
    server: MysqlServer, connection: pymysql.Connection, sql: str, batch_rows: int
) -> Generator[PrintedRows]:
    """Yield printed rows, at least one each time; a caller that stops early has the server stop too."""
    number = int(ask(connection, "SELECT CONNECTION_ID()")[0][0])
    cursor = connection.cursor(SSCursor)
    finished = False
    try:
        with _raw_values(connection):
            cursor.execute(sql)
        while fetched := _fetch(connection, cursor, batch_rows):
            yield fetched
        finished = True
    finally:
        if not finished:
            _stop_query(server, number, cursor)


def read_printed(connection: pymysql.Connection, sql: str) -> PrintedRows:
    """Return all rows of a statement, printed in UTF-8; of none there are no columns. Raises as `ask` does."""
    parts: list[PrintedRows] = []
    try:
        cursor = connection.cursor(SSCursor)
        with _undecoded(connection):
            cursor.execute(sql)
        while fetched := _fetch(connection, cursor, _ROWS_AT_ONCE):
            parts.append(fetched)
        cursor.close()
    except pymysql.err.MySQLError as error:
        raise explain(error, server_of(connection)) from error
    return PrintedRows.joined(parts) if parts else PrintedRows(())


def rows_expected(connection: pymysql.Connection, table: TableId) -> int:
    """About how many rows there are, as the server estimates."""
    names = ", ".join(connection.escape(name) for name in (table.schema, table.name))
    rows = ask(
        connection,
        "SELECT COALESCE(MAX(TABLE_ROWS), 0) FROM information_schema.TABLES "  # noqa: S608 - escaped
        f"WHERE (TABLE_SCHEMA, TABLE_NAME) = ({names})",
    )
    return int(rows[0][0])


def _fetch(connection: pymysql.Connection, cursor: SSCursor, rows_max: int) -> PrintedRows | None:
    """Fetch so many rows at most, and no more once they come to `_BATCH_BYTES`: rows of megabytes share no batch."""
    parts: list[PrintedRows] = []
    count = size = 0
    while count < rows_max and size < _BATCH_BYTES and (row := cursor.fetchone()) is not None:
        parts.append(PrintedRows.of([row]))
        count += 1
        size += sum(map(len, filter(None, row)))
        if count < rows_max and (arrived := _arrived(connection, rows_max - count, len(row))):
            parts.append(arrived)
            count += len(arrived)
            size += arrived.nbytes
    return PrintedRows.joined(parts) if parts else None


def _arrived(connection: pymysql.Connection, rows_max: int, columns: int) -> PrintedRows | None:
    """Take the rows that have arrived whole; None where pymysql has to read on."""
    opened = buffered(connection)
    buffer = opened.arrived()
    packets = find_rows(buffer, rows_max)
    if not packets.starts:
        return None
    try:
        rows = read_rows(buffer, packets, columns)
    except MalformedError as error:
        # As the driver says it of what it reads itself.
        raise pymysql.err.InternalError(str(error)) from error
    opened.take(packets.end, packets.sequence)
    return rows


def _stop_query(server: MysqlServer, number: int, cursor: SSCursor) -> None:
    """Kill the query: closing its cursor would read the rest of the table."""
    with contextlib.suppress(PenstockError, pymysql.err.MySQLError):
        with contextlib.closing(connect(server)) as other:
            ask(other, f"KILL QUERY {number}")
        # What is left to come says that it was killed; or, where it had ended by then, the next statement does.
        with contextlib.suppress(pymysql.err.MySQLError):
            cursor.close()
        cursor.execute("DO 0")
        cursor.close()


@contextlib.contextmanager
def _raw_values(connection: pymysql.Connection) -> Iterator[None]:
    """Take the values of the statement sent now as the bytes of the column, instead of as Python's types."""
    ask(connection, "SET character_set_results = binary")
    with _undecoded(connection):
        yield


@contextlib.contextmanager
def _undecoded(connection: pymysql.Connection) -> Iterator[None]:
    """Take the values of the statement sent now as they are printed."""
    decoders, connection.decoders, connection.use_unicode = connection.decoders, {}, False
    try:
        yield
    finally:
        connection.decoders, connection.use_unicode = decoders, True
