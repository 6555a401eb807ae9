"""What a statement can make, change or end: as much as that is kept of the tracker before it is replayed.

Too much costs time. Too little would leave what a crash has half done, so what
cannot be told surely is everything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.system_schemas import MYSQL as SYSTEM_SCHEMAS
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock.core.mysql.statements.ddl import TableDdl

# Servers older than the number read such a comment as one; we read its inside. From 50700 on, MariaDB does, too.
_COMMENT_OF_SOME: Final = re.compile(r"/\*(M)?!(\d{5,6})?")
_EVERYBODY_READS: Final = 50_700


@dataclass(frozen=True, slots=True)
class Touched:
    """Tables and schemas in every spelling in which the server may have them, whether they are there or not.

    `tables`          tables and sequences
    `schemas`         schemas that may begin, end or get other defaults
    `whole_schemas`   schemas of which every table may end
    `moves_keys`      foreign keys of other tables, which refer to `tables`, may change with them
    `is_everything`   nobody can tell
    """

    tables: frozenset[TableId] = frozenset()
    schemas: frozenset[str] = frozenset()
    whole_schemas: frozenset[str] = frozenset()
    moves_keys: bool = False
    is_everything: bool = False

    def has(self, table: TableId) -> bool:
        """Whether the statement may make, change or end `table`."""
        return self.is_everything or table in self.tables or table.schema in self.whole_schemas

    def among(self, tables: Iterable[TableId]) -> list[TableId]:
        """Those of `tables` that the statement may make, change or end."""
        # A text knows its hash, a table's is made of two each time: of thousands, nearly all are passed over here.
        names = {table.name for table in self.tables}
        is_schema = self.is_everything or bool(self.whole_schemas)
        return [table for table in tables if (is_schema or table.name in names) and self.has(table)]


EVERYTHING: Final = Touched(is_everything=True)
"""What may be touched by a statement that cannot be read."""


def touched_by(sql: str, ddl: TableDdl, default_schema: str, tables: Collection[TableId]) -> Touched:
    """Say what `sql`, which was read as `ddl`, touches where there are `tables` and `default_schema` is selected."""
    if any(mark or int(version or 0) >= _EVERYBODY_READS for mark, version in _COMMENT_OF_SOME.findall(sql)):
        return EVERYTHING
    match ddl.action:
        case "unknown":
            return EVERYTHING
        case "create_schema" | "alter_schema" | "drop_schema":
            if not (ddl.schema or default_schema):
                return EVERYTHING
            schemas = _spelled_schemas(ddl.schema or default_schema, tables)
            empties = ddl.replaces or ddl.action == "drop_schema"
            return Touched(schemas=schemas, whole_schemas=schemas if empties else frozenset())
        case _:
            named = [TableId(schema or default_schema, name) for schema, name in ddl.tables]
            return Touched(_spelled_tables(named, tables), moves_keys=ddl.action in {"alter", "rename"})


def _spelled_schemas(schema: str, tables: Collection[TableId]) -> frozenset[str]:
    folded = schema.casefold()
    return frozenset({schema, schema.lower(), *(t.schema for t in tables if t.schema.casefold() == folded)})


def _spelled_tables(named: Collection[TableId], tables: Collection[TableId]) -> frozenset[TableId]:
    folded, names = {(t.schema.casefold(), t.name.casefold()) for t in named}, {t.name.casefold() for t in named}
    typed = {*named, *(TableId(t.schema.lower(), t.name.lower()) for t in named)}
    alike = [table for table in tables if table.name.casefold() in names]
    found = typed.union(t for t in alike if (t.schema.casefold(), t.name.casefold()) in folded)
    # The server's own are in no dump.
    return frozenset(table for table in found if table.schema not in SYSTEM_SCHEMAS)
