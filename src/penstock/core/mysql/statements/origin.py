"""Whether a log tells the whole life of some tables, from nothing on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.mysql.statements.ddl import RowStatement, TableDdl, classify
from penstock.core.mysql.statements.foreign_keys import says_cascade
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable


_SHOWN_WORDS = 3
"""Behind them may be rows."""


def what_life_lacks(
    statements: Iterable[tuple[str, str]], tables: Collection[TableId], wanted: Callable[[TableId], bool]
) -> str:
    """Say why `tables`, as they are now, cannot surely be had by replaying a log from its start; "" if they can.

    `statements` are its statements in order, each with its default schema; the
    log begins where no transaction had been logged before. "" only if the log
    creates each of `tables`, no statement touches the rows of a wanted table
    without row events, and no statement needs a table that the log did not
    create. TRUNCATE, DROP and RENAME of what the log created are no loss: they are
    carried. But no wanted table may get the rows of one that is not, nor have a
    foreign key by which the server changed rows that are in no log. CREATE TABLE
    IF NOT EXISTS may have found the table there: it counts only after the table was
    dropped, or its schema was created or dropped.
    """
    log = _Life(wanted)
    for sql, default_schema in statements:
        if not log.goes_on(sql, default_schema):
            return f"{log.why}: {' '.join(sql.split()[:_SHOWN_WORDS])} ..."
    missing = sorted(set(tables) - log.created)
    return f"the log does not have the CREATE TABLE of {missing[0]}" if missing else ""


class _Life:
    """What a log has created so far."""

    def __init__(self, wanted: Callable[[TableId], bool]) -> None:
        self.created: set[TableId] = set()
        self._empty_schemas: set[str] = set()
        self._absent: set[TableId] = set()
        self._wanted = wanted
        self.why = "the log has a statement that may have changed rows which it does not have"

    def goes_on(self, sql: str, default_schema: str) -> bool:
        """Take in one statement; False if from here on nothing is sure."""
        statement = classify(sql)
        if isinstance(statement, RowStatement):
            tables = [TableId(schema or default_schema, name) for schema, name in statement.tables]
            return bool(tables) and not any(self._wanted(table) for table in tables)
        if not isinstance(statement, TableDdl):
            return True
        tables = [TableId(schema or default_schema, name) for schema, name in statement.tables]
        if not self._nobody_wants(tables) and says_cascade(sql):
            self.why = "the server may have changed rows by a foreign key (CASCADE, SET NULL), which no log has"
            return False
        return self._goes_on(statement, default_schema)

    def _goes_on(self, ddl: TableDdl, default_schema: str) -> bool:  # noqa: PLR0911 - one return per kind of statement
        tables = [TableId(schema or default_schema, name) for schema, name in ddl.tables]
        match ddl.action:
            case "unknown":
                return False
            case "create_schema":
                # A schema that is dropped, or created without any doubt, has no tables.
                return ddl.conditional or self._empty(ddl.schema or default_schema)
            case "drop_schema":
                return self._empty(ddl.schema or default_schema)
            case "create":
                return self._create(tables[0], ddl)
            case "alter" | "truncate" | "create_index" | "drop_index":
                is_carried = ddl.action == "truncate" or not (ddl.changes_rows or (ddl.column_renames and ddl.renames))
                altered = tables[:1] if ddl.renames else tables
                is_known = tables[0] in self.created and (
                    (is_carried and len(altered) == 1) or self._nobody_wants(tables)
                )
                return is_known and self._rename(ddl, default_schema)
            case "rename":
                return self._rename(ddl, default_schema)
            case "drop":
                self._absent |= set(tables)
                self.created -= set(tables)
                return True
            case _:
                return True

    def _empty(self, schema: str) -> bool:
        self._empty_schemas.add(schema)
        self.created = {table for table in self.created if table.schema != schema}
        return True

    def _create(self, table: TableId, ddl: TableDdl) -> bool:
        is_sure = table.schema in self._empty_schemas or table in self._absent or table in self.created
        if ddl.conditional and not is_sure:
            return not self._wanted(table)
        self.created.add(table)
        return not (ddl.changes_rows and self._wanted(table))

    def _rename(self, ddl: TableDdl, default_schema: str) -> bool:
        """Move what is known of tables with their names; False if a wanted one gets rows that nobody carries."""
        origins: dict[TableId, TableId] = {}
        for names in ddl.renames:
            before, after = (TableId(schema or default_schema, name) for schema, name in names)
            origins[after] = origins.pop(before, before)
        known = {after for after, origin in origins.items() if origin in self.created}
        self.created -= set(origins.values())
        self._absent |= set(origins.values())
        self.created |= known
        return all(
            after in known and self._wanted(origin)
            for after, origin in origins.items()
            if after != origin and self._wanted(after)
        )

    def _nobody_wants(self, tables: list[TableId]) -> bool:
        return not any(self._wanted(table) for table in tables)
