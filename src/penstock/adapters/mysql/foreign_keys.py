"""Reading which tables a server changes by itself, because their foreign keys say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.adapters.mysql.catalog import read_create
from penstock.adapters.mysql.connection import ask
from penstock.core.mysql.foreign_keys import cascades_of
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pymysql

    from penstock.core.mysql.foreign_keys import Cascade


def read_cascades(connection: pymysql.Connection, of: Callable[[TableId], bool]) -> Sequence[Cascade]:
    """Read the foreign keys with CASCADE or SET NULL `of` tables that we may read, sorted by table.

    MariaDB shows REFERENTIAL_CONSTRAINTS to nobody who may only SELECT, and says
    nothing of it; what the tables' own statements say, it does show.
    """
    rows = ask(
        connection,
        "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME FROM information_schema.KEY_COLUMN_USAGE "
        "WHERE REFERENCED_TABLE_NAME IS NOT NULL",
    )
    found: list[Cascade] = []
    for table in sorted(TableId(schema, name) for schema, name in rows):
        create = read_create(connection, table)[0] if of(table) else None
        found += [] if create is None else cascades_of(table, create.statement)
    return found
