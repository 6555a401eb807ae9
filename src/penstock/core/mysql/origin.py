"""Whether a log tells the whole life of some tables, from nothing on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.mysql.ddl import RowStatement, TableDdl, classify
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable


def tells_whole_life(
    statements: Iterable[tuple[str, str]], tables: Collection[TableId], wanted: Callable[[TableId], bool]
) -> bool:
    """Whether `tables`, as they are now, can be had by replaying a log from its start.

    `statements` are its statements in order, each with its default schema; the
    log begins where no transaction had been logged before. True only if the log
    creates each of `tables`, no statement touches the rows of a wanted table
    without row events, and no statement needs a table that the log did not
    create. CREATE TABLE IF NOT EXISTS may have found the table there: it counts
    only after the table was dropped, or its schema was created or dropped.
    """
    log = _Life(wanted)
    return all(log.goes_on(sql, default_schema) for sql, default_schema in statements) and set(tables) <= log.created


class _Life:
    """What a log has created so far."""

    def __init__(self, wanted: Callable[[TableId], bool]) -> None:
        self.created: set[TableId] = set()
        self._empty_schemas: set[str] = set()
        self._absent: set[TableId] = set()
        self._wanted = wanted

    def goes_on(self, sql: str, default_schema: str) -> bool:
        """Take in one statement; False if from here on nothing is sure."""
        statement = classify(sql)
        if isinstance(statement, RowStatement):
            tables = [TableId(schema or default_schema, name) for schema, name in statement.tables]
            return bool(tables) and not any(self._wanted(table) for table in tables)
        return not isinstance(statement, TableDdl) or self._goes_on(statement, default_schema)

    def _goes_on(self, ddl: TableDdl, default_schema: str) -> bool:  # noqa: PLR0911 - one return per kind of statement
        tables = [TableId(schema or default_schema, name) for schema, name in ddl.tables]
        match ddl.action:
            case "unknown":
                return False
            case "create_schema" | "drop_schema":
                # A schema that is dropped, or created without any doubt, has no tables.
                if ddl.action == "drop_schema" or not ddl.conditional:
                    self._empty_schemas.add(ddl.schema or default_schema)
                return True
            case "create":
                return self._create(tables[0], ddl)
            case "alter" | "truncate" | "create_index" | "drop_index":
                keeps_rows = len(tables) == 1 and not ddl.changes_rows and not ddl.column_renames
                return tables[0] in self.created and (keeps_rows or self._nobody_wants(tables))
            case "rename":
                pairs = zip(tables[::2], tables[1::2], strict=True)
                self.created |= {after for before, after in pairs if before in self.created}
                return self._nobody_wants(tables)
            case "drop":
                self._absent |= set(tables)
                return self._nobody_wants([table for table in tables if table in self.created])
            case _:
                return True

    def _create(self, table: TableId, ddl: TableDdl) -> bool:
        is_sure = table.schema in self._empty_schemas or table in self._absent or table in self.created
        if ddl.conditional and not is_sure:
            return not self._wanted(table)
        self.created.add(table)
        return not ((ddl.changes_rows or ddl.replaces) and self._wanted(table))

    def _nobody_wants(self, tables: list[TableId]) -> bool:
        return not any(self._wanted(table) for table in tables)
