"""What a tracker has and what it looks like, each asked once and again when a statement has touched it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.adapters.mysql.catalog import is_sequence, is_table, read_kinds, read_kinds_of_schemas, read_tables
from penstock.adapters.mysql.foreign_keys import read_cascades

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import pymysql

    from penstock.core.mysql.statements.foreign_keys import Cascade
    from penstock.core.mysql.statements.touched import Touched
    from penstock.core.table_policy import TablePolicy
    from penstock.core.tables import TableId, TableSchema


class TrackerTables:
    """The tables of one tracker, which only whoever has this changes; `forget` comes with every change."""

    def __init__(self, policy: TablePolicy) -> None:
        """Know nothing yet; `policy` shapes the schemas."""
        self._policy = policy
        self.forget_everything()

    def forget_everything(self) -> None:
        """Ask for all of it again."""
        self._kinds: dict[TableId, str] | None = None
        self._touched: list[Touched] = []
        self._sorted: Sequence[TableId] | None = None
        self._schemas: dict[TableId, TableSchema | None] = {}
        self._cascades: Sequence[Cascade] | None = None

    def forget(self, touched: Touched) -> None:
        """Ask again for what a statement touches, and for nothing else."""
        if touched.is_everything:
            self.forget_everything()
            return
        self._touched.append(touched)
        self._cascades = None
        for table in touched.among(self._schemas):
            del self._schemas[table]

    def ids(self, connection: pymysql.Connection) -> Sequence[TableId]:
        """Every base table there is, sorted."""
        kinds = self._current_kinds(connection)
        if self._sorted is None:
            tables = (table for table, kind in kinds.items() if is_table(kind))
            self._sorted = sorted(tables, key=lambda table: (table.schema, table.name))
        return self._sorted

    def sequences(self, connection: pymysql.Connection) -> Collection[TableId]:
        """Every sequence."""
        return frozenset(table for table, kind in self._current_kinds(connection).items() if is_sequence(kind))

    def describe(self, connection: pymysql.Connection, tables: Iterable[TableId]) -> Mapping[TableId, TableSchema]:
        """What `tables` look like; what is not there is left out."""
        wanted = set(tables)
        unknown = wanted - self._schemas.keys()
        if unknown:
            found = read_tables(connection, unknown, self._policy)
            self._schemas |= {table: found.get(table) for table in unknown}
        return {table: schema for table in wanted if (schema := self._schemas[table]) is not None}

    def cascades(self, connection: pymysql.Connection) -> Sequence[Cascade]:
        """Every foreign key with CASCADE or SET NULL; all are read at once after a change."""
        if self._cascades is None:
            self._cascades = read_cascades(connection, lambda _: True)
        return self._cascades

    def _current_kinds(self, connection: pymysql.Connection) -> Mapping[TableId, str]:
        """What there is by name: all of it is listed once, then what was touched."""
        if self._kinds is None:
            self._kinds = dict(read_kinds(connection, None))
            self._sorted = None
        while self._touched:
            touched = self._touched[-1]
            now = {**read_kinds(connection, touched.tables), **read_kinds_of_schemas(connection, touched.whole_schemas)}
            before = {table: self._kinds[table] for table in touched.among(self._kinds)}
            if now != before:
                for table in before:
                    del self._kinds[table]
                self._kinds |= now
                self._sorted = None
            self._touched.pop()
        return self._kinds
