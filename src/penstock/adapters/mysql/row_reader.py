"""Reads rows again, as they were at a known place of the log, without locking them (ports/snapshots.RowReader)."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING

import pymysql
from pymysql.constants import ER

from penstock.adapters.mysql.catalog import (
    quote,
    quote_table,
    read_create,
    read_creates_of,
    read_flavour,
    read_table_ids,
    read_tables,
)
from penstock.adapters.mysql.connection import MysqlServer, ask, connect, error_code, explain, server_of
from penstock.adapters.mysql.history import end_of_log
from penstock.adapters.mysql.initial_snapshot import SILENCE_SECONDS
from penstock.adapters.mysql.printed_rows import select_rows, stream_rows
from penstock.adapters.mysql.read_batches import deleted_batch, read_batch
from penstock.adapters.mysql.tracker_dump import PartDump
from penstock.adapters.mysql.write_locks import WAITING, is_denied, writes_locked
from penstock.core.errors import UnavailableError, UnfitServerError, UsageError
from penstock.core.keys import read_key
from penstock.core.mysql.statements.touched import Touched
from penstock.core.mysql.types.key_literals import literal, literal_of
from penstock.core.positions import BinlogPosition, file_number
from penstock.core.snapshots import require_key
from penstock.ports.snapshots import Chunk, ChunkOrder, Definition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.core.positions import Position
    from penstock.core.snapshots import SnapshotOptions
    from penstock.core.table_policy import TablePolicy
    from penstock.core.tables import TableId, TableSchema

_BEHIND_SECONDS = 10.0
_PAUSE_SECONDS = 0.02
# An XA COMMIT is in the log shortly before its rows are there for others.
_XA_SECONDS = 0.2
_ENGINE = "InnoDB"
_SESSION = (
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION sql_mode = ''",
    WAITING,
)
_GONE = frozenset({ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR})


class MysqlRowReader:
    """A `RowReader` over one connection, which is opened when it is needed and again when it was lost."""

    def __init__(self, server: MysqlServer, policy: TablePolicy) -> None:
        """Read from `server`; tables are shaped as `policy` wants them."""
        self._server = server
        self._policy = policy
        self._connection: pymysql.Connection | None = None

    def read(self, order: ChunkOrder) -> Chunk:
        """See ports/snapshots.RowReader."""
        with self._transaction(order.schema.table, order.low) as connection:
            table = order.schema.table
            with contextlib.closing(self._connect()) as other:
                # In the transaction, MySQL would tell how the table was when it began.
                now, engine = self._look_at(other, table)
                high = end_of_log(other)
            if now != order.schema:
                message = f"table {table} is being altered: the source and the capture do not agree about its columns"
                raise UnavailableError(message, "it is read again when the capture has come to the change")
            if engine != _ENGINE:
                message = f"the engine {engine} of {table} cannot be read as it was at a place of the log"
                raise UsageError(message, f"ALTER TABLE {quote_table(table)} ENGINE={_ENGINE}")
            if order.options.keys:
                return self._read_keys(connection, order, high)
            return self._read_slice(connection, order, high)

    def define(self, table: TableId, low: Position) -> Definition:
        """See ports/snapshots.RowReader."""
        with self._transaction(table, low) as connection, contextlib.closing(self._connect()) as other:
            schema, _ = self._look_at(other, table)
            touched = Touched(tables=frozenset({table}), schemas=frozenset({table.schema}))
            dump = PartDump(touched, read_creates_of(other, touched)).to_json()
            return Definition(schema, dump, end_of_log(connection))

    def tables(self) -> Sequence[TableId]:
        """See ports/snapshots.RowReader."""
        with contextlib.closing(self._connect()) as connection:
            return read_table_ids(connection)

    def check(self, table: TableId, options: SnapshotOptions) -> None:
        """Raise UsageError where a snapshot of `table` with `options` could not begin."""
        with contextlib.closing(self._connect()) as connection:
            schema, _ = self._look_at(connection, table)
            require_key(schema)
            for line in options.keys:
                read_key(schema, line)
            if options.where:
                with _refusals_explained(options):
                    ask(connection, f"EXPLAIN {select_rows(schema)} WHERE (\n{options.where}\n)")

    def close(self) -> None:
        """Drop the connection."""
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    def _look_at(self, connection: pymysql.Connection, table: TableId) -> tuple[TableSchema, str]:
        schema = read_tables(connection, [table], self._policy).get(table)
        if schema is None:
            message = f"{self._server} has no table {table}, or does not show it to our user"
            raise UsageError(message, "look at its name, and at our grants")
        return schema, read_create(connection, table)[1]

    @contextlib.contextmanager
    def _transaction(self, table: TableId, low: Position) -> Iterator[pymysql.Connection]:
        """Open a snapshot of what was committed at `low` or later, in which nobody alters the table."""
        if self._connection is None or not self._connection.open:
            self._connection = self._connect()
        connection = self._connection
        try:
            _START[read_flavour(connection)](connection, low, table)
            _hold(connection, table)
            yield connection
            ask(connection, "ROLLBACK")
        except BaseException as error:
            self.close()
            if isinstance(error, pymysql.err.MySQLError):
                raise explain(error, self._server) from error
            if error_code(error) in _GONE:
                message = f"{self._server} has no table {table}, or does not show it to our user"
                raise UsageError(message, "look at its name, and at our grants") from error
            raise

    def _connect(self) -> pymysql.Connection:
        connection = connect(self._server, silence_seconds=SILENCE_SECONDS)
        try:
            for statement in _SESSION:
                ask(connection, statement)
        except BaseException:
            connection.close()
            raise
        return connection

    def _read_slice(self, connection: pymysql.Connection, order: ChunkOrder, high: Position) -> Chunk:
        """Read the rows behind the cursor in the order of the primary key."""
        schema, count = order.schema, order.options.chunk_rows
        behind, names = _read_cursor(schema, order.cursor), ", ".join(map(quote, schema.key))
        wheres = [f"(\n{order.options.where}\n)"] if order.options.where else []
        wheres += [_behind(schema, behind)] if behind else []
        where = f" WHERE {' AND '.join(wheres)}" if wheres else ""
        sql = f"{select_rows(schema)}{where} ORDER BY {names} LIMIT {count}"
        with _refusals_explained(order.options):
            fetched, is_last = self._fetch(connection, sql, count)
        rows = read_batch(schema, fetched, str(high)) if fetched else None
        expected = None if order.cursor else _rows_expected(connection, schema.table)
        return Chunk(rows, None, high, None if is_last else _cursor(schema, fetched[-1]), expected)

    def _read_keys(self, connection: pymysql.Connection, order: ChunkOrder, high: Position) -> Chunk:
        """Read the next of the listed rows; the cursor counts them."""
        schema, keys = order.schema, order.options.keys
        start = int(order.cursor or 0)
        end = min(start + order.options.chunk_rows, start + 500)
        asked = list(dict.fromkeys(read_key(schema, line) for line in keys[start:end]))
        columns = [schema.column(name) for name in schema.key]
        try:
            wheres = [
                "("
                + " AND ".join(f"{quote(c.name)} = {literal_of(c, v)}" for c, v in zip(columns, key, strict=True))
                + ")"
                for key in asked
            ]
            sql = f"{select_rows(schema)} WHERE {' OR '.join(wheres)}"
            fetched, is_whole = self._fetch(connection, sql, len(asked) + 1)
            rows = read_batch(schema, fetched, str(high)) if fetched else None
            gone = deleted_batch(schema, asked, rows)
        except ValueError as error:
            message = f"a key of the list is none of {schema.table}: {error}"
            raise UsageError(message, "write numbers and texts as SQL does, and bytes as 0x and hexadecimal") from error
        if not is_whole:
            message = f"{len(asked)} rows of {schema.table} are too large to be read at once"
            raise UsageError(message, "give a smaller --chunk-rows")
        return Chunk(rows, gone, high, str(end) if end < len(keys) else None, len(keys))

    def _fetch(
        self, connection: pymysql.Connection, sql: str, count: int
    ) -> tuple[Sequence[tuple[bytes | None, ...]], bool]:
        """Return up to `count` rows, fewer where they are large, and whether there are no more."""
        try:
            with contextlib.closing(stream_rows(self._server, connection, sql, count)) as fetches:
                fetched = next(fetches, [])
                is_last = len(fetched) < count and next(fetches, None) is None
            # Everything else is asked for as text.
            ask(connection, "SET character_set_results = utf8mb4")
        except pymysql.err.MySQLError as error:
            raise explain(error, self._server) from error
        return fetched, is_last


@contextlib.contextmanager
def _refusals_explained(options: SnapshotOptions) -> Iterator[None]:
    try:
        yield
    except UnfitServerError as error:
        if not options.where:
            raise
        message = f"the server refused the condition {options.where!r}: {error.message}"
        raise UsageError(message, "give --where a condition on columns of the table, as behind WHERE") from error


def _start_on_mariadb(connection: pymysql.Connection, low: Position, _: TableId) -> None:
    """Begin a snapshot; the server says at which place of the log it is.

    What is in the log comes to be seen by others a moment later, or much later
    with semi-synchronous replication: a snapshot from before `low` is taken again.
    """
    if int(ask(connection, "SHOW GLOBAL STATUS LIKE 'Com_xa_commit'")[0][1]):
        time.sleep(_XA_SECONDS)
    deadline = time.monotonic() + _BEHIND_SECONDS
    while True:
        ask(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        status = {name.lower(): value for name, value in ask(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'")}
        file, offset = status.get("binlog_snapshot_file", ""), int(status.get("binlog_snapshot_position") or 0)
        if file and (file_number(file), offset) >= low.order[:2]:
            return
        ask(connection, "ROLLBACK")
        _wait_behind(deadline, low)


def _start_on_mysql(connection: pymysql.Connection, low: Position, table: TableId) -> None:
    """Begin a snapshot. The server's set of executed GTIDs grows once others see what is in them.

    Without GTIDs only whoever holds up those who write for a moment knows what is committed.
    """
    gtids = str(low.gtids) if isinstance(low, BinlogPosition) else ""
    if not gtids or str(ask(connection, "SELECT @@GLOBAL.gtid_mode")[0][0]) != "ON":
        with writes_locked(connection, [table]):
            ask(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        return
    deadline = time.monotonic() + _BEHIND_SECONDS
    while not ask(connection, f"SELECT GTID_SUBSET({connection.escape(gtids)}, @@GLOBAL.gtid_executed)")[0][0]:
        _wait_behind(deadline, low)
    ask(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")


def _hold(connection: pymysql.Connection, table: TableId) -> None:
    """Take the lock that keeps others from altering the table until the transaction ends."""
    try:
        ask(connection, f"SELECT 1 FROM {quote_table(table)} LIMIT 0")  # noqa: S608 - the name is quoted
    except UnfitServerError as error:
        if not is_denied(error):
            raise
        server = server_of(connection)
        message = f"{server} does not let us read rows of {table}"
        raise UnfitServerError(message, f"GRANT SELECT ON {quote_table(table)} TO {server.user}") from error


_START = {"mariadb": _start_on_mariadb, "mysql": _start_on_mysql}


def _wait_behind(deadline: float, low: Position) -> None:
    if time.monotonic() > deadline:
        message = f"what is in the log before {low} is not to be seen by others yet"
        raise UnavailableError(message, "the server may wait for a semi-synchronous replica: see that one answers")
    time.sleep(_PAUSE_SECONDS)


def _signature(schema: TableSchema) -> list[list[str]]:
    """What the order of a table's rows depends on."""
    columns = (schema.column(name) for name in schema.key)
    return [[column.name, column.declaration, column.collation] for column in columns]


