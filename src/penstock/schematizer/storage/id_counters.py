"""The ids that tables give next: a deleted row's id is never given again, also after a restore."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

if TYPE_CHECKING:
    from sqlalchemy import Connection


def read_next_id(connection: Connection, table: sa.Table) -> int | None:
    """Return the id that `table` would give next; None where it gives none."""
    column = _numbered(table)
    if column is None:
        return None
    newest = connection.scalar(sa.select(sa.func.max(column))) or 0
    return max(newest + 1, _read_counter(connection, table, column) or 1)


def is_set_by_ddl(connection: Connection) -> bool:
    """Tell whether setting a counter commits what was done before."""
    return connection.dialect.name in {"mysql", "mariadb"}


def set_next_id(connection: Connection, table: sa.Table, next_id: int) -> None:
    """Let `table` give `next_id`, or more, next."""
    quoted = connection.dialect.identifier_preparer.quote(table.name)
    match connection.dialect.name:
        case "sqlite":
            connection.execute(sa.text("DELETE FROM sqlite_sequence WHERE name = :name"), {"name": table.name})
            values = {"name": table.name, "seq": next_id - 1}
            connection.execute(sa.text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :seq)"), values)
        case "postgresql":
            column = _numbered(table)
            values = {"table": quoted, "column": column.name if column is not None else "", "next": next_id}
            query = sa.text("SELECT setval(pg_get_serial_sequence(:table, :column), :next, false)")
            connection.execute(query, values)
        case _:
            connection.exec_driver_sql(f"ALTER TABLE {quoted} AUTO_INCREMENT = {next_id:d}")


def _read_counter(connection: Connection, table: sa.Table, column: sa.Column[int]) -> int | None:
    quoted = connection.dialect.identifier_preparer.quote(table.name)
    match connection.dialect.name:
        case "sqlite":
            query = sa.text("SELECT seq + 1 FROM sqlite_sequence WHERE name = :name")
            found = connection.scalar(query, {"name": table.name})
        case "postgresql":
            query = sa.text("SELECT pg_get_serial_sequence(:table, :column)")
            sequence = connection.scalar(query, {"table": quoted, "column": column.name})
            found = sequence and connection.scalar(
                sa.text(f"SELECT last_value + CASE WHEN is_called THEN 1 ELSE 0 END FROM {sequence}")  # noqa: S608 - the database's own name
            )
        case _:
            if not getattr(connection.dialect, "is_mariadb", False):
                # MySQL 8 tells numbers of yesterday otherwise.
                connection.exec_driver_sql("SET SESSION information_schema_stats_expiry = 0")
            query = sa.text(
                "SELECT auto_increment FROM information_schema.tables"
                " WHERE table_schema = DATABASE() AND table_name = :name"
            )
            found = connection.scalar(query, {"name": table.name})
    return int(found) if found is not None else None


def _numbered(table: sa.Table) -> sa.Column[int] | None:
    """Return the column whose values the database gives: the only one of a key, if it is of whole numbers."""
    columns = list(table.primary_key)
    return columns[0] if len(columns) == 1 and isinstance(columns[0].type, sa.Integer) else None
