"""The schema tracker on a MariaDB or MySQL server that holds nothing else."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from pymysql.constants import ER

from penstock.adapters.mysql.catalog import (
    quote,
    quote_table,
    read_creates,
    read_creates_of,
    read_flavour,
    read_greeting,
    read_partitions,
    read_table_ids,
)
from penstock.adapters.mysql.connection import MysqlServer, ask, connect, error_code
from penstock.adapters.mysql.foreign_keys import read_children
from penstock.adapters.mysql.tracker_dump import PartDump, put_back, read_dump
from penstock.adapters.mysql.tracker_tables import TrackerTables
from penstock.adapters.mysql.writer_lock import take_lock
from penstock.core.errors import TRACKER_LIKE_SOURCE, PenstockError, UnavailableError, UnfitServerError
from penstock.core.mysql.statements.ddl import TableDdl, classify, for_tracker
from penstock.core.mysql.statements.sql_session import UNKNOWN_SESSION, settings_of
from penstock.core.mysql.statements.storage_options import without_storage
from penstock.core.mysql.statements.table_effects import resolve_names
from penstock.core.mysql.statements.touched import EVERYTHING, touched_by
from penstock.core.table_policy import DEFAULT_POLICY
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import pymysql

    from penstock.core.mysql.statements.describe import Flavour
    from penstock.core.mysql.statements.foreign_keys import Cascade
    from penstock.core.mysql.statements.sql_session import SqlSession
    from penstock.core.mysql.statements.sql_tokens import TableName
    from penstock.core.mysql.statements.touched import Touched
    from penstock.core.table_policy import TablePolicy
    from penstock.core.tables import TableSchema

_Answer = TypeVar("_Answer")
_ATTEMPTS = 4
_PAUSE_SECONDS = 0.5
_LENIENT: Mapping[Flavour, str] = {
    "mariadb": "NO_DIR_IN_CREATE,IGNORE_BAD_TABLE_OPTIONS",
    "mysql": "NO_DIR_IN_CREATE",
}
# MySQL 8.4 and newer refuse keys to columns that are not unique; MariaDB passes over this comment.
_FOREIGN_KEYS = "foreign_key_checks = 0 /*!80400 , restrict_fk_on_non_standard_key = OFF */"
_CHARSET = "utf8mb4"
_NO_SCHEMA = "information_schema"
_UNKNOWN_SEQUENCES = 4091
_NOTHING_TO_DROP = frozenset({ER.BAD_TABLE_ERROR, ER.DB_DROP_EXISTS, _UNKNOWN_SEQUENCES})
_SHOWN_CHARACTERS = 400
# Some before tell it too; but a session of theirs that says nothing may be that of one which does not.
_TELLS_TIMESTAMPS = (10, 10)
_NAMES: Mapping[Flavour, str] = {"mariadb": "MariaDB", "mysql": "MySQL"}


@dataclass(frozen=True, slots=True)
class SourceDefaults:
    """What the source adds to a statement that does not say it; `read_source_defaults` asks it.

    `collation` is the one of a schema that is created without any;
    `explicit_timestamps` whether a TIMESTAMP column without attributes is like
    any other column. They are the server's own settings: a session of the source
    may have chosen others, which its statements tell (`tells_timestamps`: also
    where they say nothing, for then the second is off). `flavour` is the kind of
    server that the source is, `lower_case` its lower_case_table_names.
    """

    collation: str = "utf8mb4_general_ci"
    explicit_timestamps: bool = True
    flavour: Flavour = "mariadb"
    tells_timestamps: bool = False
    lower_case: int = 0


def read_source_defaults(connection: pymysql.Connection) -> SourceDefaults:
    """Ask a source for what its tracker has to know."""
    settings = "@@GLOBAL.collation_server, @@GLOBAL.explicit_defaults_for_timestamp, @@GLOBAL.lower_case_table_names"
    collation, explicit, lower_case = ask(connection, f"SELECT {settings}")[0]
    flavour = read_flavour(connection)
    tells = flavour == "mariadb" and _version(read_greeting(connection)) >= _TELLS_TIMESTAMPS
    return SourceDefaults(collation, bool(explicit), flavour, tells, int(lower_case))


def _version(greeting: str) -> tuple[int, ...]:
    """`5.5.5-10.11.6-MariaDB` is 10.11: what stands before is for replicas that know no newer one."""
    return tuple(map(int, re.findall(r"(\d+)\.(\d+)", greeting.removeprefix("5.5.5-"))[0]))


class MysqlTracker:
    """A `SchemaTracker` on `server`, whose user schemas are all ours: `restore` drops every one of them.

    Statements are tried as lenient as the server can be, because the source has
    accepted them already: no foreign key checks, no strict mode, another engine
    for one that is missing, DATA DIRECTORY, encryption, tablespaces and unknown options
    ignored. A lost connection is opened
    again, four times at most over a few seconds, for everything but `apply`: a
    statement whose outcome is unknown is the caller's to restore from its dump.
    """

    connector = "mysql"

    def __init__(
        self,
        server: MysqlServer,
        defaults: SourceDefaults | None = None,
        policy: TablePolicy = DEFAULT_POLICY,
        timeout_seconds: float = 10.0,
    ) -> None:
        """Remember where the tracker is; it connects at the first use. `policy` shapes the schemas."""
        self._server = server
        self._defaults = defaults or SourceDefaults()
        self._timeout_seconds = timeout_seconds
        self._connection: pymysql.Connection | None = None
        self._tables = TrackerTables(policy)
        self._writer: int | None = None

    @property
    def folds_names(self) -> bool:
        """See SchemaTracker."""
        return self._defaults.lower_case != 0

    def take_over(self) -> None:
        """See ports/tracker.SchemaTracker: who was here before has no connection any more, and gets no other."""
        self._writer = self._retrying(take_lock)
        self._tables.forget_everything()

    def require_empty(self) -> None:
        """Raise UnfitServerError if there are rows: somebody works with it, and `restore` would drop their schemas."""
        self._retrying(lambda connection: _require_empty(connection, self._server))

    def apply(self, sql: str, default_schema: str, session: SqlSession = UNKNOWN_SESSION) -> None:
        """Run one DDL statement as in `session`, with `default_schema` selected if there is such a schema.

        A statement that changes no table's definition is left out. Raises
        UnavailableError when the tracker is gone or was lost on the way, and
        PenstockError when it refuses the statement.
        """
        statement = classify(sql, session.sql_mode)
        if not isinstance(statement, TableDdl) or statement.leaves_tables:
            return
        connection = self._retrying(_check_alive)
        if self._defaults.lower_case:
            self._require_names(connection, sql, statement, default_schema)
        touched = touched_by(sql, statement, default_schema, self.tables())
        try:
            _select_schema(connection, default_schema)
            self._run_as(connection, session, sql, statement)
        except UnavailableError:
            self.close()
            raise
        except UnfitServerError as error:
            raise _explain_refusal(error, sql) from error
        finally:
            # A statement that was refused or broke off may have done a part.
            self._tables.forget(touched)

    def _require_names(
        self, connection: pymysql.Connection, sql: str, statement: TableDdl, default_schema: str
    ) -> None:
        """Refuse a statement whose names the source takes for others: a tracker that does not would pass over them."""
        if int(ask(connection, "SELECT @@GLOBAL.lower_case_table_names")[0][0]):
            return
        typed = [TableId(schema or default_schema, name) for schema, name in statement.tables]
        there = resolve_names(statement.tables, default_schema, self.tables(), folds=True)
        texts = [statement.schema, *(text for table in typed for text in (table.schema, table.name))]
        has_capitals = self._defaults.lower_case == 1 and any(text != text.lower() for text in texts)
        if typed != there or has_capitals:
            message = f"case does not count in names of tables of the source, and does on the schema tracker\n  {sql}"
            hint = f"give the tracker a server of its own with lower_case_table_names={self._defaults.lower_case}"
            raise PenstockError(message, hint)

    def _run_as(self, connection: pymysql.Connection, session: SqlSession, sql: str, statement: TableDdl) -> None:
        """Run `sql` as its session did, and come back to our own settings, with which definitions are read."""
        try:
            ask(connection, settings_of(session, self._defaults.flavour))
            ask(connection, f"SET SESSION explicit_defaults_for_timestamp = {self._explicit_timestamps(session)}")
            lenient = without_storage(for_tracker(sql, session.sql_mode), session.sql_mode)
            _run_leniently(connection, lenient, statement)
            if statement.action == "create" and statement.changes_rows:
                # There are no rows here, but a query may make some of nothing: SELECT 1, VALUES (1).
                ask(connection, f"DELETE FROM {_written(statement.tables[0])}")  # noqa: S608 - the name is quoted
        finally:
            ask(connection, f"SET NAMES {_CHARSET}")
            ask(connection, _own_session(self._defaults))

    def _explicit_timestamps(self, session: SqlSession) -> int:
        if session.explicit_timestamps is not None:
            return int(session.explicit_timestamps)
        told = self._defaults.tells_timestamps and session != UNKNOWN_SESSION
        return int(self._defaults.explicit_timestamps and not told)

    def tables(self) -> Sequence[TableId]:
        """Every base table there is, system schemas left out, sorted. Sequences and views are none."""
        return self._retrying(self._tables.ids)

    def describe(self, tables: Collection[TableId]) -> Mapping[TableId, TableSchema]:
        """What `tables` look like now; what is not there is left out. A table is read again once it was touched."""
        return self._retrying(lambda connection: self._tables.describe(connection, tables))

    def table_schema(self, table: TableId) -> TableSchema | None:
        """What `table` looks like now, None if there is no such table."""
        return self.describe([table]).get(table)

    def cascades(self) -> Sequence[Cascade]:
        """Every foreign key with CASCADE or SET NULL; all are read at once after a change."""
        return self._retrying(self._tables.cascades)

    def sequences(self) -> Collection[TableId]:
        """Every sequence."""
        return self._retrying(self._tables.sequences)

    def partitions(self, table: TableId) -> Collection[str]:
        """The names of its partitions, none of a table that has none or is not there."""
        return self._retrying(lambda connection: read_partitions(connection, table))

    def dump(self, touched: Touched = EVERYTHING) -> str:
        """What there is of `touched`, and of the foreign keys that go with it, as JSON text.

        Of everything it is the same that `Copy.creates` has.
        """
        return self._retrying(lambda connection: _dump(connection, touched))

    def restore(self, dump: str) -> None:
        """Make what `dump` is of as it says, by dropping and making. Doing it again is the same.

        Raises UnfitServerError for a tracker with rows, and PenstockError for a table that the server refuses.
        """
        refused = self.fill(dump)
        if refused:
            table, reason = next(iter(refused.items()))
            message = f"the schema tracker refused {table} of its own dump: {reason}"
            raise PenstockError(message, "give it a server of the version that it had, or newer")

    def fill(self, dump: str) -> Mapping[TableId, str]:
        """Do as `restore`, but for the tables that the server refuses: return these, with its reasons."""
        read = read_dump(dump)
        self.require_empty()
        try:
            return self._retrying(lambda connection: put_back(connection, read))
        finally:
            self._tables.forget_everything()

    def close(self) -> None:
        """Drop the connection. Safe to call twice; the next use opens another."""
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    def _retrying(self, question: Callable[[pymysql.Connection], _Answer]) -> _Answer:
        """Ask something that may be asked twice, on a new connection when the old one is lost."""
        for attempt in range(1, _ATTEMPTS):
            try:
                return question(self._connect())
            except UnavailableError:
                self.close()
            time.sleep(_PAUSE_SECONDS * attempt)
        return question(self._connect())

    def _connect(self) -> pymysql.Connection:
        if self._connection is None:
            connection = connect(self._server, self._timeout_seconds)
            _require_flavour(connection, self._server, self._defaults.flavour)
            ask(connection, _own_session(self._defaults))
            if self._writer is not None:
                self._writer = take_lock(connection, self._writer)
            self._connection = connection
        return self._connection


def _check_alive(connection: pymysql.Connection) -> pymysql.Connection:
    ask(connection, "DO 1")
    return connection


def _explain_refusal(error: UnfitServerError, sql: str) -> PenstockError:
    shown = sql if len(sql) <= _SHOWN_CHARACTERS else f"{sql[:_SHOWN_CHARACTERS]} ..."
    return PenstockError(
        f"the schema tracker could not follow a statement of the source: {error.message}\n  {shown}",
        f"the tracker may be older than the source, or of another kind: {TRACKER_LIKE_SOURCE}",
    )


def _dump(connection: pymysql.Connection, touched: Touched) -> str:
    if touched.is_everything:
        return read_creates(connection).to_json()
    if touched.moves_keys:
        touched = replace(touched, tables=touched.tables.union(read_children(connection, touched.tables)))
    return PartDump(touched, read_creates_of(connection, touched)).to_json()


def _own_session(defaults: SourceDefaults) -> str:
    """Write the statement that gives a connection our own settings."""
    settings = [
        f"sql_mode = '{_LENIENT[defaults.flavour]}'",
        _FOREIGN_KEYS,
        "innodb_strict_mode = 0",
        "lock_wait_timeout = 30",
        f"collation_server = '{defaults.collation}'",
        f"explicit_defaults_for_timestamp = {int(defaults.explicit_timestamps)}",
    ]
    # MariaDB refuses to alter a system-versioned table otherwise; whoever altered it on the source had set this.
    settings += ["system_versioning_alter_history = KEEP"] if defaults.flavour == "mariadb" else []
    return f"SET SESSION {', '.join(settings)}"


def _require_flavour(connection: pymysql.Connection, server: MysqlServer, wanted: Flavour) -> None:
    """Refuse a server of another kind: it neither reads all of the source's statements nor prints types as it does."""
    found = read_flavour(connection)
    if found != wanted:
        message = f"the schema tracker {server} is a {_NAMES[found]} server, and the source is {_NAMES[wanted]}"
        hint = f"give the tracker a {_NAMES[wanted]} server, of the source's version or newer, that holds nothing else"
        raise UnfitServerError(message, hint)


