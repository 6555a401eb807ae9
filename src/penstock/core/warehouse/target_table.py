"""A table of a warehouse, and a place in the log of its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.warehouse.attributes import render_spread
from penstock.core.warehouse.columns import define_columns, own_columns
from penstock.core.warehouse.dialect import Dialect, quote_name

if TYPE_CHECKING:
    from penstock.core.tables import Column, TableId, TableSchema
    from penstock.core.warehouse.attributes import Spread
    from penstock.core.warehouse.load_plan import Deletes


def table_path(dialect: Dialect, catalog: str, table: TableId) -> str:
    """Return a table's full name, quoted."""
    return quote_name(dialect, catalog, table.schema, table.name)


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table of a warehouse, called as in the source: `shop.orders` is schema `shop`, table `orders`.

    `catalog` is the database that it is in, "" where the connection has only one,
    `deletes` what it does with rows that the source deletes, and `known_as` its
    full name, quoted, where that is another one.
    """

    catalog: str
    schema: TableSchema
    deletes: Deletes = "hard"
    known_as: str = ""

    def path(self, dialect: Dialect) -> str:
        """Its full name, quoted."""
        return self.known_as or table_path(dialect, self.catalog, self.schema.table)

    @property
    def own_columns(self) -> tuple[Column, ...]:
        """The columns of ours that it has behind the source's."""
        return own_columns(self.schema, self.deletes)

    @property
    def column_names(self) -> tuple[str, ...]:
        """All of its columns, in order."""
        return tuple(column.name for column in (*self.schema.columns, *self.own_columns))

    def definition(self, dialect: Dialect, layout: Spread | None = None) -> str:
        """What stands behind CREATE TABLE and its name; TableStoppedError for what the warehouse cannot hold."""
        encodings = layout.encodings if layout else {}
        columns = define_columns(dialect, self.schema, self.deletes, encodings)
        return f"({columns}){render_spread(dialect, layout, self.column_names)}"


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Where a statement stands in the log of the server of an `timeline`, and when it was committed, in Unix ms."""

    file: str
    pos: int
    row: int
    timestamp_ms: int
    timeline: int = 0
