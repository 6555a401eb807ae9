"""Reads the warehouse's tables a page at a time, for a comparison."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from penstock.demo.source_rows import with_float_bits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.demo.rows import Row, Value

OP_COLUMN: Final = "_op"
_ADDS: Final = ("c", "r", "u+")
_TAKES: Final = ("d", "u-")
_EMPTIED: Final = "t"
_PAGE_ROWS: Final = 10_000


class QuerySql(Protocol):
    """Runs a query on the warehouse, whoever has its file open."""

    def __call__(self, sql: str) -> pa.Table:
        """Return the whole result of `sql`."""
        ...


@dataclass(frozen=True, slots=True)
class WarehouseTables:
    """The tables of one schema of the warehouse."""

    query: QuerySql
    schema: str

    def columns(self) -> dict[str, tuple[str, ...]]:
        """Return every base table of the schema with its column names in order."""
        joined = "information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)"
        where = f"table_schema = {_text(self.schema)} AND t.table_type = 'BASE TABLE'"
        order = "c.table_name, c.ordinal_position"
        found = self.query(f"SELECT c.table_name, c.column_name FROM {joined} WHERE {where} ORDER BY {order}")  # noqa: S608 - the name is quoted
        columns: dict[str, tuple[str, ...]] = {}
        for table, column in zip(*(found.column(i).to_pylist() for i in (0, 1)), strict=True):
            columns[table] = (*columns.get(table, ()), column)
        return columns

    def count(self, table: str) -> int:
        """Return how many rows `table` has."""
        return int(self.query(f"SELECT count(*) FROM {self._name(table)}").column(0)[0].as_py())  # noqa: S608 - names are quoted

    def read_keyed(
        self, table: str, columns: Sequence[str], key: Sequence[str], floats: Sequence[int]
    ) -> Iterator[Row]:
        """Yield rows in key order. One with NULL in its key, or with the key of another, may be left out."""
        names, keys = _listed(columns), _listed(key)
        places = [columns.index(name) for name in key]
        where = " AND ".join(f"{_quoted(name)} IS NOT NULL" for name in key)
        after = ""
        while True:
            wanted = f"WHERE {where}{after} ORDER BY {keys} LIMIT {_PAGE_ROWS}"
            page = _rows(self.query(f"SELECT {names} FROM {self._name(table)} {wanted}"))  # noqa: S608 - names are quoted
            yield from with_float_bits(page, floats)
            if len(page) < _PAGE_ROWS:
                return
            last = ", ".join(_literal(page[-1][place]) for place in places)
            after = f" AND ({keys}) > ({last})"

    def read_log(self, table: str, columns: Sequence[str], floats: Sequence[int]) -> Iterator[tuple[int, Row]]:
        """Yield the rows of a change log as they were written: +1 with a row that came, -1 with one that went.

        Those before the last TRUNCATE of the source are left out: all of them went.
        """
        names = _listed((OP_COLUMN, *columns))
        emptied = f"SELECT max(rowid) FROM {self._name(table)} WHERE {_quoted(OP_COLUMN)} = {_text(_EMPTIED)}"  # noqa: S608 - names are quoted
        last = self.query(emptied).column(0)[0].as_py()
        after = -1 if last is None else last
        while True:
            wanted = f"WHERE rowid > {after} ORDER BY rowid LIMIT {_PAGE_ROWS}"
            found = self.query(f"SELECT rowid, {names} FROM {self._name(table)} {wanted}")  # noqa: S608 - names are quoted
            if not found.num_rows:
                return
            after = found.column(0)[-1].as_py()
            ops = found.column(1).to_pylist()
            page = with_float_bits(_rows(found.select(range(2, found.num_columns))), floats)
            for op, row in zip(ops, page, strict=True):
                yield _sign(str(op)), row

    def _name(self, table: str) -> str:
        return f"{_quoted(self.schema)}.{_quoted(table)}"


def _sign(op: str) -> int:
    if op in _ADDS:
        return 1
    if op in _TAKES:
        return -1
    message = f"a change log has the op {op!r}; expected one of {', '.join((*_ADDS, *_TAKES))}"
    raise ValueError(message)


def _rows(table: pa.Table) -> list[Row]:
    """Turn columns into rows, each value as the source's driver gives it."""
    return list(zip(*map(_values, table.columns), strict=True))


def _values(column: pa.ChunkedArray[Any]) -> list[Value]:
    """Instants lose their zone once they are in UTC, intervals are spans, and vectors their floats' bytes."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))
    values: list[Any] = column.to_pylist()
    if pa.types.is_interval(column.type):
        return [None if value is None else _span(value) for value in values]
    if pa.types.is_list(column.type):
        return [None if value is None else struct.pack(f"<{len(value)}f", *value) for value in values]
    return values


def _span(interval: pa.MonthDayNano) -> timedelta:
    """Return an interval's length; DuckDB compares a month as 30 days."""
    return timedelta(days=interval.months * 30 + interval.days, microseconds=interval.nanoseconds // 1000)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(_quoted(name) for name in names)


def _literal(value: Value) -> str:
    match value:
        case bytes():
            return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
        case str():
            return _text(value)
        case int():
            return str(value)
        case timedelta():
            return f"to_microseconds({value // timedelta(microseconds=1)})"
        case _:
            return _text(str(value))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
