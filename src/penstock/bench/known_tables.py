"""Tables that never change: what a bench's reader asks instead of a tracker and a registry."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, NoReturn

from penstock.adapters.mysql.catalog import read_tables
from penstock.adapters.mysql.connection import connect
from penstock.core.avro.schemas import value_schema
from penstock.core.errors import PenstockError
from penstock.core.mysql.statements.touched import EVERYTHING
from penstock.core.schema_changes import SchemaChange
from penstock.links.capture.table_catalog import TableCatalog
from penstock.ports.registry import RegisteredTable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.adapters.mysql.connection import MysqlServer
    from penstock.core.mysql.statements.foreign_keys import Cascade
    from penstock.core.mysql.statements.sql_session import SqlSession
    from penstock.core.mysql.statements.touched import Touched
    from penstock.core.tables import TableId, TableSchema
    from penstock.ports.tracker import SchemaCatalog

_SOURCE = "bench"
_KEY_SCHEMA = 1
_VALUE_SCHEMA = 2


def open_table_catalog(server: MysqlServer, table: TableId) -> TableCatalog:
    """A book that carries `table` as it is now, and no other."""
    with closing(connect(server)) as connection:
        schemas = read_tables(connection, [table])
    return known_table_catalog(KnownTables(schemas), schemas)


def known_table_catalog(catalog: SchemaCatalog, schemas: Mapping[TableId, TableSchema]) -> TableCatalog:
    """A book that carries the one table of `schemas`, whose shape `catalog` knows."""
    (table,) = schemas
    announced = SchemaChange(_SOURCE, table, str(table), "", _KEY_SCHEMA, _VALUE_SCHEMA, 1, (0, 0, -1))
    return TableCatalog(_SOURCE, catalog, KnownTables(schemas), [announced], lambda wanted: wanted == table)


class KnownTables:
    """A tracker and a registry (ports/) of tables that nobody changes."""

    connector = "mysql"
    folds_names = False

    def __init__(self, schemas: Mapping[TableId, TableSchema]) -> None:
        """Know `schemas`."""
        self._schemas = schemas

    def tables(self) -> Sequence[TableId]:
        """All of them."""
        return sorted(self._schemas)

    def require_empty(self) -> None:
        """Look at nothing: the rows are what is read."""

    def describe(self, tables: Collection[TableId]) -> Mapping[TableId, TableSchema]:
        """Some of them."""
        return {table: schema for table in tables if (schema := self.table_schema(table))}

    def table_schema(self, table: TableId) -> TableSchema | None:
        """One of them."""
        return self._schemas.get(table)

    def cascades(self) -> Sequence[Cascade]:
        """Say that there are none: nobody writes to these tables by statements."""
        return ()

    def sequences(self) -> Sequence[TableId]:
        """Say that there are none."""
        return ()

    def register(self, source: str, schema: TableSchema) -> RegisteredTable:
        """Give every table the same ids; there is one."""
        return RegisteredTable(schema, f"{source}.{schema.table}", _KEY_SCHEMA, _VALUE_SCHEMA, "")

    def value_schema(self, schema_id: int) -> str:
        """The schema of the one table."""
        if schema_id != _VALUE_SCHEMA:
            _refuse(f"there is no schema {schema_id}")
        return value_schema(next(iter(self._schemas.values())))

    def take_over(self) -> None:
        """Refuse."""
        _refuse("nobody changes the tables")

    def apply(self, sql: str, default_schema: str, session: SqlSession) -> None:  # noqa: ARG002 - the port's names
        """Refuse."""
        _refuse("a statement changes the tables")

    def partitions(self, table: TableId) -> Sequence[str]:  # noqa: ARG002 - the port's name
        """None is partitioned."""
        return ()

    def dump(self, touched: Touched = EVERYTHING) -> str:  # noqa: ARG002 - the port's name
        """Refuse."""
        _refuse("there is nothing to dump")

    def restore(self, dump: str) -> None:  # noqa: ARG002 - the port's name
        """Refuse."""
        _refuse("there is nothing to restore")

    def fill(self, dump: str) -> Mapping[TableId, str]:
        """Refuse."""
        self.restore(dump)
        return {}

    def close(self) -> None:
        """Nothing is open."""


def _refuse(what: str) -> NoReturn:
    message = f"a bench's tables never change, but {what}"
    raise PenstockError(message, "this is a mistake in the bench: report it")
