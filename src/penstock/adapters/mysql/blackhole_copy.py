"""Copies chunks of a table into one of the engine BLACKHOLE, so that the log has their rows in its own order.

While a chunk is copied the table is locked for those who write. So whatever the
log says of its rows before the copy is in the copy, and what comes behind is newer.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pymysql
import structlog
from pymysql.constants import ER

from penstock.adapters.mysql.catalog import quote, quote_table, read_flavour
from penstock.adapters.mysql.connection import ask, error_code, explain, server_of
from penstock.adapters.mysql.history import end_of_log
from penstock.adapters.mysql.key_order import is_behind, is_up_to, read_cursor, write_cursor
from penstock.adapters.mysql.printed_rows import rows_expected, stream_rows
from penstock.adapters.mysql.table_lock import lock_is_held
from penstock.adapters.mysql.write_locks import LOST_SECONDS, is_denied
from penstock.core.errors import UnavailableError, UnfitServerError, UsageError
from penstock.core.mysql.statements.describe import is_system_versioned
from penstock.core.mysql.types.text_values import select_expression
from penstock.core.snapshot_copies import COPIES_SCHEMA, copy_table, snapshot_of
from penstock.core.snapshots import first_locked_rows, next_locked_rows
from penstock.core.tables import TableId
from penstock.ports.snapshots import Chunk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.core.tables import TableSchema
    from penstock.ports.snapshots import ChunkOrder

_log = structlog.get_logger()

_SESSION: Final = (
    # As for what is decided by the mode: values are copied as they are, and a replica that lacks the engine takes
    # another one, and goes on.
    "SET SESSION sql_mode = ''",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    # Behind us others wait, who want to write.
    "SET SESSION lock_wait_timeout = 1",
    "SET SESSION innodb_lock_wait_timeout = 1",
)
_TIME_LIMIT_REACHED: Final = frozenset({1969, ER.QUERY_INTERRUPTED})
"""MariaDB's ER_STATEMENT_TIMEOUT, which the driver has no name for."""


@dataclass(frozen=True, slots=True)
class _Copying:
    """What to copy: rows of the table `schema`, those that `where` names, into `copy`.

    `last` is the last key, none for a chunk without an end.
    """

    schema: TableSchema
    copy: TableId
    where: str
    last: Sequence[bytes] = ()


