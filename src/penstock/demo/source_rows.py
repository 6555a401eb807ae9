"""Reads the source's tables as they are at one moment, for a comparison."""

from __future__ import annotations

import struct
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pymysql.cursors import SSCursor

from penstock.adapters.mysql.connection import MysqlServer, connect
from penstock.core.mysql.statements.describe import GEOMETRY_TYPES
from penstock.core.mysql.types.special_values import extended_wkb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pymysql import Connection

    from penstock.demo.rows import Row, Value

_TEXT_TYPES: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})
_PRINTED_TYPES: Final = frozenset({"json", "uuid", "inet4", "inet6"})
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

    @property
    def is_geometry(self) -> bool:
        """Whether values are bytes that the warehouse has in another order."""
        return self.data_type in GEOMETRY_TYPES


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
        geometries = [i for i, column in enumerate(table.columns) if column.is_geometry]
        with self._connection.cursor(SSCursor) as cursor:
            cursor.execute(f"{sql} ORDER BY {order}" if order else sql)
            while some := cursor.fetchmany(_FETCH_ROWS):
                yield from _with_extended_wkb(with_float_bits(some, floats), geometries)

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


def _with_extended_wkb(rows: Iterable[Row], geometries: Sequence[int]) -> Iterator[Row]:
    if not geometries:
        yield from rows
        return
    for row in rows:
        values = list(row)
        for index in geometries:
            stored = values[index]
            values[index] = extended_wkb(stored) if isinstance(stored, bytes) else stored
        yield tuple(values)


def _select(column: SourceColumn) -> str:
    name = _quoted(column.name)
    match column.data_type:
        case "float":
            # It is printed with six digits, a DOUBLE with all that it takes to tell it from its neighbours.
            return f"CAST({name} AS DOUBLE)"
        case "bit":
            return f"CAST({name} AS UNSIGNED)"
        case "vector":
            # The driver takes the type for text.
            return f"CAST({name} AS BINARY)"
        case kind if kind in _PRINTED_TYPES:
            return f"CAST({name} AS CHAR)"
        case _:
            return name


def _order(table: SourceTable, name: str) -> str:
    """Return by what a key column sorts here as it does in the warehouse: text, and what is printed, as UTF-8."""
    kind = next(column.data_type for column in table.columns if column.name == name)
    if kind in _TEXT_TYPES or kind in _PRINTED_TYPES:
        return f"CAST(CONVERT(CAST({_quoted(name)} AS CHAR) USING utf8mb4) AS BINARY)"
    return _quoted(name)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
