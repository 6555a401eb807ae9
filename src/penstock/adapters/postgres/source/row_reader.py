"""Reads rows of PostgreSQL again, as they were at a known place of the log (ports/snapshots.RowReader)."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import errors

from penstock.adapters.postgres.source.catalog import read_table, read_tables, read_types, read_unreadable
from penstock.adapters.postgres.source.chunk_queries import (
    cursor_after,
    cursor_behind,
    keyed_statement,
    printed_statement,
    quoted,
    read_key_columns,
    skip_statement,
    slice_statement,
)
from penstock.adapters.postgres.source.connection import connect, explain, explained
from penstock.adapters.postgres.source.identity import write_mark
from penstock.adapters.postgres.source.initial_snapshot import parse_line
from penstock.adapters.postgres.source.publication import narrowed, publishes_all, read_published
from penstock.adapters.postgres.source.visibility import forget_seen, wait_until_seen, waiting_commits
from penstock.core.errors import FULL_REFRESH, UnavailableError, UsageError
from penstock.core.keys import read_key
from penstock.core.postgres.evolution import CAME_BACK, came_back, is_read_as_told
from penstock.core.postgres.log_items import Transaction
from penstock.core.postgres.relations import table_schema
from penstock.core.postgres.rows import RowDecoder
from penstock.core.snapshots import Method, require_key
from penstock.ports.snapshots import Chunk, ChunkOrder, Definition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from penstock.adapters.postgres.connection import PostgresServer
    from penstock.adapters.postgres.source.chunk_queries import KeyColumn
    from penstock.adapters.postgres.source.publication import Publication, Published
    from penstock.core.changes import RowBatch
    from penstock.core.positions import Position, WalPosition
    from penstock.core.postgres.catalog import SourceTable
    from penstock.core.postgres.types import SpecialValues, TypeInfo
    from penstock.core.snapshots import SnapshotOptions
    from penstock.core.tables import TableId, TableSchema
    from penstock.ports.relations import UnseenCommits

_CHUNK_BYTES: Final = 8 << 20
_KEYS_AT_ONCE: Final = 500
_QUERY_SECONDS: Final = 600
_SESSION: Final = f"SET statement_timeout = '{_QUERY_SECONDS}s'"


class _EnoughError(Exception):
    """No more rows fit into memory."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A table as the open transaction sees it."""

    table: SourceTable
    published: Published | None
    types: Mapping[int, TypeInfo]
    key: Sequence[KeyColumn]