class BlackholeCopier:
    """Copies over one connection, which is closed with it. `look_at` tells what a table looks like now."""

    def __init__(
        self,
        connection: pymysql.Connection,
        owner: str,
        look_at: Callable[[TableId], TableSchema],
        locked_rows: dict[str, int],
    ) -> None:
        """Name copies as those of `owner`. `locked_rows` outlives us: how many rows of a snapshot go under a lock."""
        self._connection = connection
        self._owner = owner
        self._look_at = look_at
        self._made: tuple[TableId, TableSchema] | None = None
        self._locked_rows = locked_rows
        for statement in _SESSION:
            ask(connection, statement)

    def close(self) -> None:
        """Drop the connection, and with it a lock."""
        if self._connection.open:
            self._connection.close()

    def check(self, schema: TableSchema) -> None:
        """Make a copy of `schema`, lock both and drop it again. Raises UsageError where any of that cannot be done."""
        copy = copy_table(self._owner, secrets.token_hex(6))
        self._make(copy, schema)
        try:
            with contextlib.suppress(UnavailableError), self._locked(schema.table, copy):
                self._insert(_Copying(schema, copy, "0 = 1"), "")
        finally:
            self._drop(copy)

    def copy(self, order: ChunkOrder) -> Chunk:
        """Copy the next chunk; behind the last one, drop the copy. Raises as `RowReader.read` does."""
        schema, copy = order.schema, copy_table(self._owner, order.snapshot_id)
        if self._made != (copy, schema):
            self._make(copy, schema)
            self._made = copy, schema
        rows_max = order.options.chunk_rows
        rows = self._locked_rows.get(order.snapshot_id, first_locked_rows(rows_max))
        begin = end_of_log(self._connection)
        expected = None if order.cursor else rows_expected(self._connection, schema.table)
        chunk = self._next(order, copy, rows)
        copied, took_ms = self._copy(chunk, order, rows)
        high = end_of_log(self._connection)
        if not chunk.last and copied == rows:
            # Others have added so many meanwhile that this was not the end: it comes again, up to a key.
            cursor: str | None = order.cursor
        else:
            self._locked_rows[order.snapshot_id] = next_locked_rows(rows, took_ms, order.options.lock_ms, rows_max)
            cursor = write_cursor(schema, chunk.last) if chunk.last else None
        if cursor is None:
            self._drop(copy)
        _log.info("copied under a lock", table=str(schema.table), rows=copied, lock_ms=round(took_ms, 1))
        return Chunk(None, None, high, cursor, expected, copied, begin)

    def sweep(self, is_over: Callable[[str], bool]) -> None:
        """Drop copies of ours whose snapshots are over."""
        where = f"TABLE_SCHEMA = {self._connection.escape(COPIES_SCHEMA)}"
        names = ask(self._connection, f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE {where}")  # noqa: S608
        for (name,) in names:
            table = TableId(COPIES_SCHEMA, str(name))
            id_ = snapshot_of(table, self._owner)
            if id_ and is_over(id_):
                self._drop(table)

    def _next(self, order: ChunkOrder, copy: TableId, rows: int) -> _Copying:
        """Find the next chunk of `rows` rows without a lock; if so many are not left, it has no end.

        So it has what others add until it is locked, and ends the snapshot: behind a key
        there would be rows again. It also has rows of the log that were not yet to be seen.
        """
        schema = order.schema
        behind = read_cursor(schema, order.cursor)
        given = [f"(\n{order.options.where}\n)"] if order.options.where else []
        given += [is_behind(schema, behind)] if behind else []
        names = ", ".join(map(quote, schema.key))
        where = f" WHERE {' AND '.join(given)}" if given else ""
        expressions = ", ".join(select_expression(schema.column(name), quote(name)) for name in schema.key)
        source = f"SELECT {expressions} FROM {quote_table(schema.table)}{where}"  # noqa: S608 - quoted
        last = self._row(f"{source} ORDER BY {names} LIMIT {rows - 1}, 1")
        if last:
            return _Copying(schema, copy, " AND ".join([*given, is_up_to(schema, last)]), last)
        return _Copying(schema, copy, f"{' AND '.join(given) or '1 = 1'} ORDER BY {names} LIMIT {rows}")

    def _row(self, sql: str) -> list[bytes]:
        """Return the values of one row of a key as they are printed, none if there is no row."""
        try:
            fetched = list(stream_rows(server_of(self._connection), self._connection, sql, 2))
            ask(self._connection, "SET character_set_results = utf8mb4")
        except pymysql.err.MySQLError as error:
            raise explain(error, server_of(self._connection)) from error
        return [value or b"" for value in fetched[0].row(0)] if fetched else []

    def _copy(self, chunk: _Copying, order: ChunkOrder, rows: int) -> tuple[int, float]:
        """Copy under a lock; return how many rows there were, and for how long it was held in milliseconds."""
        table, limit = chunk.schema.table, ""
        if read_flavour(self._connection) == "mariadb":
            limit = f"SET STATEMENT max_statement_time = {order.options.lock_ms / 1000} FOR "
        began = time.monotonic()
        try:
            with self._locked(table, chunk.copy):
                began = time.monotonic()
                self._require_same(chunk.schema)
                copied = self._insert(chunk, limit)
        except (UnfitServerError, UnavailableError) as error:
            if error_code(error) not in _TIME_LIMIT_REACHED:
                raise
            self._locked_rows[order.snapshot_id] = max(1, rows // 4)
            message = (
                f"{rows} rows of {table} were not copied in {order.options.lock_ms} ms, for which it may be locked"
            )
            raise UnavailableError(
                message, "fewer are copied at once; if that does not help, give a higher --lock-ms"
            ) from error
        return copied, (time.monotonic() - began) * 1000

    def _require_same(self, schema: TableSchema) -> None:
        if self._look_at(schema.table) != schema:
            message = f"table {schema.table} is being altered: the source and the capture do not agree on its columns"
            raise UnavailableError(message, "it is read again when the capture has come to the change")

    def _insert(self, chunk: _Copying, limit: str) -> int:
        names = ", ".join(quote(column.name) for column in chunk.schema.columns)
        table = quote_table(chunk.schema.table)
        sql = (
            f"{limit}INSERT INTO {quote_table(chunk.copy)} ({names}) "  # noqa: S608 - every name is quoted
            f"SELECT {names} FROM {table} FORCE INDEX (PRIMARY) WHERE {chunk.where} LOCK IN SHARE MODE"
        )
        try:
            with self._connection.cursor() as cursor:
                return cursor.execute(sql)
        except pymysql.err.MySQLError as error:
            told = explain(error, server_of(self._connection))
            told.__cause__ = error
            if isinstance(told, UnfitServerError) and is_denied(told):
                raise self._denied(told, chunk.schema.table) from error
            raise told from error

    @contextlib.contextmanager
    def _locked(self, table: TableId, copy: TableId) -> Iterator[None]:
        try:
            ask(self._connection, f"SET SESSION wait_timeout = {LOST_SECONDS}")
            ask(self._connection, f"LOCK TABLES {quote_table(table)} READ, {quote_table(copy)} WRITE")
        except UnfitServerError as error:
            if not is_denied(error):
                raise
            raise self._denied(error, table) from error
        except UnavailableError as error:
            if error_code(error) != ER.LOCK_WAIT_TIMEOUT:
                raise
            raise lock_is_held(table, "a second") from error
        try:
            yield
        finally:
            with contextlib.suppress(UnavailableError):
                ask(self._connection, "UNLOCK TABLES")
                ask(self._connection, "SET SESSION wait_timeout = DEFAULT")

    def _make(self, copy: TableId, schema: TableSchema) -> None:
        """Make the copy of `schema` anew: the same columns, and no keys, defaults or expressions."""
        self._require_able(schema)
        where = f"TABLE_SCHEMA = {self._connection.escape(schema.table.schema)} AND TABLE_NAME = "
        where += str(self._connection.escape(schema.table.name))
        asked = "SELECT COLUMN_NAME, COLUMN_TYPE, COLLATION_NAME FROM information_schema.COLUMNS WHERE "
        types = {str(name): (str(type_), collation) for name, type_, collation in ask(self._connection, asked + where)}
        columns = []
        for column in schema.columns:
            type_, collation = types.get(column.name, (column.declaration, None))
            collate = f" COLLATE {collation}" if collation else ""
            columns.append(f"{quote(column.name)} {type_}{collate} {'NULL' if column.nullable else 'NOT NULL'}")
        if _is_on(ask(self._connection, "SHOW VARIABLES LIKE 'sql_require_primary_key'")):
            columns.append(f"PRIMARY KEY ({', '.join(map(quote, schema.key))})")
        try:
            self._drop(copy)
            self._make_schema()
            ask(self._connection, f"CREATE TABLE {quote_table(copy)} ({', '.join(columns)}) ENGINE=BLACKHOLE")
        except UnfitServerError as error:
            if not is_denied(error):
                raise
            raise self._denied(error, schema.table) from error
        self._require_engine(copy)

    def _require_engine(self, copy: TableId) -> None:
        """Raise UnfitServerError where the server took another engine, which would keep the rows."""
        names = ", ".join(str(self._connection.escape(name)) for name in (copy.schema, copy.name))
        asked = f"SELECT ENGINE FROM information_schema.TABLES WHERE (TABLE_SCHEMA, TABLE_NAME) = ({names})"  # noqa: S608
        if [str(engine).upper() for (engine,) in ask(self._connection, asked)] != ["BLACKHOLE"]:
            self._drop(copy)
            message = f"{server_of(self._connection)} made {copy} with another engine than BLACKHOLE"
            raise UnfitServerError(
                message, "take it out of disabled_storage_engines, or take the snapshot without --blackhole"
            )

    def _make_schema(self) -> None:
        name = self._connection.escape(COPIES_SCHEMA)
        where = f"SCHEMA_NAME = {name}"
        if not ask(self._connection, f"SELECT 1 FROM information_schema.SCHEMATA WHERE {where}"):  # noqa: S608 - escaped
            ask(self._connection, f"CREATE DATABASE IF NOT EXISTS {quote(COPIES_SCHEMA)}")

    def _require_able(self, schema: TableSchema) -> None:
        """Raise UsageError, which says what to do, where rows of `schema` cannot be copied on this server."""
        server, other = server_of(self._connection), "or take the snapshot without --blackhole"
        asked = "SELECT @@SESSION.binlog_format, @@SESSION.sql_log_bin, @@GLOBAL.read_only"
        ((row_format, is_logged, is_read_only),) = ask(self._connection, asked)
        engines = (
            "SELECT 1 FROM information_schema.ENGINES WHERE ENGINE = 'BLACKHOLE' AND SUPPORT IN ('YES', 'DEFAULT')"
        )
        if not ask(self._connection, engines):
            message = f"{server} does not have the engine BLACKHOLE"
            raise UnfitServerError(
                message, f"on MariaDB: INSTALL SONAME 'ha_blackhole' (also on its replicas); {other}"
            )
        if int(is_read_only):
            message = f"{server} is read-only, and --blackhole writes"
            raise UnfitServerError(message, f"read from the server that is written to, {other}")
        if str(row_format).upper() != "ROW" or not int(is_logged):
            message = f"{server} logs Penstock's statements in the format {row_format}, and --blackhole needs the rows"
            raise UnfitServerError(message, f"SET GLOBAL binlog_format = 'ROW', {other}")
        if is_system_versioned(schema):
            message = f"{schema.table} keeps its history, which cannot be copied"
            raise UsageError(message, "take the snapshot without --blackhole")

    def _denied(self, error: UnfitServerError, table: TableId) -> UnfitServerError:
        user = server_of(self._connection).user
        hint = (
            f"GRANT CREATE, DROP, INSERT, SELECT, LOCK TABLES ON {quote(COPIES_SCHEMA)}.* TO {user}; "
            f"GRANT SELECT, LOCK TABLES ON {quote(table.schema)}.* TO {user}; or take the snapshot without --blackhole"
        )
        return UnfitServerError(f"--blackhole needs privileges that its user lacks: {error.message}", hint)

    def _drop(self, copy: TableId) -> None:
        ask(self._connection, f"DROP TABLE IF EXISTS {quote_table(copy)}")
        self._made = None


def _is_on(rows: Sequence[tuple[object, ...]]) -> bool:
    """Whether a variable is there, and ON."""
    return any(str(value).upper() == "ON" for _, value in rows)