def _require_empty(connection: pymysql.Connection, server: MysqlServer) -> None:
    """Refuse a server with rows: somebody works with it, and `restore` would drop their schemas."""
    for table in read_table_ids(connection):
        if ask(connection, f"SELECT 1 FROM {quote_table(table)} LIMIT 1"):  # noqa: S608 - the name is quoted
            message = f"the schema tracker {server} holds rows in {table}; a tracker has tables without rows only"
            hint = "give the tracker a server of its own: everything on it is dropped and made again"
            raise UnfitServerError(message, hint)


def _select_schema(connection: pymysql.Connection, schema: str) -> None:
    """Select `schema`; where there is none, a schema in which every statement fails that relies on a default."""
    try:
        ask(connection, f"USE {quote(schema or _NO_SCHEMA)}")
    except UnfitServerError as error:
        if error_code(error) != ER.BAD_DB_ERROR:
            raise
        ask(connection, f"USE {_NO_SCHEMA}")


def _run_leniently(connection: pymysql.Connection, sql: str, statement: TableDdl) -> None:
    """Run `sql`, and once more in another way for the refusals that are ours to know better."""
    try:
        ask(connection, sql)
    except UnfitServerError as error:
        code = error_code(error)
        if code == ER.NO_SUCH_TABLE and statement.action == "rename":
            _rename_what_is_there(connection, statement)
        elif code in _NOTHING_TO_DROP and statement.action == "drop":
            _drop_what_is_there(connection, statement)
        elif code not in _NOTHING_TO_DROP or statement.action not in {"drop_schema", "sequence"}:
            raise


def _drop_what_is_there(connection: pymysql.Connection, statement: TableDdl) -> None:
    """Drop one by one: tables that our user does not see are not on the tracker, and MySQL drops all or none."""
    for table in map(_written, statement.tables):
        try:
            ask(connection, f"DROP TABLE IF EXISTS {table}")
        except UnfitServerError as error:
            if error_code(error) not in _NOTHING_TO_DROP | {ER.BAD_DB_ERROR}:
                raise


def _rename_what_is_there(connection: pymysql.Connection, statement: TableDdl) -> None:
    """Rename one by one: a view can be renamed too, and views are not on the tracker."""
    names = list(map(_written, statement.tables))
    for before, after in zip(names[::2], names[1::2], strict=True):
        try:
            ask(connection, f"RENAME TABLE {before} TO {after}")
        except UnfitServerError as error:
            if error_code(error) != ER.NO_SUCH_TABLE:
                raise


def _written(table: TableName) -> str:
    schema, name = table
    return quote(name) if schema is None else f"{quote(schema)}.{quote(name)}"
