"""Views and triggers of a MariaDB or MySQL server, through which a statement writes to more tables than it names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.adapters.mysql.catalog import read_kinds
from penstock.adapters.mysql.connection import ask, connect
from penstock.adapters.mysql.grants import sees_every_trigger
from penstock.core.errors import UnfitServerError

if TYPE_CHECKING:
    from collections.abc import Collection

    import pymysql

    from penstock.adapters.mysql.connection import MysqlServer
    from penstock.core.tables import TableId


@dataclass(frozen=True, slots=True)
class MysqlSourceObjects:
    """The `SourceObjects` of `server`, on a new connection for each question: it is a rare one."""

    server: MysqlServer

    def why_more(self, written: Collection[TableId], named: Collection[TableId]) -> str:
        """See SourceObjects."""
        try:
            with connect(self.server) as connection:
                return self._why_more(connection, written, named)
        except UnfitServerError as error:
            return f"the source could not be asked for its triggers and views: {error.message}"

    def _why_more(
        self, connection: pymysql.Connection, written: Collection[TableId], named: Collection[TableId]
    ) -> str:
        if not sees_every_trigger(connection):
            return f"we may not see which triggers there are (GRANT TRIGGER ON *.* TO {self.server.user})"
        kinds = read_kinds(connection, {*written, *named})
        views = sorted(table for table, kind in kinds.items() if kind.endswith("VIEW"))
        if views:
            return f"{views[0]} is a view"
        gone = sorted(set(written).difference(kinds))
        if gone:
            return f"{gone[0]} is no table of the source now: it was a temporary one, or is gone"
        return _why_triggers(connection, written)


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
