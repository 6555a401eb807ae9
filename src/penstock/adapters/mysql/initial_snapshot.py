"""A copy of tables as they were at one position of the log, without holding up anyone who writes."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pymysql
from pymysql.constants import ER

from penstock.adapters.mysql.catalog import (
    Creates,
    quote_table,
    read_create,
    read_creates,
    read_flavour,
    read_tables,
)
from penstock.adapters.mysql.connection import MysqlServer, ask, connect, error_code, explain, server_of
from penstock.adapters.mysql.history import gtids_at, head, read_statements
from penstock.adapters.mysql.prepared import has_xa, place_without_prepared, with_prepared
from penstock.adapters.mysql.printed_rows import select_rows, stream_rows
from penstock.adapters.mysql.write_locks import WAITING, all_writes_locked, is_denied, writes_locked
from penstock.core.arrow_types import arrow_schema
from penstock.core.changes import Op, RowBatch
from penstock.core.errors import READ_AGAIN, PenstockError, TableStoppedError, UnavailableError, UnfitServerError
from penstock.core.mysql.log.log_items import StatementLogged
from penstock.core.mysql.statements.ddl import TableDdl, classify
from penstock.core.mysql.types.text_values import parse_values
from penstock.core.positions import BinlogPosition
from penstock.core.table_policy import DEFAULT_POLICY
from penstock.core.tables import TableId, TableSchema, UnsupportedType

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from penstock.core.mysql.types.text_rows import PrintedRows
    from penstock.core.table_policy import TablePolicy

SILENCE_SECONDS = 300.0
"""So long a server may look for a table's next row: it passes by all that came and went since the snapshot."""

