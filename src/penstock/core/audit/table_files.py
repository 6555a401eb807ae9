"""A table that is Parquet files, and the SQL by which DuckDB reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.audit.dialects import DUCKDB
from penstock.core.warehouse.dialect import quote_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.core.tables import TableId


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column: its name, the name that files have for it, and DuckDB's type for it, None for none that is compared."""

    name: str
    in_files: str
    type: str | None


@dataclass(frozen=True, slots=True)
class TableFiles:
    """A version of a table: the paths of its files, and its columns, None where the files alone tell them.

    `numbers` are those that its writers have committed it with, by writer.
    """

    paths: tuple[str, ...]
    columns: tuple[FileColumn, ...] | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)


def plan_view(table: TableId, files: TableFiles) -> tuple[str, ...]:
    """Return the statements that make a view of the table, called as the table."""
    name = DUCKDB.quoted(table.schema, table.name)
    listed = ", ".join(quote_text(path) for path in files.paths)
    read = f"SELECT * FROM read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"  # noqa: S608 - quoted
    if files.columns is not None:
        compared = [(column, column.type) for column in files.columns if column.type is not None]
        # Files from before a column was added have none, and those from before it was widened another type.
        empty = ", ".join(f"CAST(NULL AS {type_}) AS {DUCKDB.quoted(column.in_files)}" for column, type_ in compared)
        whole = f"SELECT {empty} WHERE FALSE"
        rows = f"{whole} UNION ALL BY NAME {read}" if files.paths else whole
        named = ", ".join(
            f"CAST({DUCKDB.quoted(column.in_files)} AS {type_}) AS {DUCKDB.quoted(column.name)}"
            for column, type_ in compared
        )
        read = f"SELECT {named} FROM ({rows})"  # noqa: S608 - names are quoted
    return (f"CREATE SCHEMA IF NOT EXISTS {DUCKDB.quoted(table.schema)}", f"CREATE OR REPLACE VIEW {name} AS {read}")
