"""A PostgreSQL database as a warehouse."""

from __future__ import annotations

import random
import time
import zlib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg import errors

from penstock.adapters.postgres.catalog import find_dependents, read_attributes, read_columns
from penstock.adapters.postgres.connection import PostgresServer, connect, explain
from penstock.adapters.postgres.copy_text import render_csv
from penstock.core.errors import PenstockError, SinkError, TableStoppedError, TableWaitsError, UnavailableError
from penstock.core.files import staged_columns
from penstock.core.warehouse.columns import CORRECT_VALUE
from penstock.core.warehouse.dialect import Dialect, quote_name, render_type
from penstock.core.warehouse.dialects import POSTGRES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from penstock.core.batches import Batch
    from penstock.core.tables import TableId, TableSchema
    from penstock.core.warehouse.attributes import Attributes
    from penstock.core.warehouse.migration import Dependent
    from penstock.core.warehouse.target_table import TargetTable
    from penstock.ports.warehouse import Value

T = TypeVar("T")

_STAGED = "__penstock_staged"
_ATTEMPTS = 6
_FIRST_PAUSE_SECONDS = 0.1
_CONFLICTS = (errors.SerializationFailure, errors.DeadlockDetected, errors.DuplicateTable, errors.DuplicateSchema)
_ROWS_TAKEN_AWAY = "a trigger in the target takes rows away: disable it"
_LOCK_SPACE = 0x70656E73  # "pens": PostgreSQL names its advisory locks by two numbers.
_TABLE_LOCK_SPACE = _LOCK_SPACE + 1
_WRITES_LOCKED = (errors.LockNotAvailable, errors.QueryCanceled, errors.DiskFull, errors.InsufficientResources)
"""What may be over for a table while others go on: a tablespace of its own is full, its rows take too much memory."""


