"""What DuckDB knows of a table, in our words (its functions `duckdb_columns()`, `duckdb_indexes()` and others)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

import duckdb

from penstock.adapters.duckdb.database import CATALOG
from penstock.core.errors import RefusedStatementError
from penstock.core.warehouse.attributes import Attributes, Index
from penstock.core.warehouse.dialect import DUCKDB, quote_name
from penstock.core.warehouse.migration import Dependent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.core.tables import TableId
    from penstock.ports.warehouse import Value

    Fetch: TypeAlias = Callable[[str, Sequence[Value]], list[tuple[Value, ...]]]

_OF_TABLE = "database_name = ? AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?)"
_WORD = re.compile(r"\w+|\*")


def read_columns(fetch: Fetch, table: TableId) -> Mapping[str, str]:
    """Return a table's columns, in order, and their types as the dialect writes them; none of one that is not there.

    This is asked at every load. Unlike the functions that list all tables, it takes
    no longer where there are thousands.
    """
    path = quote_name(DUCKDB, CATALOG, table.schema, table.name)
    try:
        found = fetch("SELECT name, type FROM pragma_table_info(?)", [path])
    except RefusedStatementError as error:
        if isinstance(error.__cause__, duckdb.CatalogException):
            return {}
        raise
    return {str(name): str(type_).replace(",", ", ") for name, type_ in found}


def read_attributes(fetch: Fetch, table: TableId) -> Attributes:
    """Return a table's comments and indexes."""
    columns = fetch(f"SELECT column_name, COALESCE(comment, '') FROM duckdb_columns() WHERE {_OF_TABLE}", _names(table))  # noqa: S608 - a text of ours
    comments = fetch(f"SELECT COALESCE(comment, '') FROM duckdb_tables() WHERE {_OF_TABLE}", _names(table))  # noqa: S608 - a text of ours
    return Attributes(
        columns=tuple(str(name) for name, _ in columns),
        comment="".join(str(comment) for (comment,) in comments),
        column_comments={str(name): str(comment) for name, comment in columns if comment},
        indexes=tuple(_indexes(fetch, table, [str(name) for name, _ in columns]).values()),
    )


def find_dependents(fetch: Fetch, table_names: Callable[..., set[str]], table: TableId) -> list[Dependent]:
    """Return views that read the table, with the columns that they may read, and indexes, which hinder any change.

    DuckDB does not say which columns a view reads: it may be each one whose name is a word of it.
    """
    columns = list(read_columns(fetch, table))
    found = [Dependent(f"index {name}", "index", frozenset()) for name in _indexes(fetch, table, columns)]
    views = "SELECT schema_name, view_name, sql FROM duckdb_views() WHERE NOT internal AND database_name = ?"
    for schema, name, sql in fetch(views, [CATALOG]):
        words = {word.casefold() for word in _WORD.findall(str(sql))}
        if table.name.casefold() in words and _reads(table_names, str(sql), table):
            read = columns if "*" in words else [column for column in columns if column.casefold() in words]
            found.append(Dependent(f"view {schema}.{name}", "view", frozenset(read)))
    return found


def _reads(table_names: Callable[..., set[str]], view: str, table: TableId) -> bool:
    _, _, query = view.partition(" AS ")
    found = {name.replace('"', "").casefold() for name in table_names(query.rstrip(";"), qualified=True)}
    return any(
        name.endswith(f"{table.schema}.{table.name}".casefold()) or name == table.name.casefold() for name in found
    )


def _indexes(fetch: Fetch, table: TableId, columns: Sequence[str]) -> dict[str, Index]:
    """Return a table's indexes by their names; of an expression, each column whose name is a word of it."""
    query = f"SELECT index_name, COALESCE(sql, ''), expressions FROM duckdb_indexes() WHERE {_OF_TABLE}"  # noqa: S608 - a text of ours
    return {
        str(name): Index(str(sql).rstrip(";"), _named(str(expressions), columns))
        for name, sql, expressions in fetch(query, _names(table))
        if sql
    }


def _named(text: str, columns: Sequence[str]) -> tuple[str, ...]:
    words = {word.casefold() for word in _WORD.findall(text)}
    return tuple(column for column in columns if column.casefold() in words)


def _names(table: TableId) -> list[Value]:
    return [CATALOG, table.schema, table.name]
