"""The heartbeat's table of a source: one row per pipeline, whose serial only rises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pymysql.constants import ER

from penstock.adapters.mysql.catalog import quote, quote_table, read_flavour
from penstock.adapters.mysql.connection import ask, error_code, server_of
from penstock.core.errors import FencedError, LogError, UnfitServerError
from penstock.core.mysql.log.heartbeats import create_sql

if TYPE_CHECKING:
    import pymysql

    from penstock.core.tables import TableId

_DENIED: Final = frozenset({ER.TABLEACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR})
_ABSENT: Final = frozenset({ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR})
_REPLICA_STATUS: Final = {"mariadb": "SHOW ALL SLAVES STATUS", "mysql": "SHOW REPLICA STATUS"}


def read_serial(connection: pymysql.Connection, table: TableId, pipeline: str) -> int:
    """Return the serial of the newest heartbeat, 0 before the first and where there is no table or we may not look."""
    where = f"pipeline = {connection.escape(pipeline)}"
    try:
        rows = ask(connection, f"SELECT serial FROM {quote_table(table)} WHERE {where}")  # noqa: S608 - quoted
    except UnfitServerError as error:
        if error_code(error) in _ABSENT | _DENIED:
            return 0
        raise
    return int(rows[0][0]) if rows else 0


def require_not_behind(connection: pymysql.Connection, table: TableId, pipeline: str, serial: int) -> None:
    """Raise LogError if the server's heartbeat is older than `serial`, behind which something was published.

    No heartbeat at all says nothing: the table may have been dropped.
    """
    found = read_serial(connection, table, pipeline)
    if 0 < found < serial:
        message = (
            f"the heartbeat of {pipeline} in {table} of {server_of(connection)} went back: it is {found}, and what "
            f"came after {serial} was published"
        )
        hint = (
            "the server was restored from a backup: its tables lack changes that were published, so start a new "
            "pipeline with an initial snapshot. If it is a new master that lagged behind, fail over to one that did "
            "not. If only that table was restored, and the log is whole, give `heartbeat` another `table` and run again"
        )
        raise LogError(message, hint)


class HeartbeatWriter:
    """Writes the heartbeats of one instance of a pipeline over one connection."""

    def __init__(self, connection: pymysql.Connection, table: TableId, pipeline: str, epoch: int) -> None:
        """Write as instance `epoch`; a newer one has the row to itself."""
        self._connection = connection
        self._table = table
        self._pipeline = pipeline
        self._epoch = epoch

    def examine(self) -> str:
        """Say whether `write` would work, without writing. Raises UnfitServerError where it would not."""
        self._require_master()
        if not self._has_table():
            return f"{self._table} is not there, or the user may not see it: the next run makes it, if it may"
        row = "(pipeline, serial, timestamp_ms, epoch) VALUES ('', 0, 0, 0)"
        self._ask(f"EXPLAIN INSERT INTO {quote_table(self._table)} {row} ON DUPLICATE KEY UPDATE serial = serial")
        return f"{self._table} can be written to"

    def prepare(self, serial_min: int) -> int:
        """Make the table if it is missing, and write. Serials go on behind `serial_min` and what the table has.

        Raises UnfitServerError where we may not write, and on a server that only
        reads or replicates; LogError where the serial there is lower than `serial_min`.
        """
        self._require_master()
        if not self._has_table():
            self._create()
        require_not_behind(self._connection, self._table, self._pipeline, serial_min)
        return self.write(serial_min)

    def write(self, serial_min: int = 0) -> int:
        """Write the next heartbeat; return its time, Unix ms.

        Raises FencedError if a newer instance writes, UnavailableError, UnfitServerError.
        The server adds up and tells the time, so two writers at once can neither
        repeat a serial nor go back.
        """
        pipeline, epoch = self._connection.escape(self._pipeline), int(self._epoch)
        is_ours, now = f"{epoch} >= epoch", "CAST(ROUND(UNIX_TIMESTAMP(NOW(3)) * 1000) AS SIGNED)"
        self._ask(
            f"INSERT INTO {quote_table(self._table)} (pipeline, serial, timestamp_ms, epoch) "  # noqa: S608 - quoted
            f"VALUES ({pipeline}, {serial_min + 1}, {now}, {epoch}) ON DUPLICATE KEY UPDATE "
            f"serial = IF({is_ours}, GREATEST(serial, {serial_min}) + 1, serial), "
            f"timestamp_ms = IF({is_ours}, {now}, timestamp_ms), epoch = GREATEST(epoch, {epoch})",
        )
        where = f"pipeline = {pipeline}"
        rows = self._ask(f"SELECT epoch, timestamp_ms FROM {quote_table(self._table)} WHERE {where}")  # noqa: S608 - quoted
        if rows and int(rows[0][0]) > epoch:
            message = f"a newer instance of {self._pipeline} writes its heartbeats"
            raise FencedError(message, "nothing: this one does not write any more")
        return int(rows[0][1]) if rows else 0

    def _ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement on the table; say which right it takes where we lack it."""
        try:
            return ask(self._connection, sql)
        except UnfitServerError as error:
            if error_code(error) not in _DENIED:
                raise
            raise UnfitServerError(error.message, self._grant()) from error

    def _grant(self) -> str:
        user = server_of(self._connection).user
        return f"GRANT SELECT, INSERT, UPDATE ON {quote_table(self._table)} TO {user}"

    def _require_master(self) -> None:
        """A heartbeat on a replica would be a transaction that its master does not have."""
        server = server_of(self._connection)
        if int(ask(self._connection, "SELECT @@GLOBAL.read_only")[0][0]):
            message = f"{server} is read-only, so it gets no heartbeats"
            raise UnfitServerError(message, "nothing, if it is to be promoted; else leave `heartbeat` out")
        try:
            replicates = ask(self._connection, _REPLICA_STATUS[read_flavour(self._connection)])
        except UnfitServerError:
            # Without the right to ask we believe read_only.
            return
        if replicates:
            message = f"{server} is a replica: a heartbeat there would be a transaction that its master does not have"
            raise UnfitServerError(message, "capture from the master, or leave `heartbeat` out")

    def _has_table(self) -> bool:
        schema, name = (self._connection.escape(part) for part in (self._table.schema, self._table.name))
        where = f"TABLE_SCHEMA = {schema} AND TABLE_NAME = {name}"
        return bool(ask(self._connection, f"SELECT 1 FROM information_schema.TABLES WHERE {where}"))  # noqa: S608

    def _has_schema(self) -> bool:
        where = f"SCHEMA_NAME = {self._connection.escape(self._table.schema)}"
        return bool(ask(self._connection, f"SELECT 1 FROM information_schema.SCHEMATA WHERE {where}"))  # noqa: S608

    def _create(self) -> None:
        statements = [create_sql(quote_table(self._table))]
        if not self._has_schema():
            statements.insert(0, f"CREATE DATABASE IF NOT EXISTS {quote(self._table.schema)}")
        try:
            for statement in statements:
                ask(self._connection, statement)
        except UnfitServerError as error:
            message = f"the heartbeat's table {self._table} is not there, or the user may not see it: {error.message}"
            raise UnfitServerError(message, f"make it: {'; '.join(statements)}; {self._grant()}") from error
