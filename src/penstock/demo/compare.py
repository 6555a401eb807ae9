"""Compares source and warehouse row by row and value by value, in bounded memory.

A table with a primary key is compared by key: both sides are read in key order
and merged. A table without one is a change log in the warehouse: its rows,
those that came less those that went, must be the source's as a multiset.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from penstock.demo.sources.pick import database_of
from penstock.demo.warehouse_rows import QuerySql, WarehouseTables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.demo.rows import Row, Value
    from penstock.demo.source_rows import SourceTable
    from penstock.demo.sources.database import Snapshot, SourceServer

_EXAMPLES_MAX: Final = 5
_EXAMPLE_CHARACTERS_MAX: Final = 160


@dataclass(frozen=True, slots=True)
class TableComparison:
    """One table on both sides. `warehouse_rows` of a change log are the rows it adds up to.

    `differences` counts rows that are missing, surplus or not equal in every
    value; `examples` says what is wrong with the first few.
    """

    table: str
    source_rows: int
    warehouse_rows: int
    differences: int
    examples: tuple[str, ...]


def compare_all(server: SourceServer, query: QuerySql, schema: str) -> tuple[TableComparison, ...]:
    """Compare every table of `schema` that is on either side, sorted by name.

    Nothing may write to either side meanwhile, or lag shows up as differences.
    Raises UnavailableError and UnfitServerError, and what `query` raises.
    """
    warehouse = WarehouseTables(query, schema)
    columns = warehouse.columns()
    database = database_of(server)
    with database.explained(), database.open_snapshot(schema) as source:
        tables = {table.name: table for table in source.tables()}
        compared = [
            compare_table(source, warehouse, tables[name], columns[name])
            if name in tables and name in columns
            else _one_sided(source, warehouse, tables.get(name), name)
            for name in sorted({*tables, *columns})
        ]
    return tuple(compared)


def compare_table(
    source: Snapshot, warehouse: WarehouseTables, table: SourceTable, found: Sequence[str]
) -> TableComparison:
    """Compare `table` with the warehouse's table of its name, which has the columns `found`."""
    names = [column.name for column in table.columns]
    missing = [name for name in names if name not in found]
    differences = _Differences()
    if missing:
        return _without_columns(source, warehouse, table, missing)
    floats = [i for i, column in enumerate(table.columns) if column.is_float]
    if table.key:
        places = [names.index(name) for name in table.key]
        rows = _Counted(source.read(table))
        others = _Counted(warehouse.read_keyed(table.name, names, table.key, floats))
        _merge(rows, others, places, names, differences)
        unread = warehouse.count(table.name) - others.count
        if unread:
            differences.add("rows with the key of another row, or with NULL in it", unread)
        return differences.of(table.name, rows.count, others.count + unread)
    rows = _Counted(source.read(table))
    total = _cancel_out(rows, warehouse.read_log(table.name, names, floats), differences)
    return differences.of(table.name, rows.count, total)


@dataclass(slots=True)
class _Differences:
    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, example: str, count: int = 1) -> None:
        self.count += count
        if len(self.examples) < _EXAMPLES_MAX:
            self.examples.append(example[:_EXAMPLE_CHARACTERS_MAX])

    def of(self, table: str, source_rows: int, warehouse_rows: int) -> TableComparison:
        return TableComparison(table, source_rows, warehouse_rows, self.count, tuple(self.examples))


class _Counted:
    """An iterator that knows how many rows it has given."""

    def __init__(self, rows: Iterator[Row]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = next(self._rows)
        self.count += 1
        return row


def _merge(
    rows: Iterator[Row], others: Iterator[Row], places: Sequence[int], names: Sequence[str], differences: _Differences
) -> None:
    row, other = next(rows, None), next(others, None)
    while row is not None and other is not None:
        if row == other:
            row, other = next(rows, None), next(others, None)
            continue
        key, other_key = [row[place] for place in places], [other[place] for place in places]
        if key == other_key:
            differences.add(f"{_shown(key)}: {_first_unequal(row, other, names)}")
            row, other = next(rows, None), next(others, None)
        elif key < other_key:
            differences.add(f"{_shown(key)} is missing in the warehouse")
            row = next(rows, None)
        else:
            differences.add(f"{_shown(other_key)} is only in the warehouse")
            other = next(others, None)
    for left in _from(row, rows):
        differences.add(f"{_shown([left[place] for place in places])} is missing in the warehouse")
    for left in _from(other, others):
        differences.add(f"{_shown([left[place] for place in places])} is only in the warehouse")


def _from(first: Row | None, rest: Iterator[Row]) -> Iterator[Row]:
    if first is not None:
        yield first
        yield from rest


def _cancel_out(rows: Iterator[Row], log: Iterator[tuple[int, Row]], differences: _Differences) -> int:
    """Read both sides in turn and keep only what has no counterpart yet; return what the log adds up to.

    Both come in about the order in which they were written, so little is kept at a time.
    """
    open_rows: dict[Row, int] = {}
    total = 0
    for row, entry in zip_longest(rows, log):
        if row is not None:
            _count(open_rows, row, 1)
        if entry is not None:
            sign, other = entry
            total += sign
            _count(open_rows, other, -sign)
    for row, count in open_rows.items():
        where = "missing in the warehouse" if count > 0 else "only in the warehouse"
        differences.add(f"{_shown(row)} is {abs(count)} times {where}", abs(count))
    return total


def _count(open_rows: dict[Row, int], row: Row, by: int) -> None:
    count = open_rows.get(row, 0) + by
    if count:
        open_rows[row] = count
    else:
        del open_rows[row]


def _one_sided(source: Snapshot, warehouse: WarehouseTables, table: SourceTable | None, name: str) -> TableComparison:
    """Compare with nothing: every row of the only side is a difference."""
    if table is None:
        count = warehouse.count(name)
        return TableComparison(name, 0, count, count, ("the source has no such table",) if count else ())
    count = sum(1 for _ in source.read(table))
    return TableComparison(name, count, 0, count, ("the warehouse has no such table",) if count else ())


def _without_columns(
    source: Snapshot, warehouse: WarehouseTables, table: SourceTable, missing: Sequence[str]
) -> TableComparison:
    """Take every row for different, and the lack of the column itself for one difference at least."""
    rows = sum(1 for _ in source.read(table))
    example = f"the warehouse has no column {', '.join(missing)}"
    return TableComparison(table.name, rows, warehouse.count(table.name), max(rows, 1), (example,))


def _first_unequal(row: Row, other: Row, names: Sequence[str]) -> str:
    name, mine, theirs = next(
        (name, mine, theirs) for name, mine, theirs in zip(names, row, other, strict=True) if mine != theirs
    )
    return f"{name} is {mine!r} in the source and {theirs!r} in the warehouse"


def _shown(values: Sequence[Value]) -> str:
    return ", ".join(str(value) for value in values)