def _cursor(schema: TableSchema, row: Sequence[bytes | None]) -> str:
    """Write down behind which row the next chunk begins."""
    printed = {column.name: value for column, value in zip(schema.columns, row, strict=True)}
    return json.dumps({"key": _signature(schema), "behind": [(printed[name] or b"").hex() for name in schema.key]})


def _read_cursor(schema: TableSchema, cursor: str) -> list[bytes]:
    """Return the key of the last row that was read; nothing at the start, or if rows are in another order now."""
    if not cursor:
        return []
    fields = json.loads(cursor)
    return [bytes.fromhex(each) for each in fields["behind"]] if fields["key"] == _signature(schema) else []


def _behind(schema: TableSchema, printed: Sequence[bytes]) -> str:
    """Write the condition that a row's key is behind one, so that an index is used: (a > 1 OR (a = 1 AND b > 2))."""
    columns = [schema.column(name) for name in schema.key]
    literals = [literal(column, value) for column, value in zip(columns, printed, strict=True)]
    names = [quote(column.name) for column in columns]
    parts = []
    for last in range(len(names)):
        equal = [f"{name} = {value}" for name, value in zip(names[:last], literals[:last], strict=True)]
        parts.append("(" + " AND ".join([*equal, f"{names[last]} > {literals[last]}"]) + ")")
    return f"({' OR '.join(parts)})"


def _rows_expected(connection: pymysql.Connection, table: TableId) -> int:
    """About how many rows there are, as the server estimates."""
    names = ", ".join(connection.escape(name) for name in (table.schema, table.name))
    rows = ask(
        connection,
        "SELECT COALESCE(MAX(TABLE_ROWS), 0) FROM information_schema.TABLES "  # noqa: S608 - escaped
        f"WHERE (TABLE_SCHEMA, TABLE_NAME) = ({names})",
    )
    return int(rows[0][0])
