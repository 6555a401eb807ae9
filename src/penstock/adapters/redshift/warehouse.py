"""An Amazon Redshift database as a warehouse."""

from __future__ import annotations

import random
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from penstock.adapters.redshift.catalog import find_dependents, fold_name, has_table, read_attributes, read_columns
from penstock.adapters.redshift.connection import (
    DRIVER_ERRORS,
    LOCK_HINT,
    RedshiftCluster,
    close,
    connect,
    execute,
    explain,
    is_conflict,
    told,
)
from penstock.adapters.redshift.load_files import ROWS_COMPRESSION, write_manifest, written_rows
from penstock.core.errors import (
    START_ANEW,
    PenstockError,
    RefusedStatementError,
    SinkError,
    TableStoppedError,
    TableWaitsError,
    UnavailableError,
)
from penstock.core.files import file_columns, staged_columns
from penstock.core.tables import TableId
from penstock.core.warehouse.columns import CORRECT_VALUE
from penstock.core.warehouse.dialect import Dialect, quote_name, render_type
from penstock.core.warehouse.dialects import REDSHIFT
from penstock.core.warehouse.empty_binaries import mark_empty, may_confuse, plan_marked, plan_never_null
from penstock.core.warehouse.redshift_copy import can_copy, group_files, plan_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from penstock.core.batches import Batch
    from penstock.core.csv_dialect import CsvDialect
    from penstock.core.tables import Column, TableSchema
    from penstock.core.warehouse.attributes import Attributes, Spread
    from penstock.core.warehouse.migration import Dependent
    from penstock.core.warehouse.redshift_copy import CopyRights
    from penstock.core.warehouse.table_layout import TableLayouts
    from penstock.ports.objects import ObjectStore
    from penstock.ports.warehouse import Value

T = TypeVar("T")

_STAGED = "__penstock_staged"
_ATTEMPTS = 6
_FIRST_PAUSE_SECONDS = 0.1
_LOCK_SECONDS = 60
_STATEMENT_SECONDS = 3600
"""A statement that takes longer has hung: the transaction is undone, and tried again."""
_ABSENT = ("42P01", "3F000")
_CANCELLED = "57014"
_INTERNAL = "XX000"
_SHOWN_CHARACTERS = 200
_FORBIDDEN = ("Access Denied", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "not authorized", "IAM")
_FILES = "the files of the load"
_RESTORE = f"restore the file, or {START_ANEW}"


@dataclass(frozen=True, slots=True)
class RedshiftLoads:
    """What a sink's loads need beside the database.

    `store` has the batch files, at the S3 URL `store_url`; `rights` let the
    cluster read them. Manifests are `pipeline`'s and the `sink`'s. `state` is the
    schema of the state tables, of which `turns` is locked by whoever begins a
    transaction, and `layouts` say how tables that are made are spread and sorted.
    `dialect` is one of Redshift's.
    """

    store: ObjectStore
    store_url: str
    rights: CopyRights
    pipeline: str
    sink: str
    state: str
    layouts: TableLayouts
    dialect: Dialect = REDSHIFT
    turns: str = "positions"


