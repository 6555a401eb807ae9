"""Reading which tables refer to others, and which of them a server changes by itself, as their foreign keys say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymysql.constants import ER

from penstock.adapters.mysql.catalog import read_create, read_flavour
from penstock.adapters.mysql.connection import ask, error_code, server_of
from penstock.adapters.mysql.grants import read_grants
from penstock.adapters.mysql.visible import hidden_target
from penstock.core.errors import UnfitServerError
from penstock.core.mysql.statements.foreign_keys import KeysAbove, cascades_of
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import pymysql

    from penstock.core.mysql.statements.foreign_keys import Cascade

# InnoDB writes names as the file system has them.
_NAME = "CONVERT(CONVERT(CAST(SUBSTRING_INDEX({}, '/', {}) AS BINARY) USING filename) USING utf8mb4)"
_OF_INNODB = (
    f"SELECT DISTINCT {_NAME.format('FOR_NAME', 1)}, {_NAME.format('FOR_NAME', -1)}, "  # noqa: S608 - no text from outside
    f"{_NAME.format('REF_NAME', 1)}, {_NAME.format('REF_NAME', -1)} FROM information_schema.INNODB_SYS_FOREIGN"
)
_OF_ALL = (
    "SELECT DISTINCT CONSTRAINT_SCHEMA, TABLE_NAME, UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME "
    "FROM information_schema.REFERENTIAL_CONSTRAINTS"
)


def read_children(connection: pymysql.Connection, tables: Collection[TableId]) -> Collection[TableId]:
    """Read which tables refer to any of `tables`, in whatever case.

    MariaDB opens every table to tell of REFERENTIAL_CONSTRAINTS (0.4 s of CPU for
    2,000 tables); InnoDB's own list, which takes the privilege PROCESS, costs 1 ms.
    """
    folded = {_folded(table.schema, table.name) for table in tables}
    rows = _read_references(connection)
    return frozenset(TableId(schema, name) for schema, name, *parent in rows if _folded(*parent) in folded)


def _read_references(connection: pymysql.Connection) -> Sequence[tuple[str, str, str, str]]:
    if read_flavour(connection) == "mariadb":
        try:
            return ask(connection, _OF_INNODB)
        except UnfitServerError as error:
            if error_code(error) != ER.SPECIFIC_ACCESS_DENIED_ERROR:
                raise
    return ask(connection, _OF_ALL)


def _folded(schema: str, name: str) -> tuple[str, str]:
    return schema.casefold(), name.casefold()


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


def read_keys_above(connection: pymysql.Connection, tables: Collection[TableId]) -> KeysAbove:
    """Read the foreign keys with CASCADE or SET NULL of `tables`, of the tables that these refer to, and so on.

    One that is not there now has none, if our grants would show it. One that the server does not show, as it is
    broken or granted in part, is hidden: it may be nobody's concern but that of what hangs on it.
    """
    lines, user = read_grants(connection), server_of(connection).user
    cascades: list[Cascade] = []
    hidden: dict[TableId, str] = {}
    known, left = set(tables), list(tables)
    while left:
        table = left.pop()
        try:
            create = read_create(connection, table)[0]
        except UnfitServerError:
            hidden[table] = f"have SHOW CREATE TABLE {table} answer (repair it, or GRANT SELECT ON {table} TO {user})"
            continue
        if create is not None:
            found = cascades_of(table, create.statement)
            cascades += found
            parents = {each.parent for each in found} - known
            known |= parents
            left += parents
        elif target := hidden_target(str(table), lines):
            hidden[table] = f"GRANT SELECT ON {target} TO {user}"
    return KeysAbove(tuple(cascades), hidden)


def logs_cascades(connection: pymysql.Connection) -> bool:
    """Whether the server logs the rows that it changes now because of a foreign key; not those that a master changed.

    From MySQL 9.6 on the server itself does what foreign keys say, unless it is told
    otherwise. Elsewhere InnoDB does, where the log does not see it.
    """
    rows = ask(connection, "SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'")
    return [str(value) for _, value in rows] == ["OFF"]
