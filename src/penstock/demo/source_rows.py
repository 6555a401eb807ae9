"""Reads the source's tables as they are at one moment, for a comparison."""

from __future__ import annotations

import struct
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pymysql.cursors import SSCursor

from penstock.adapters.mysql.connection import MysqlServer, connect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pymysql import Connection

    from penstock.demo.rows import Row, Value

_TEXT_TYPES: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum"})
_FETCH_ROWS: Final = 5_000


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column by name, and its type without length or sign (`varchar`, `float`)."""

    name: str
    data_type: str

    @property
    def is_float(self) -> bool:
        """Whether values are compared bit by bit."""
        return self.data_type in {"float", "double"}


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A base table of the source. `key` has the primary key's columns in key order, none if there is no such key."""

    name: str
    columns: tuple[SourceColumn, ...]
    key: tuple[str, ...]


class SourceSnapshot:
    """All tables of one schema, as they are when the snapshot is opened."""

    def __init__(self, connection: Connection, schema: str) -> None:
        """Use `open_snapshot`, which also closes."""
        self._connection = connection
        self._schema = schema

    def tables(self) -> tuple[SourceTable, ...]:
        """Return every base table, sorted by name."""
        columns: dict[str, list[SourceColumn]] = {}
        for table, column, data_type in self._rows(
            "SELECT c.TABLE_NAME, c.COLUMN_NAME, c.DATA_TYPE FROM information_schema.COLUMNS c"
            " JOIN information_schema.TABLES t USING (TABLE_SCHEMA, TABLE_NAME)"
            " WHERE TABLE_SCHEMA = %s AND t.TABLE_TYPE = 'BASE TABLE' ORDER BY c.TABLE_NAME, c.ORDINAL_POSITION"
        ):
            columns.setdefault(str(table), []).append(SourceColumn(str(column), str(data_type)))
        keys: dict[str, list[str]] = {}
        for table, column in self._rows(
            "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS"
            " WHERE TABLE_SCHEMA = %s AND INDEX_NAME = 'PRIMARY' ORDER BY TABLE_NAME, SEQ_IN_INDEX"
        ):
            keys.setdefault(str(table), []).append(str(column))
        return tuple(SourceTable(name, tuple(of), tuple(keys.get(name, ()))) for name, of in columns.items())

    def read(self, table: SourceTable) -> Iterator[Row]:
        """Yield the rows of `table`, a value per column, in key order (texts by their bytes), a few at a time."""
        selected = ", ".join(_select(column) for column in table.columns)
        order = ", ".join(_order(table, name) for name in table.key)
        sql = f"SELECT {selected} FROM {_quoted(self._schema)}.{_quoted(table.name)}"  # noqa: S608 - names are quoted
        floats = [i for i, column in enumerate(table.columns) if column.is_float]
        with self._connection.cursor(SSCursor) as cursor:
            cursor.execute(f"{sql} ORDER BY {order}" if order else sql)
            while some := cursor.fetchmany(_FETCH_ROWS):
                yield from with_float_bits(some, floats)

    def _rows(self, sql: str) -> Sequence[Row]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, (self._schema,))
            return cursor.fetchall()


@contextmanager
def open_snapshot(server: MysqlServer, schema: str) -> Iterator[SourceSnapshot]:
    """Hold one consistent read of `schema`; raises UnavailableError and UnfitServerError."""
    connection = connect(server, timeout_seconds=30.0)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        yield SourceSnapshot(connection, schema)
    finally:
        connection.close()


def with_float_bits(rows: Sequence[Row], floats: Sequence[int]) -> Iterator[Row]:
    """Yield `rows` with the floats at the indexes `floats` as their eight bytes, so that -0.0 is not 0.0."""
    if not floats:
        yield from rows
        return
    for row in rows:
        values = list(row)
        for index in floats:
            values[index] = _bits(values[index])
        yield tuple(values)


def _bits(value: Value) -> bytes | None:
    return None if value is None else struct.pack(">d", value)


def _select(column: SourceColumn) -> str:
    # A FLOAT is printed with six digits, a DOUBLE with all that it takes to tell it from its neighbours.
    return f"CAST({_quoted(column.name)} AS DOUBLE)" if column.data_type == "float" else _quoted(column.name)


def _order(table: SourceTable, name: str) -> str:
    is_text = any(column.name == name and column.data_type in _TEXT_TYPES for column in table.columns)
    return f"CAST({_quoted(name)} AS BINARY)" if is_text else _quoted(name)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
