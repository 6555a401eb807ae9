"""Reads rows again, as they were at a known place of the log, without locking them (ports/snapshots.RowReader)."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

import pymysql
from pymysql.constants import ER

from penstock.adapters.mysql.blackhole_copy import BlackholeCopier
from penstock.adapters.mysql.catalog import (
    quote,
    quote_table,
    read_create,
    read_creates_of,
    read_table_ids,
    read_tables,
)
from penstock.adapters.mysql.connection import MysqlServer, ask, connect, error_code, explain
from penstock.adapters.mysql.history import end_of_log
from penstock.adapters.mysql.initial_snapshot import SILENCE_SECONDS
from penstock.adapters.mysql.key_order import key_of, read_cursor, within, write_cursor
from penstock.adapters.mysql.prepared import unseen_rows
from penstock.adapters.mysql.printed_rows import rows_expected, select_rows, stream_rows
from penstock.adapters.mysql.read_batches import deleted_batch, read_batch
from penstock.adapters.mysql.reading_transaction import begin_reading
from penstock.adapters.mysql.replica_lag import ReplicaWatch
from penstock.adapters.mysql.table_lock import LockedTable
from penstock.adapters.mysql.tracker_dump import PartDump
from penstock.adapters.mysql.write_locks import WAITING, is_denied
from penstock.core.commands import shell_word
from penstock.core.errors import UnavailableError, UnfitServerError, UsageError
from penstock.core.keys import read_key
from penstock.core.mysql.statements.touched import Touched
from penstock.core.mysql.types.key_literals import literal_of
from penstock.core.mysql.types.text_rows import PrintedRows
from penstock.core.snapshots import Method, require_key
from penstock.ports.snapshots import Chunk, ChunkOrder, Definition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from penstock.adapters.mysql.replica_lag import LagLimit
    from penstock.core.changes import RowBatch
    from penstock.core.positions import Position
    from penstock.core.snapshots import SnapshotOptions
    from penstock.core.table_policy import TablePolicy
    from penstock.core.tables import TableId, TableSchema

_ENGINE = "InnoDB"
_KEYS_AT_ONCE = 500
_SESSION = (
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION sql_mode = ''",
    WAITING,
)
_GONE = frozenset({ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR})


class MysqlRowReader:
    """A `RowReader` over connections that are opened when they are needed and again when they were lost."""

    def __init__(
        self,
        server: MysqlServer,
        policy: TablePolicy,
        owner: str,
        lag_limit: LagLimit | None = None,
        unread: Collection[str] = (),
    ) -> None:
        """Read from `server`; tables are shaped as `policy` wants them, and copies are those of `owner`.

        No chunk is read while replicas are further behind than `lag_limit` allows, but for those of a locked table;
        and none without locks while an XA transaction of `unread` is prepared, of which the capture has no rows.
        """
        self._server = server
        self._policy = policy
        self._owner = owner
        self._unread = unread
        self._connection: pymysql.Connection | None = None
        self._delays_writers = False
        self._copier: BlackholeCopier | None = None
        self._locked_rows: dict[str, int] = {}
        self._locked: tuple[LockedTable, Position] | None = None
        self._replicas = None if lag_limit is None else ReplicaWatch(server, lag_limit)

    def read(self, order: ChunkOrder) -> Chunk:
        """See ports/snapshots.RowReader."""
        if self._replicas is not None and order.options.method is not Method.FULL_LOCK:
            late = self._replicas.too_far()
            if late is not None:
                return Chunk(None, None, order.low, order.cursor, waits=late)
        match order.options.method:
            case Method.BLACKHOLE:
                return self._copy(order)
            case Method.FULL_LOCK:
                return self._read_locked(order)
            case Method.READ_ONLY:
                return self._read_between(order)
            case other:
                assert_never(other)

    def _read_between(self, order: ChunkOrder) -> Chunk:
        unseen = unseen_rows(order.low, self._unread)
        if unseen is not None:
            return Chunk(None, None, order.low, order.cursor, waits=unseen)
        with self._transaction(order.schema.table, order.low) as connection:
            table = order.schema.table
            with contextlib.closing(self._connect()) as other:
                # In the transaction, MySQL would tell how the table was when it began.
                now, engine = self._look_at(other, table)
                high = end_of_log(other)
            if now != order.schema:
                message = f"table {table} is being altered: the source and the capture do not agree about its columns"
                raise UnavailableError(message, "it is read again when the capture has come to the change")
            _require_readable(table, engine, order.options)
            if order.options.keys:
                return self._read_keys(connection, order, high)
            return self._read_slice(connection, order, high)

    def define(self, table: TableId, low: Position, options: SnapshotOptions) -> Definition:
        """See ports/snapshots.RowReader."""
        with self._transaction(table, low) as connection, contextlib.closing(self._connect()) as other:
            return replace(self._definition(other, table, options), high=end_of_log(connection))

    def _definition(
        self, connection: pymysql.Connection, table: TableId, options: SnapshotOptions | None = None
    ) -> Definition:
        schema, engine = self._look_at(connection, table)
        if options is not None and options.method is Method.READ_ONLY:
            _require_readable(table, engine, options)
        touched = Touched(tables=frozenset({table}), schemas=frozenset({table.schema}))
        dump = PartDump(touched, read_creates_of(connection, touched)).to_json()
        return Definition(schema, dump, end_of_log(connection))

    def lock(self, table: TableId, low: Position) -> Definition:
        """See ports/snapshots.RowReader: all that is in the log before the lock is committed, at `low` or later."""
        del low
        self.release()
        with self._missing_table_told(table):
            locked = LockedTable(self._connect(), table)
        try:
            with contextlib.closing(self._connect()) as other:
                found = self._definition(other, table)
        except BaseException:
            locked.close()
            raise
        self._locked = locked, found.high
        return found

    def holds(self, table: TableId) -> bool:
        """See ports/snapshots.RowReader."""
        return self._locked is not None and self._locked[0].table == table and self._locked[0].is_held

    def release(self) -> None:
        """See ports/snapshots.RowReader."""
        if self._locked is not None:
            self._locked[0].close()
        self._locked = None

    def sweep(self, is_over: Callable[[str], bool]) -> None:
        """See ports/snapshots.RowReader."""
        with contextlib.closing(self._connect_copier()) as copier:
            copier.sweep(is_over)

    def tables(self) -> Sequence[TableId]:
        """See ports/snapshots.RowReader."""
        with contextlib.closing(self._connect()) as connection:
            return read_table_ids(connection)

    def check(self, table: TableId, options: SnapshotOptions) -> None:
        """Raise UsageError where a snapshot of `table` with `options` could not begin."""
        if self._replicas is not None:
            # Those that are too far behind now may have come nearer when its turn comes.
            self._replicas.look()
        with contextlib.closing(self._connect()) as connection:
            schema, _ = self._look_at(connection, table)
            if options.method is Method.FULL_LOCK:
                # Where others write for long just now, it is tried again when its turn comes.
                with contextlib.suppress(UnavailableError):
                    LockedTable(self._connect(), table).close()
                return
            require_key(schema)
            for line in options.keys:
                read_key(schema, line)
            if options.where:
                with _refusals_explained(options):
                    ask(connection, f"EXPLAIN {select_rows(schema)} WHERE (\n{options.where}\n)")
        if options.method is Method.BLACKHOLE:
            with contextlib.closing(self._connect_copier()) as copier:
                copier.check(schema)

    def waits(self) -> UnavailableError | None:
        """See ports/snapshots.RowReader."""
        return None if self._replicas is None else self._replicas.look()

    def close(self) -> None:
        """Drop the connections, each whatever goes wrong with another."""
        with contextlib.ExitStack() as open_:
            open_.callback(self._close_reading)
            open_.callback(self._close_copier)
            open_.callback(self.release)

    def _close_reading(self) -> None:
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    def _look_at(self, connection: pymysql.Connection, table: TableId) -> tuple[TableSchema, str]:
        schema = read_tables(connection, [table], self._policy).get(table)
        if schema is None:
            message = f"{self._server} has no table {table}, or does not show it to the source's user"
            raise UsageError(message, "check its name, and the grants of the source's user")
        return schema, read_create(connection, table)[1]

    @contextlib.contextmanager
    def _transaction(self, table: TableId, low: Position) -> Iterator[pymysql.Connection]:
        """Open a snapshot of what was committed at `low` or later, in which nobody alters the table."""
        if self._connection is None or not self._connection.open:
            self._connection = self._connect()
        connection = self._connection
        with self._missing_table_told(table):
            try:
                self._delays_writers = begin_reading(connection, low, table)
                yield connection
                ask(connection, "ROLLBACK")
            except BaseException as error:
                self._close_reading()
                if isinstance(error, pymysql.err.MySQLError):
                    raise explain(error, self._server) from error
                raise

    @contextlib.contextmanager
    def _missing_table_told(self, table: TableId) -> Iterator[None]:
        """Raise UsageError where the server has no `table`, instead of what it says to a statement that names it."""
        try:
            yield
        except UnfitServerError as error:
            # A copy of ours may be the one that is missing.
            if error_code(error) in _GONE:
                with contextlib.closing(self._connect()) as other:
                    self._look_at(other, table)
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

    def _connect_copier(self) -> BlackholeCopier:
        def look_at(table: TableId) -> TableSchema:
            # The connection of the copier has locked tables, and may look at no others.
            with contextlib.closing(self._connect()) as other:
                return self._look_at(other, table)[0]

        connection = self._connect()
        try:
            return BlackholeCopier(connection, self._owner, look_at, self._locked_rows)
        except BaseException:
            connection.close()
            raise

    def _open_copier(self) -> BlackholeCopier:
        if self._copier is None:
            self._copier = self._connect_copier()
        return self._copier

    def _close_copier(self) -> None:
        if self._copier is not None:
            self._copier.close()
        self._copier = None

    def _copy(self, order: ChunkOrder) -> Chunk:
        """Have the source copy rows; whatever goes wrong, the next try begins with another connection."""
        try:
            with self._missing_table_told(order.schema.table), _refusals_explained(order.options):
                return self._open_copier().copy(order)
        except BaseException:
            self._close_copier()
            raise

    def _read_locked(self, order: ChunkOrder) -> Chunk:
        if self._locked is None:
            message = f"the lock of {order.schema.table} is lost"
            raise UnavailableError(message, "it is locked again, and read from the beginning")
        locked, high = self._locked
        return locked.read(order, high)

    def _read_slice(self, connection: pymysql.Connection, order: ChunkOrder, high: Position) -> Chunk:
        """Read the rows behind the cursor in the order of the primary key."""
        schema, count = order.schema, order.options.chunk_rows
        if any(cursor and not read_cursor(schema, cursor) for cursor in (order.cursor, order.until)):
            return Chunk(None, None, high, None, begins_again=True)
        sql = f"{select_rows(schema)}{within(schema, order.options.where, order.cursor, order.until)} LIMIT {count}"
        with _refusals_explained(order.options):
            fetched, is_last = self._fetch(connection, sql, count)
        rows = read_batch(schema, fetched, str(high)) if fetched else None
        expected = None if order.cursor else rows_expected(connection, schema.table)
        if is_last:
            return Chunk(rows, None, high, None, expected)
        cursor = write_cursor(schema, key_of(schema, fetched.row(-1)))
        return Chunk(rows, None, high, cursor, expected, ahead=self._look_ahead(connection, order, cursor))

    def _look_ahead(self, connection: pymysql.Connection, order: ChunkOrder, cursor: str) -> Sequence[str]:
        """Mark off chunks behind this one, in the index; none where writers would wait for whoever reads them."""
        schema, cursors = order.schema, [cursor]
        keys = replace(schema, columns=tuple(schema.column(name) for name in schema.key))
        for _ in range(0 if self._delays_writers else order.ahead):
            found_in = within(schema, order.options.where, cursors[-1], order.until)
            sql = f"{select_rows(keys)}{found_in} LIMIT 1 OFFSET {order.options.chunk_rows - 1}"
            found, _ = self._fetch(connection, sql, 1)
            if not found:
                break
            cursors.append(write_cursor(schema, key_of(keys, found.row(0))))
        return cursors[1:]

    def _read_keys(self, connection: pymysql.Connection, order: ChunkOrder, high: Position) -> Chunk:
        """Read the next of the listed rows, fewer where they are large; the cursor counts them."""
        keys, start = order.options.keys, int(order.cursor or 0)
        count = min(order.options.chunk_rows, _KEYS_AT_ONCE, len(keys) - start)
        while (read := self._read_listed(connection, order.schema, keys[start : start + count], high)) is None:
            count //= 2
        cursor = str(start + count) if start + count < len(keys) else None
        return Chunk(*read, high, cursor, len(keys))

    def _read_listed(
        self, connection: pymysql.Connection, schema: TableSchema, keys: Sequence[str], high: Position
    ) -> tuple[RowBatch | None, RowBatch | None] | None:
        """Return the rows with `keys`, and deletes of those that have none; None if they do not fit, as one does."""
        asked = list(dict.fromkeys(read_key(schema, line) for line in keys))
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
            if not is_whole and len(keys) > 1:
                return None
            rows = read_batch(schema, fetched, str(high)) if fetched else None
            return rows, deleted_batch(schema, asked, rows)
        except ValueError as error:
            message = f"a key of the list is none of {schema.table}: {error}"
            raise UsageError(message, "write numbers and texts as SQL does, and bytes as 0x and hexadecimal") from error

    def _fetch(self, connection: pymysql.Connection, sql: str, count: int) -> tuple[PrintedRows, bool]:
        """Return up to `count` rows, fewer where they are large, and whether there are no more."""
        try:
            # One more is asked for than there are: a query that has come to its end need not be stopped.
            with contextlib.closing(stream_rows(self._server, connection, sql, count + 1)) as fetches:
                fetched = next(fetches, PrintedRows(()))
                is_last = next(fetches, None) is None and len(fetched) < count
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
        if not options.where or not error_code(error) or is_denied(error):
            raise
        message = f"the server refused the condition {options.where!r}: {error.message}"
        raise UsageError(message, "give --where a condition on columns of the table, as after WHERE") from error


def _require_readable(table: TableId, engine: str, options: SnapshotOptions) -> None:
    """Raise UsageError for a table whose rows can be read under a lock alone."""
    if engine == _ENGINE:
        return
    message = f"the engine {engine} of {table} cannot be read as it was at a position of the log"
    anew = f"{' --full-refresh' * options.full_refresh}{f' --link {options.link}' if options.link else ''}"
    way = f"penstock snapshot FILE {shell_word(table)} --blackhole{anew}{'' if options.link else ' (or --full-lock)'}"
    raise UsageError(
        message, f"type: {way}, which locks it; or in the source: ALTER TABLE {quote_table(table)} ENGINE={_ENGINE}"
    )