class PostgresRowReader:
    """A `RowReader` over one connection, which is opened when it is needed and again when it was lost."""

    def __init__(
        self,
        server: PostgresServer,
        publication: Publication,
        special: SpecialValues,
        unseen: UnseenCommits | None = None,
    ) -> None:
        """Read from `server`, nothing before it has all of `unseen`, which the log has told of."""
        self._server = server
        self._publication = publication
        self._special = special
        self._unseen = unseen
        self._knows_waiting = unseen is None
        self._connection: psycopg.Connection | None = None

    def read(self, order: ChunkOrder) -> Chunk:
        """See ports/snapshots.RowReader."""
        schema = order.schema
        with self._transaction(schema.table) as connection:
            high = self._mark()
            found = self._look_at(connection, schema.table)
            now = self._shape(found, schema)
            if came_back(schema, now):
                message = f"table {schema.table}: {CAME_BACK}"
                raise UsageError(message, FULL_REFRESH)
            if not is_read_as_told(schema, now):
                message = (
                    f"table {schema.table} is being altered: the source and its log do not agree about its columns"
                )
                hint = (
                    "the log describes the altered table only before its next changed row: change one, for example by "
                    "UPDATE; then it is read again"
                )
                raise UnavailableError(message, hint)
            if order.options.keys:
                return self._read_keys(connection, order, found, high)
            return self._read_slice(connection, order, found, high)

    def define(self, table: TableId, low: Position, options: SnapshotOptions) -> Definition:
        """See ports/snapshots.RowReader."""
        del low, options
        with self._transaction(table) as connection:
            high = self._mark()
            return Definition(self._shape(self._look_at(connection, table), None), "", high)

    def lock(self, table: TableId, low: Position) -> Definition:
        """See ports/snapshots.RowReader: `check` has refused it."""
        del table, low
        raise _only_mysql(Method.FULL_LOCK)

    def holds(self, table: TableId) -> bool:
        """See ports/snapshots.RowReader."""
        del table
        return False

    def release(self) -> None:
        """See ports/snapshots.RowReader: nothing is ever locked."""

    def sweep(self, is_over: Callable[[str], bool]) -> None:
        """See ports/snapshots.RowReader: nothing is ever made."""

    def tables(self) -> Sequence[TableId]:
        """See ports/snapshots.RowReader: those that are published, and that our user may read."""
        return [table for table, _ in self._published_tables()]

    def tables_lacking_rows(self, position: WalPosition, carried: Collection[int]) -> Sequence[TableId]:
        """Return those of `tables` that may have rows which the log before `position` did not have.

        One whose number is among those `carried` has another name by now, which its next changed row tells of.
        """
        with closing(self._connect()) as connection:
            is_whole = publishes_all(connection, self._publication.name)
        found = [(t, oid) for t, oid in self._published_tables() if oid not in carried]
        return [t for t, oid in found if not (is_whole and position.has_all_of(oid))]

    def tables_published_otherwise(self, told: Sequence[TableSchema]) -> Sequence[TableId]:
        """Return those of the tables, as they were `told` of, whose rows changed while the log did not have them.

        Left out are those without a key, of which no snapshot can be taken.
        """
        with self._asking() as connection:
            published = read_published(connection, self._publication.name)
        found = [(each, published[each.table].number) for each in told if each.key and each.table in published]
        return [each.table for each, number in found if came_back(each, replace(each, published=number))]

    def check(self, table: TableId, options: SnapshotOptions) -> None:
        """See ports/snapshots.RowReader."""
        if options.method is not Method.READ_ONLY:
            raise _only_mysql(options.method)
        with self._transaction(table) as connection:
            found = self._look_at(connection, table)
            schema = self._shape(found, None)
            require_key(schema)
            for line in options.keys:
                read_key(schema, line)
            if options.where:
                statement = slice_statement(found.table, found.published, found.key, ("", ""), options)
                self._ask_where(connection, b"EXPLAIN " + statement, options)

    def waits(self) -> None:
        """See ports/snapshots.RowReader: for nothing."""

    def close(self) -> None:
        """Drop the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _published_tables(self) -> Sequence[tuple[TableId, int]]:
        with self._asking() as connection:
            published, unreadable = read_published(connection, self._publication.name), read_unreadable(connection)
            tables = read_tables(connection, self._publication.partitions)
        found = [(t.table.id, t.table.oid) for t in tables]
        return [(table, oid) for table, oid in found if table in published and table not in unreadable]

    @contextmanager
    def _asking(self) -> Iterator[psycopg.Connection]:
        """Connect for a question about the catalog."""
        with closing(self._connect()) as connection, explained(self._server):
            yield connection

    def _connect(self) -> psycopg.Connection:
        connection = connect(self._server)
        try:
            connection.execute(_SESSION.encode())
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _transaction(self, table: TableId) -> Iterator[psycopg.Connection]:
        """Open a snapshot of all that the log has told of, in which nobody alters the table."""
        connection = self._connection = self._connection or self._connect()
        try:
            self._begin(connection, table)
            yield connection
            connection.execute("ROLLBACK")
        except BaseException as error:
            self.close()
            if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
                raise _no_table(self._server, table) from error
            if isinstance(error, psycopg.Error):
                raise explain(self._server, error) from error
            raise

    def _begin(self, connection: psycopg.Connection, table: TableId) -> None:
        """Lock the table's definition, and take a snapshot behind all that the log has told of."""
        unseen = self._unseen
        if unseen is not None and not self._knows_waiting:
            # Whoever published before us knew of them; of what is committed from here on the log tells us.
            unseen.saw_commits(waiting_commits(connection))
            self._knows_waiting = True
        committed = () if unseen is None else unseen.committed()

        def begins() -> bool:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # No snapshot is taken before the lock is there: what it holds has the definition that the catalog has.
            connection.execute(f"LOCK TABLE {quoted(table)} IN ACCESS SHARE MODE".encode())
            if unseen is None or forget_seen(connection, committed, unseen):
                return True
            connection.execute("ROLLBACK")
            return False

        wait_until_seen(begins)

    def _mark(self) -> WalPosition:
        """Return a place behind all that the open transaction sees."""
        with closing(self._connect()) as connection:
            return write_mark(connection)

    def _look_at(self, connection: psycopg.Connection, table: TableId) -> _Found:
        row = connection.execute("SELECT to_regclass(%s)::oid::bigint", (quoted(table),)).fetchone()
        found = read_table(connection, row[0]) if row and row[0] is not None else None
        if found is None:
            raise _no_table(self._server, table)
        publication = self._publication.name
        published = read_published(connection, publication)
        if table not in published:
            message = f"the publication {publication} does not have {table}, so its changes are not in the log"
            raise UsageError(message, f"ALTER PUBLICATION {publication} ADD TABLE {table}")
        narrow = narrowed(found, published[table])
        return _Found(narrow, published[table], read_types(connection), read_key_columns(connection, found))

    def _shape(self, found: _Found, known: TableSchema | None) -> TableSchema:
        known = known if known is not None and known.number == found.table.relation.oid else None
        return table_schema(found.table.relation, found.table.table, found.types, known, self._special)

    def _read_slice(self, connection: psycopg.Connection, order: ChunkOrder, found: _Found, high: WalPosition) -> Chunk:
        """Read the rows behind the cursor in the order of the primary key."""
        schema, count = order.schema, order.options.chunk_rows
        key = _key_of(schema, found.key)
        expected = None if order.cursor else _rows_expected(connection, found.table.relation.oid)
        bounds = order.cursor, order.until
        if any(cursor and not cursor_behind(key, cursor) for cursor in bounds):
            return Chunk(None, None, high, None, begins_again=True)
        statement = slice_statement(found.table, found.published, key, bounds, order.options)
        fetched, is_cut = self._ask_where(connection, statement, order.options)
        rows = self._batch(schema, found, fetched, high)
        if not is_cut and len(fetched) < count:
            return Chunk(rows, None, high, None, expected)
        printed = dict(zip((column.name for column in schema.columns), fetched[-1], strict=True))
        cursor = cursor_after(key, printed)
        return Chunk(rows, None, high, cursor, expected, ahead=self._look_ahead(connection, order, found, cursor))

    def _look_ahead(
        self, connection: psycopg.Connection, order: ChunkOrder, found: _Found, cursor: str
    ) -> Sequence[str]:
        """Mark off the chunks behind this one: the index is skipped through, and no row is read."""
        key, cursors = _key_of(order.schema, found.key), [cursor]
        for _ in range(order.ahead):
            bounds = cursors[-1], order.until
            cells, _ = self._fetch(connection, skip_statement(found.table, found.published, key, bounds, order.options))
            if not cells:
                break
            cursors.append(cursor_after(key, dict(zip((c.name for c in key), cells[0], strict=True))))
        return cursors[1:]

    def _read_keys(self, connection: psycopg.Connection, order: ChunkOrder, found: _Found, high: WalPosition) -> Chunk:
        """Read the next of the listed rows, fewer where they are large; the cursor counts them."""
        keys, start = order.options.keys, int(order.cursor or 0)
        count = min(order.options.chunk_rows, _KEYS_AT_ONCE, len(keys) - start)
        while (read := self._read_listed(connection, order.schema, found, keys[start : start + count], high)) is None:
            count //= 2
        cursor = str(start + count) if start + count < len(keys) else None
        return Chunk(*read, high, cursor, len(keys))

    def _read_listed(
        self,
        connection: psycopg.Connection,
        schema: TableSchema,
        found: _Found,
        keys: Sequence[str],
        high: WalPosition,
    ) -> tuple[RowBatch | None, RowBatch | None] | None:
        """Return the rows with `keys`, and deletes of those that have none; None if they do not fit, as one does."""
        key = _key_of(schema, found.key)
        asked = list(dict.fromkeys(read_key(schema, line) for line in keys))
        places = [schema.key.index(column.name) for column in key]
        asked = [tuple(values[place] for place in places) for values in asked]
        try:
            printed, is_cut = self._fetch(connection, printed_statement(key, asked))
            there, was_cut = self._fetch(connection, keyed_statement(found.table, found.published, key, asked))
        except (psycopg.DataError, ValueError) as error:
            message = f"a key of the list is none of {schema.table}: {str(error).strip()}"
            raise UsageError(message, "write numbers and texts as SQL does, and bytes as 0x and hexadecimal") from error
        if is_cut or was_cut:
            return None
        names = [column.name for column in key]
        whole = [_widened(schema, dict(zip(names, cells, strict=True))) for cells in dict.fromkeys(printed)]
        gone = self._decoder(schema, found).gone(whole, there, _place(high))
        return self._batch(schema, found, there, high), gone

    def _batch(
        self, schema: TableSchema, found: _Found, cells: Sequence[tuple[bytes | None, ...]], high: WalPosition
    ) -> RowBatch | None:
        return self._decoder(schema, found).copied(cells, _place(high), 0) if cells else None

    def _decoder(self, schema: TableSchema, found: _Found) -> RowDecoder:
        return RowDecoder.of(schema, found.table.relation, found.types)

    def _ask_where(
        self, connection: psycopg.Connection, statement: bytes, options: SnapshotOptions
    ) -> tuple[Sequence[tuple[bytes | None, ...]], bool]:
        try:
            if statement.startswith(b"EXPLAIN"):
                connection.execute(statement)
                return (), False
            return self._fetch(connection, statement)
        except (psycopg.ProgrammingError, psycopg.DataError) as error:
            if not options.where or isinstance(error, errors.UndefinedTable | errors.InsufficientPrivilege):
                raise
            message = f"the server refused the condition {options.where!r}: {str(error).strip()}"
            raise UsageError(message, "give --where a condition on columns of the table, as after WHERE") from error

    def _fetch(
        self, connection: psycopg.Connection, statement: bytes
    ) -> tuple[Sequence[tuple[bytes | None, ...]], bool]:
        """Return the rows of a query as they are printed, and whether there were more than fit into memory."""
        cells: list[tuple[bytes | None, ...]] = []
        size_bytes = 0
        connection.execute("SAVEPOINT fetched")
        try:
            with closing(connection.cursor()) as cursor, cursor.copy(b"COPY (" + statement + b") TO STDOUT") as copy:
                for line in copy:
                    if size_bytes >= _CHUNK_BYTES:
                        raise _EnoughError  # noqa: TRY301 - an error alone has the driver end the query
                    cells.append(parse_line(bytes(line)))
                    size_bytes += len(line)
        except _EnoughError:
            connection.execute("ROLLBACK TO SAVEPOINT fetched")
            return cells, True
        return cells, False