class RedshiftWarehouse:
    """A connection to a database of Amazon Redshift. It implements the port `Warehouse`."""

    def __init__(self, cluster: RedshiftCluster, loads: RedshiftLoads) -> None:
        """Connect. Transactions with the same state tables take turns, wherever they run.

        Raises UnavailableError for a cluster that is away and SinkError for one
        that refuses the login.
        """
        self._cluster = cluster
        self._loads = loads
        self._connection = connect(cluster)

    @property
    def dialect(self) -> Dialect:
        """See `Warehouse`."""
        return self._loads.dialect

    @property
    def catalog(self) -> str:
        """See `Warehouse`: a connection works in one database."""
        return ""

    def transact(self, work: Callable[[], T], tables: Sequence[TableId] = (), *, lock_seconds: float = 5.0) -> T:
        """See `Warehouse`. Error 1023 and other conflicts are tried again, six times in all, within about 6 s."""
        for attempt in range(_ATTEMPTS):
            try:
                return self._transact_once(work, tables, lock_seconds)
            except SinkError as error:
                if not is_conflict(error.__cause__):
                    raise
                if attempt == _ATTEMPTS - 1:
                    if not tables:
                        raise
                    hint = "see what else writes to the table; it is tried again by itself"
                    raise TableWaitsError(str(tables[0]), "", "the target's table", error.message, hint) from error
            time.sleep(_FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1))  # noqa: S311 - not for secrets
        raise AssertionError

    def _transact_once(self, work: Callable[[], T], tables: Sequence[TableId], lock_seconds: float) -> T:
        self._begin(tables, lock_seconds)
        try:
            done = work()
            self.run("COMMIT")
        except UnavailableError as error:
            self._roll_back()
            if not tables or told(error.__cause__).get("C") != _CANCELLED:
                raise
            raise _waits(tables[0], error) from error
        except _FailedLoadError as error:
            self._roll_back()
            raise self._find_load_error(error) from error
        except BaseException:
            self._roll_back()
            raise
        return done

    def _begin(self, tables: Sequence[TableId], lock_seconds: float) -> None:
        """Begin a transaction, whose first statement waits for others of our owner: see "Serializable isolation"."""
        self.run(f"SET statement_timeout TO {_LOCK_SECONDS * 1000}")
        try:
            self.run("BEGIN")
            self._lock(TableId(self._loads.state, self._loads.turns))
            if tables:
                self.run(f"SET statement_timeout TO {int(min(_LOCK_SECONDS, lock_seconds) * 1000)}")
            for table in tables:
                self._lock_target(table)
            self.run(f"SET statement_timeout TO {_STATEMENT_SECONDS * 1000}")
        except BaseException:
            self._roll_back()
            raise

    def _lock(self, table: TableId) -> bool:
        """Lock a table, if it is there; else a transaction begins anew, without the lock."""
        try:
            self.run(f"LOCK {quote_name(REDSHIFT, table.schema, table.name)}")
        except SinkError as error:
            if told(error.__cause__).get("C") not in _ABSENT:
                raise
            self._roll_back()
            self.run("BEGIN")
            return False
        except UnavailableError as error:
            if told(error.__cause__).get("C") != _CANCELLED:
                raise
            message = f"{self._cluster} did not grant a lock of {table} in time"
            raise UnavailableError(message, LOCK_HINT) from error.__cause__
        return True

    def _lock_target(self, table: TableId) -> None:
        """Lock a table that is to be loaded. Raises TableWaitsError where somebody else holds it."""
        if not self.exists(table):
            return
        try:
            self._lock(table)
        except UnavailableError as error:
            if told(error.__cause__).get("C") != _CANCELLED:
                raise
            raise _waits(table, error) from error

    def _roll_back(self) -> None:
        # Where the connection is gone, so is the transaction.
        with suppress(PenstockError):
            self.run("ROLLBACK")

    def run(self, statement: str, values: Sequence[Value] = ()) -> None:
        """See `Warehouse`."""
        try:
            execute(self._connection, statement, values)
        except DRIVER_ERRORS as error:
            raise explain(self._cluster, error) from error

    def fetch(self, statement: str, values: Sequence[Value] = ()) -> list[tuple[Value, ...]]:
        """See `Warehouse`."""
        try:
            return [tuple(row) for row in execute(self._connection, statement, values).fetchall()]
        except DRIVER_ERRORS as error:
            raise explain(self._cluster, error) from error

    @contextmanager
    def staged(self, schema: TableSchema, rows: pa.Table) -> Iterator[str]:
        """See `Warehouse`. The rows are written as a file, which is copied into a temporary table."""
        loads, columns = self._loads, staged_columns(schema, rows.column_names)
        marked = mark_empty(columns, rows)
        with written_rows(loads.store, loads.store_url, loads.pipeline, loads.sink, marked.rows) as (url, dialect):
            name = self._create_staged([*columns, *marked.columns])
            self._copy(schema, name, url, rows.num_rows, (dialect, ROWS_COMPRESSION))
        for statement in plan_marked(name, marked):
            self.run(statement)
        yield from self._leave(name)

    def staged_files(self, schema: TableSchema, batches: Sequence[Batch]) -> AbstractContextManager[str] | None:
        """See `Warehouse`. CSV files are copied as they are, unless COPY would take an empty binary for NULL."""
        if may_confuse(schema) or not all(map(can_copy, batches)):
            return None
        return self._staged_files(schema, batches)

    @contextmanager
    def _staged_files(self, schema: TableSchema, batches: Sequence[Batch]) -> Iterator[str]:
        loads = self._loads
        name = self._create_staged(file_columns(schema))
        for files in group_files(batches):
            url, rows = write_manifest(loads.store, loads.store_url, loads.pipeline, loads.sink, files)
            dialect = files[0].dialect
            assert dialect is not None  # noqa: S101 - can_copy has looked
            self._copy(schema, name, url, rows, (dialect, files[0].compression))
        for statement in plan_never_null(name, schema):
            self.run(statement)
        yield from self._leave(name)

    def adding(self) -> None:
        """See `Warehouse`: Redshift copies from files alone."""

    def exists(self, table: TableId) -> bool:
        """See `Warehouse`."""
        return has_table(self.fetch, table)

    def has_schema(self, name: str) -> bool:
        """See `Warehouse`."""
        return bool(self.fetch("SELECT 1 FROM pg_namespace WHERE nspname = ?", [fold_name(name)]))

    def columns(self, table: TableId) -> Mapping[str, str]:
        """See `Warehouse`."""
        return read_columns(self.fetch, table)

    def layout(self, schema: TableSchema) -> Spread | None:
        """See `Warehouse`."""
        return self._loads.layouts.of(schema)

    def attributes(self, table: TableId) -> Attributes:
        """See `Warehouse`."""
        return read_attributes(self.fetch, table)

    def dependents(self, table: TableId) -> Sequence[Dependent]:
        """See `Warehouse`."""
        return find_dependents(self.fetch, table)

    def close(self) -> None:
        """See `Warehouse`."""
        close(self._connection)

    def _create_staged(self, columns: Sequence[Column]) -> str:
        name = quote_name(REDSHIFT, _STAGED)
        listed = ", ".join(f"{quote_name(REDSHIFT, column.name)} {render_type(self.dialect, column.type)}"
                           for column in columns)  # fmt: skip
        self.run(f"CREATE TEMPORARY TABLE {name} ({listed})")
        return name

    def _leave(self, name: str) -> Iterator[str]:
        try:
            yield name
        finally:
            # After a failure nothing can be done here any more, and the table goes with the transaction.
            with suppress(PenstockError):
                self.run(f"DROP TABLE {name}")

    def _copy(self, schema: TableSchema, name: str, url: str, rows: int, written: tuple[CsvDialect, str]) -> None:
        dialect, compression = written
        try:
            self.run(plan_copy(name, url, self._loads.rights.render(), dialect, compression))
        except SinkError as error:
            if isinstance(error, RefusedStatementError) and told(error.__cause__).get("C") != _INTERNAL:
                raise
            raise self._explain_load(schema, error) from error.__cause__
        ((copied,),) = self.fetch("SELECT pg_last_copy_count()")
        if int(copied) != rows:
            reason = f"COPY brought {copied} rows, and their batch messages say {rows}"
            raise TableStoppedError(str(schema.table), "", _FILES, reason, _RESTORE)

    def _explain_load(self, schema: TableSchema, error: SinkError) -> PenstockError:
        said = told(error.__cause__)
        message = said.get("M", "")
        if "load_error" in message:
            return _FailedLoadError(str(schema.table), "", _FILES, message, _RESTORE)
        if said.get("C") != _INTERNAL or is_conflict(error.__cause__):
            return error
        reason = f"{message} {said.get('D', '')}".strip()
        if any(word in reason for word in _FORBIDDEN):
            hint = "correct the sink's iam_role, or the keys in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            return SinkError(f"{self._cluster} may not read the files to load: {reason}", hint)
        return TableStoppedError(str(schema.table), "", _FILES, reason, _RESTORE)

    def _find_load_error(self, failed: _FailedLoadError) -> PenstockError:
        """Say which row of which file ended a COPY, which can only be asked in a transaction of its own."""
        query = """
            SELECT RTRIM(file_name), line_number, RTRIM(column_name), RTRIM(raw_field_value), RTRIM(error_message)
            FROM sys_load_error_detail WHERE session_id = pg_backend_pid()
            ORDER BY start_time DESC, query_id DESC LIMIT 1"""
        with suppress(PenstockError):
            for file, line, column, value, reason in self.fetch(query):
                place = f"{file}, line {line}, value {str(value)[:_SHOWN_CHARACTERS]!r}"
                hint = CORRECT_VALUE
                return TableStoppedError(failed.table, str(column), place, str(reason), hint)
        return failed


def _waits(table: TableId, error: PenstockError) -> TableWaitsError:
    return TableWaitsError(str(table), "", "the target's table", error.message, error.hint)


class _FailedLoadError(TableStoppedError):
    """A COPY found a row that it could not load, and has not said which."""
