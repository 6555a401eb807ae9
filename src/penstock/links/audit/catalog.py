"""Looks up a table in the catalog of PostgreSQL or DuckDB, which both have as the SQL standard says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.audit.found_tables import FoundTable, found_columns, printed_columns
from penstock.core.errors import UsageError

if TYPE_CHECKING:
    from penstock.core.tables import TableId
    from penstock.ports.audited import AuditedDatabase


def find_table(database: AuditedDatabase, table: TableId) -> FoundTable:
    """Return the table. Raises UsageError if there is none, or none that we may see."""
    if database.dialect.name == "redshift":
        return _find_in_redshift(database, table)
    schema, name = (_literal(part) for part in (table.schema, table.name))
    of_table = f"table_schema = {schema} AND table_name = {name}"
    rows = database.fetch(
        "SELECT column_name, data_type, numeric_scale FROM information_schema.columns"  # noqa: S608 - escaped
        f" WHERE {of_table} ORDER BY ordinal_position"
    )
    if not rows:
        raise no_table(database, table)
    keys = database.fetch(
        "SELECT k.column_name FROM information_schema.key_column_usage k"  # noqa: S608 - escaped
        " JOIN information_schema.table_constraints c USING (constraint_schema, constraint_name)"
        f" WHERE c.constraint_type = 'PRIMARY KEY' AND k.table_schema = {schema} AND k.table_name = {name}"
        f" AND c.table_schema = {schema} AND c.table_name = {name} ORDER BY k.ordinal_position"
    )
    quoted = database.dialect.quoted(table.schema, table.name)
    return FoundTable(database.dialect, quoted, found_columns(rows), tuple(str(key) for (key,) in keys))


def no_table(database: AuditedDatabase, table: TableId) -> UsageError:
    """Return the error for a table that is not there."""
    message = f"there is no table {table} in the {database.dialect.name} database, or the user may not see it"
    return UsageError(message, "give --table SCHEMA.TABLE, as it is called there (--to-table for the second side)")


def _find_in_redshift(database: AuditedDatabase, table: TableId) -> FoundTable:
    """Look into the catalog of PostgreSQL 8. Nobody enforces keys there, so none is taken for one."""
    schema, name = (_literal(part.lower()) for part in (table.schema, table.name))
    rows = database.fetch(
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_class c"  # noqa: S608 - escaped
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
        f" WHERE n.nspname = {schema} AND c.relname = {name} ORDER BY a.attnum"
    )
    if not rows:
        raise no_table(database, table)
    quoted = database.dialect.quoted(table.schema, table.name)
    return FoundTable(database.dialect, quoted, printed_columns(rows), ())


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