_ATTEMPTS = 5
_SAVEPOINT = "penstock_table"
_SNAPSHOT_ENGINE = "InnoDB"
_CHANGED = frozenset({ER.TABLE_DEF_CHANGED, ER.NO_SUCH_TABLE, ER.BAD_FIELD_ERROR, ER.BAD_DB_ERROR})
_EMPTYING = frozenset({"truncate", "drop", "create"})
_LEAVE_OUT = 'or leave the table out with "!{table}" under tables'
# No padding of CHAR values, and definitions always printed in one way.
_PLAIN_MODE = "SET SESSION sql_mode = ''"
_SESSION = (
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    _PLAIN_MODE,
    WAITING,
    "SET SESSION net_write_timeout = 600",
    # Before the first row, all tables are registered and have their topics made.
    "SET SESSION wait_timeout = 28800",
)
_NO_TIME_LIMIT = {"mariadb": "max_statement_time", "mysql": "max_execution_time"}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was found when the snapshot was taken."""

    position: BinlogPosition
    schemas: Mapping[TableId, TableSchema]
    creates: Creates
    timestamp_ms: int
    server_id: int


class _ChangedError(UnavailableError):
    """A table is not the one any more that it was when the snapshot was taken."""


@contextlib.contextmanager
def open_initial_snapshot(
    server: MysqlServer, wanted: Callable[[TableId], bool], policy: TablePolicy = DEFAULT_POLICY
) -> Iterator[MysqlInitialSnapshot]:
    """Open a `InitialSnapshot` of the tables that are `wanted`, shaped as `policy` wants them.

    On MariaDB nothing is locked: START TRANSACTION WITH CONSISTENT SNAPSHOT and
    the status variables Binlog_snapshot_file and _position agree (MariaDB Server
    documentation, "Enhancements for START TRANSACTION WITH CONSISTENT
    SNAPSHOT"); but not about XA transactions. Where the log has had any just now,
    and on MySQL always, writers wait for the moment in which the snapshot is taken:
    see `writes_locked`. Definitions of tables are in no snapshot: they are read before and
    after, and it is taken again when they differ. XA transactions that are
    prepared when we come are waited for; see `place_without_prepared`.

    Raises UnavailableError when the server is away or tables change all the
    while, and UnfitServerError when we may not do what is needed or XA
    transactions stay prepared.
    """
    connection = connect(server, silence_seconds=SILENCE_SECONDS)
    try:
        for statement in (*_SESSION, f"SET SESSION {_NO_TIME_LIMIT[read_flavour(connection)]} = 0"):
            ask(connection, statement)
        _let_locks_go(connection)
        yield MysqlInitialSnapshot(server, connection, _take_snapshot(server, connection, wanted, policy))
    finally:
        # The server ends the transaction. A connection that was lost is closed already.
        if connection.open:
            connection.close()


class MysqlInitialSnapshot:
    """A `InitialSnapshot` in one open transaction. Its tables are read one after the other."""

    def __init__(self, server: MysqlServer, connection: pymysql.Connection, snapshot: Snapshot) -> None:
        """Read from `connection`, whose transaction is the one of `snapshot`."""
        self._server = server
        self._connection = connection
        self._snapshot = snapshot
        self._done: defaultdict[tuple[str, str], list[TableDdl]] = defaultdict(list)
        self._read_until = snapshot.position

    @property
    def position(self) -> BinlogPosition:
        """Where the log goes on from what is copied."""
        return self._snapshot.position

    @property
    def schemas(self) -> Mapping[TableId, TableSchema]:
        """The wanted tables, sorted."""
        return self._snapshot.schemas

    @property
    def creates(self) -> str:
        """Every table of the server, wanted or not, as a dump that the tracker restores."""
        return self._snapshot.creates.to_json()

    def rows(self, table: TableId, batch_rows: int) -> Generator[RowBatch]:
        """Yield the rows of a wanted `table` in READ batches of up to `batch_rows`, fewer where rows are large.

        Each batch has the offset of `position`, and rows counted on from 0. Nobody
        can alter the table while it is read, or, if our user lacks BINLOG ADMIN,
        until the copy ends. Nothing comes of one that was emptied or dropped since
        `position`: nobody can read its rows any more, and the log says that they went.
        Raises TableStoppedError for a value, a column or an engine that cannot be
        carried, UnavailableError when the table was altered or renamed since then.
        """
        schema = self.schemas[table]
        self._check_types(schema)
        try:
            yield from self._locked_rows(schema, batch_rows)
        except _ChangedError:
            # Under its lock a table stays as it is, so nothing was read.
            if not self._was_emptied(table):
                raise

    def _locked_rows(self, schema: TableSchema, batch_rows: int) -> Generator[RowBatch]:
        try:
            with self._locked(schema.table):
                first = 0
                with contextlib.closing(
                    stream_rows(self._server, self._connection, select_rows(schema), batch_rows)
                ) as fetches:
                    for fetched in fetches:
                        yield self._batch(schema, fetched, first)
                        first += len(fetched)
        except pymysql.err.MySQLError as error:
            found = self._changed(schema.table) if error_code(error) in _CHANGED else explain(error, self._server)
            raise found from error

    def _check_types(self, schema: TableSchema) -> None:
        for column in schema.columns:
            if isinstance(column.type, UnsupportedType):
                reason = f"its type {column.type.declaration} cannot be carried exactly yet"
                raise self._stopped(schema.table, column.name, reason, "change the type")

    @contextlib.contextmanager
    def _locked(self, table: TableId) -> Iterator[None]:
        """Hold the table's metadata lock, by which the transaction keeps others from altering it, and let it go."""
        connection = self._connection
        try:
            ask(connection, f"SAVEPOINT {_SAVEPOINT}")
            ask(connection, f"SELECT 1 FROM {quote_table(table)} LIMIT 0")  # noqa: S608 - the name is quoted
            self._check_unchanged(table)
            yield
        except PenstockError as error:
            if error_code(error) in _CHANGED:
                raise self._changed(table) from error
            raise
        finally:
            # After a lost connection there is nothing to let go of.
            with contextlib.suppress(UnavailableError):
                ask(connection, "SET character_set_results = utf8mb4")
                ask(connection, f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")

    def _check_unchanged(self, table: TableId) -> None:
        """Compare the table with the one we saw, and see that its engine knows snapshots.

        The server itself notices a table that was rebuilt (error 1412), but
        neither one altered in place nor another one of the same name. Asked over
        another connection: in this one MySQL's information_schema tells how the
        table was when the snapshot was taken.
        """
        with contextlib.closing(connect(self._server)) as other:
            ask(other, _PLAIN_MODE)
            now, engine = read_create(other, table)
        seen = next(create for create in self._snapshot.creates.tables if create.table == table)
        if now != seen or self._was_renamed(table):
            raise self._changed(table)
        if engine != _SNAPSHOT_ENGINE:
            reason = f"its engine {engine} cannot be read as it was at a position of the log"
            raise self._stopped(table, "", reason, f"ALTER TABLE {quote_table(table)} ENGINE={_SNAPSHOT_ENGINE}")

    def _was_renamed(self, table: TableId) -> bool:
        """Whether a table got or lost this name since the position, by the log.

        Nothing else tells of two that are alike, and were created in the same second.
        """
        return any(done.renames for done in self._done_to(table))

    def _was_emptied(self, table: TableId) -> bool:
        """Whether all that was done to a table since the position, by the log, is to empty it, drop it or make it anew.

        An ALTER would tell of rows that were there, so that nobody could leave them out.
        """
        done = self._done_to(table)
        is_empty = any(ddl.action in {"truncate", "drop"} or ddl.replaces for ddl in done)
        return is_empty and all(ddl.action in _EMPTYING for ddl in done)

    def _done_to(self, table: TableId) -> Sequence[TableDdl]:
        """The statements on a table that were logged since the position."""
        for said in read_statements(self._connection, self._read_until):
            self._read_until = said.end
            if not isinstance(said, StatementLogged):
                continue
            ddl = classify(said.sql, said.session.sql_mode)
            if isinstance(ddl, TableDdl):
                if said.of_session and ddl.action == "truncate":
                    # It may have been a temporary table. A DROP of one says so.
                    ddl = replace(ddl, action="unknown")
                for schema, name in ddl.tables:
                    self._done[(schema or said.default_schema).casefold(), name.casefold()].append(ddl)
        return self._done[table.schema.casefold(), table.name.casefold()]

    def _batch(self, schema: TableSchema, fetched: PrintedRows, first: int) -> RowBatch:
        count, snapshot = len(fetched), self._snapshot
        arrays = []
        for column, values in zip(schema.columns, fetched.columns, strict=True):
            try:
                arrays.append(parse_values(column.type, values, in_key=column.name in schema.key))
            except ValueError as error:
                raise self._stopped(schema.table, column.name, f"{error}", "correct the value in the source") from error
        return RowBatch(
            schema=schema,
            op=Op.READ,
            before=None,
            after=pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema)),
            file=snapshot.position.file,
            offsets=np.full(count, snapshot.position.offset, np.int64),
            rows=np.arange(first, first + count, dtype=np.int32),
            timestamps_ms=np.full(count, snapshot.timestamp_ms, np.int64),
            gtids=pa.array([""] * count, pa.string()),
            server_id=snapshot.server_id,
        )

    def _changed(self, table: TableId) -> _ChangedError:
        return _ChangedError(
            f"table {table} was altered or renamed while the initial snapshot at {self.position} was made",
            "it is made again from its beginning at the next start: alter no tables until it is whole",
        )

    def _stopped(self, table: TableId, column: str, reason: str, hint: str) -> TableStoppedError:
        return TableStoppedError(
            str(table),
            column,
            str(self.position),
            reason,
            f"{hint}, then {READ_AGAIN}; {_LEAVE_OUT.format(table=table)}",
        )


