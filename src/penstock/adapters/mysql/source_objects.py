"""Views and triggers of a MariaDB or MySQL server, through which a statement writes to more tables than it names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.adapters.mysql.catalog import read_flavour, read_kinds
from penstock.adapters.mysql.connection import ask, connect
from penstock.adapters.mysql.foreign_keys import read_keys_above
from penstock.adapters.mysql.grants import read_grants, sees_every_trigger
from penstock.adapters.mysql.visible import hidden_target
from penstock.core.errors import UnfitServerError
from penstock.core.mysql.statements.statement_reach import IS_VIEW

if TYPE_CHECKING:
    from collections.abc import Collection

    import pymysql

    from penstock.adapters.mysql.connection import MysqlServer
    from penstock.core.mysql.statements.foreign_keys import KeysAbove
    from penstock.core.tables import TableId

_CLOCKS_APART_MS = 60_000
"""How far a replica's clock may be behind the one of its master, whose times are in the log."""


@dataclass(frozen=True, slots=True)
class MysqlSourceObjects:
    """The `SourceObjects` of `server`, on a new connection for each question: it is a rare one."""

    server: MysqlServer

    def had_before(self, table: TableId, when_ms: int) -> str:
        """See SourceObjects. MariaDB logs the statement only where it has made a table."""
        with connect(self.server) as connection:
            return "" if read_flavour(connection) == "mariadb" else _found_by_mysql(connection, table, when_ms)

    def why_more(self, written: Collection[TableId], named: Collection[TableId]) -> str:
        """See SourceObjects."""
        try:
            with connect(self.server) as connection:
                return self._why_more(connection, written, named)
        except UnfitServerError as error:
            return f"the source could not be asked for its triggers and views: {error.message}"

    def local_seconds(self, time_zone: str, seconds: int) -> int:
        """See SourceObjects."""
        with connect(self.server) as connection:
            ask(connection, f"SET SESSION time_zone = {connection.escape(time_zone)}")
            shown = f"FROM_UNIXTIME({int(seconds)})"
            return int(ask(connection, f"SELECT TIMESTAMPDIFF(SECOND, '1970-01-01', {shown})")[0][0])

    def keys_above(self, tables: Collection[TableId]) -> KeysAbove:
        """See SourceObjects."""
        with connect(self.server) as connection:
            return read_keys_above(connection, tables)

    def _why_more(
        self, connection: pymysql.Connection, written: Collection[TableId], named: Collection[TableId]
    ) -> str:
        if not sees_every_trigger(connection):
            return (
                f"the source's user may not see which triggers there are (GRANT TRIGGER ON *.* TO {self.server.user})"
            )
        kinds = read_kinds(connection, {*written, *named})
        views = sorted(table for table, kind in kinds.items() if kind.endswith("VIEW"))
        if views:
            return f"{views[0]} is a view"
        gone = sorted(set(written).difference(kinds))
        if gone:
            return f"{gone[0]} is no table of the source now: it was a temporary one, or is gone"
        return _why_triggers(connection, written)


def _found_by_mysql(connection: pymysql.Connection, table: TableId, when_ms: int) -> str:
    schema, name = connection.escape(table.schema), connection.escape(table.name)
    rows = ask(
        connection,
        "SELECT TABLE_TYPE, UNIX_TIMESTAMP(CREATE_TIME) FROM information_schema.TABLES "  # noqa: S608 - both are escaped
        f"WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {name}",
    )
    if not rows:
        # It was dropped since, if we would see it.
        grant = hidden_target(str(table), read_grants(connection))
        return f"the source's user may not see whether it was there (GRANT SELECT ON {grant})" if grant else ""
    kind, created_at = rows[0]
    if kind.endswith("VIEW"):
        return IS_VIEW
    is_older = created_at is not None and int(created_at) * 1000 < when_ms - _CLOCKS_APART_MS
    return "it was there before" if is_older else ""


def _why_triggers(connection: pymysql.Connection, written: Collection[TableId]) -> str:
    for table in sorted(written):
        schema, name = connection.escape(table.schema), connection.escape(table.name)
        rows = ask(
            connection,
            "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS "  # noqa: S608 - both are escaped
            f"WHERE EVENT_OBJECT_SCHEMA = {schema} AND EVENT_OBJECT_TABLE = {name} LIMIT 1",
        )
        if rows:
            return f"{table} has the trigger {rows[0][0]}"
    return ""