class PostgresWarehouse:
    """A connection to a database of PostgreSQL 13 or later. It implements the port `Warehouse`."""

    def __init__(self, server: PostgresServer, owner: str) -> None:
        """Connect. Transactions of the same `owner` take turns, wherever they run.

        Raises UnavailableError for a server that is away and SinkError for one
        that refuses the login.
        """
        self._server = server
        self._lock = zlib.crc32(owner.encode()) - 2**31
        self._connection = connect(server)

    @property
    def dialect(self) -> Dialect:
        """See `Warehouse`."""
        return POSTGRES

    @property
    def catalog(self) -> str:
        """See `Warehouse`: a connection sees one database."""
        return ""

    def transact(self, work: Callable[[], T], tables: Sequence[TableId] = (), *, lock_seconds: float = 2.0) -> T:
        """See `Warehouse`. Conflicts with other writers are tried again, six times in all, within about 6 s.

        Where `tables` are known, others are not to wait for them as long: only for `lock_seconds` or so.
        """
        began = time.monotonic()
        for attempt in range(_ATTEMPTS):
            try:
                return self._transact_once(work, tables, lock_seconds)
            except SinkError as error:
                if not _is_conflict(error.__cause__):
                    raise
                is_last = attempt == _ATTEMPTS - 1
                if tables and (is_last or time.monotonic() - began > lock_seconds):
                    raise _waits(tables[0], error) from error
                if is_last:
                    raise
            time.sleep(_FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1))  # noqa: S311 - not for secrets
        raise AssertionError

    def _transact_once(self, work: Callable[[], T], tables: Sequence[TableId], lock_seconds: float) -> T:
        began = False
        try:
            with self._connection.transaction():
                self._take_turns(tables, lock_seconds)
                began = True
                return work()
        except psycopg.Error as error:
            raise explain(self._server, error) from error
        except UnavailableError as error:
            # Before, it was another instance of ours who held us up.
            if not tables or not began or not isinstance(error.__cause__, _WRITES_LOCKED):
                raise
            raise _waits(tables[0], error) from error

    def _take_turns(self, tables: Sequence[TableId], lock_seconds: float) -> None:
        """Wait for others of our owner: for all of them, or only for those who load one of `tables` or all tables."""
        if not tables:
            self._execute("SELECT pg_advisory_xact_lock(?, ?)", [_LOCK_SPACE, self._lock])
            return
        locks = ["pg_advisory_xact_lock_shared(?, ?)", *["pg_advisory_xact_lock(?, ?)"] * len(tables)]
        values: list[Value] = [_LOCK_SPACE, self._lock]
        for number in sorted(zlib.crc32(f"{self._lock}/{table}".encode()) - 2**31 for table in tables):
            values += [_TABLE_LOCK_SPACE, number]
        # From here on it is others who may hold the tables.
        patience = f"set_config('lock_timeout', '{round(lock_seconds * 1000)}ms', TRUE)"
        self._execute(f"SELECT {', '.join(locks)}, {patience}", values)

    def run(self, statement: str, values: Sequence[Value] = ()) -> None:
        """See `Warehouse`."""
        self._execute(statement, values)

    def fetch(self, statement: str, values: Sequence[Value] = ()) -> list[tuple[Value, ...]]:
        """See `Warehouse`."""
        return self._execute(statement, values).fetchall()

    @contextmanager
    def staged(self, schema: TableSchema, rows: pa.Table) -> Iterator[str]:
        """See `Warehouse`. The rows are copied into a temporary table."""
        name = quote_name(POSTGRES, _STAGED)
        listed = ", ".join(f"{quote_name(POSTGRES, column.name)} {render_type(POSTGRES, column.type)}"
                           for column in staged_columns(schema, rows.column_names))  # fmt: skip
        self.run(f"CREATE TEMPORARY TABLE {name} ({listed}) ON COMMIT DROP")
        self._copy(name, schema.table, rows)
        # Else PostgreSQL supposes 200 keys, and looks up one after the other where it should join.
        self.run(f"ANALYZE {name}")
        try:
            yield name
        finally:
            # After a failure nothing can be done here any more, and the table goes with the transaction.
            with suppress(PenstockError):
                self.run(f"DROP TABLE {name}")

    def staged_files(self, schema: TableSchema, batches: Sequence[Batch]) -> None:
        """See `Warehouse`: PostgreSQL fetches no files."""

    def adding(self) -> Callable[[TargetTable, pa.Table], None]:
        """See `Warehouse`. A row that is copied where it belongs is neither written nor sorted a second time."""
        return self._add

    def exists(self, table: TableId) -> bool:
        """See `Warehouse`. To PostgreSQL quoted names that differ in case are different names."""
        query = (
            "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = ? AND c.relname = ?"
        )
        return bool(self.fetch(query, [table.schema, table.name]))

    def has_schema(self, name: str) -> bool:
        """See `Warehouse`."""
        return bool(self.fetch("SELECT 1 FROM pg_namespace WHERE nspname = ?", [name]))

    def columns(self, table: TableId) -> Mapping[str, str]:
        """See `Warehouse`."""
        return read_columns(self.fetch, table)

    def layout(self, schema: TableSchema) -> None:
        """See `Warehouse`: a table is in one place here."""

    def attributes(self, table: TableId) -> Attributes:
        """See `Warehouse`."""
        return read_attributes(self.fetch, table)

    def dependents(self, table: TableId) -> Sequence[Dependent]:
        """See `Warehouse`."""
        return find_dependents(self.fetch, table)

    def close(self) -> None:
        """See `Warehouse`."""
        self._connection.close()

    def _add(self, target: TargetTable, rows: pa.Table) -> None:
        names = ", ".join(quote_name(POSTGRES, name) for name in rows.column_names)
        self._copy(f"{target.path(POSTGRES)} ({names})", target.schema.table, rows)

    def _copy(self, into: str, table: TableId, rows: pa.Table) -> None:
        try:
            with self._connection.cursor() as cursor:
                with cursor.copy(f"COPY {into} FROM STDIN (FORMAT csv)") as copy:
                    for content in render_csv(rows):
                        copy.write(content)
                copied = cursor.rowcount
        except errors.DataError as error:
            # The context has the line and the column: COPY __penstock_staged, line 3, column seen_at: "..."
            reason = f"{error.diag.message_primary} ({error.diag.context or 'no place is told'})"
            hint = CORRECT_VALUE
            raise TableStoppedError(str(table), "", "the target's table", reason, hint) from error
        except psycopg.Error as error:
            raise explain(self._server, error) from error
        if copied != rows.num_rows:
            reason = f"the target took {copied} of {rows.num_rows} row(s)"
            raise TableStoppedError(str(table), "", "the target's table", reason, _ROWS_TAKEN_AWAY)

    def _execute(self, statement: str, values: Sequence[Value] = ()) -> psycopg.Cursor[tuple[Value, ...]]:
        text = statement.replace("?", "%s") if values else statement
        try:
            return self._connection.execute(text, list(values) or None)
        except psycopg.Error as error:
            raise explain(self._server, error) from error


def _waits(table: TableId, error: PenstockError) -> TableWaitsError:
    return TableWaitsError(str(table), "", "the target's table", error.message, error.hint)


def _is_conflict(cause: BaseException | None) -> bool:
    """Whether another writer is to blame: also one that made the same schema or table at the same moment."""
    made_at_once = isinstance(cause, errors.UniqueViolation) and cause.diag.schema_name == "pg_catalog"
    return made_at_once or isinstance(cause, _CONFLICTS)