def _let_locks_go(connection: pymysql.Connection) -> None:
    """Have ROLLBACK TO SAVEPOINT let go of metadata locks, which servers do for a session that logs nothing only.

    Without the privilege for it (BINLOG ADMIN) the locks stay until the copy ends.
    """
    try:
        ask(connection, "SET SESSION sql_log_bin = 0")
    except UnfitServerError as error:
        if error_code(error) != ER.SPECIFIC_ACCESS_DENIED_ERROR:
            raise


def _take_snapshot(
    server: MysqlServer, connection: pymysql.Connection, wanted: Callable[[TableId], bool], policy: TablePolicy
) -> Snapshot:
    for _ in range(_ATTEMPTS):
        before = read_creates(connection, wanted)
        place = place_without_prepared(connection)
        tables = [create.table for create in before.tables if wanted(create.table)]
        position = with_prepared(_START[read_flavour(connection)](connection, place, tables), place)
        schemas = read_tables(connection, tables, policy)
        now, server_id = ask(connection, "SELECT ROUND(UNIX_TIMESTAMP(NOW(3)) * 1000), @@GLOBAL.server_id")[0]
        if before == read_creates(connection, wanted):
            return Snapshot(position, schemas, before, int(now), int(server_id))
        ask(connection, "ROLLBACK")
    message = (
        f"tables of {server} were created, altered or dropped during each of {_ATTEMPTS} attempts to snapshot them"
    )
    raise UnavailableError(message, "try again when the source's tables are not being changed")


def _start_on_mariadb(connection: pymysql.Connection, place: BinlogPosition, _: Sequence[TableId]) -> BinlogPosition:
    position = _snapshot_on_mariadb(connection)
    if not has_xa(connection, place, position):
        return position
    # An XA COMMIT is in the log before its rows are in InnoDB, and the snapshot may lie between the two.
    ask(connection, "ROLLBACK")
    try:
        with all_writes_locked(connection):
            return _snapshot_on_mariadb(connection)
    except UnfitServerError as error:
        if not is_denied(error):
            raise
        message = f"{server_of(connection)} has XA transactions, which a snapshot has to lock out, and its user may not"
        hint = "GRANT RELOAD ON *.* to the source's `user`, or start while there are none"
        raise UnfitServerError(message, hint) from error


def _snapshot_on_mariadb(connection: pymysql.Connection) -> BinlogPosition:
    ask(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    status = {name.lower(): value for name, value in ask(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'")}
    file, offset = status.get("binlog_snapshot_file", ""), int(status.get("binlog_snapshot_position") or 0)
    if not file:
        message = f"{server_of(connection)} writes no binlog"
        raise UnfitServerError(message, "start the server with log_bin")
    return BinlogPosition(file, offset, gtids=gtids_at(connection, file, offset))


def _start_on_mysql(connection: pymysql.Connection, _: BinlogPosition, tables: Sequence[TableId]) -> BinlogPosition:
    with writes_locked(connection, tables):
        ask(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        return head(connection)


_START = {"mariadb": _start_on_mariadb, "mysql": _start_on_mysql}