def _only_mysql(method: Method) -> UsageError:
    message = f"--{method} is for MySQL and MariaDB: a snapshot of PostgreSQL locks nothing and writes no rows"
    return UsageError(message, f"leave --{method} out")


def _no_table(server: PostgresServer, table: TableId) -> UsageError:
    message = f"{server} has no table {table}, or does not show it to the source's user"
    return UsageError(message, "check its name, and the grants of the source's user")


def _key_of(schema: TableSchema, key: Sequence[KeyColumn]) -> Sequence[KeyColumn]:
    """Return the columns of the index that tells rows apart. Raises UsageError if the table's key has none."""
    require_key(schema)
    if {column.name for column in key} != set(schema.key):
        message = f"no index of {schema.table} has the order of its key ({', '.join(schema.key)})"
        raise UsageError(message, "give it a primary key whose columns have types of PostgreSQL's own")
    return key


def _place(high: WalPosition) -> Transaction:
    return Transaction(high.lsn, 0, time.time_ns() // 1_000_000)


def _widened(schema: TableSchema, values: Mapping[str, bytes | None]) -> tuple[bytes | None, ...]:
    return tuple([values.get(column.name) for column in schema.columns])


def _rows_expected(connection: psycopg.Connection, oid: int) -> int | None:
    """About how many rows there are, as the server estimates; None if it does not."""
    row = connection.execute("SELECT reltuples::bigint FROM pg_class WHERE oid = %s::oid", (oid,)).fetchone()
    return row[0] if row and row[0] > 0 else None
