"""Publications: what of the database the log tells us about.

Source: PostgreSQL 18 documentation, "CREATE PUBLICATION" and "pg_publication_tables".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from psycopg import errors, sql

from penstock.adapters.postgres.source.catalog import read_tables
from penstock.core.errors import NEW_SLOT, UnfitServerError
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

    from penstock.adapters.postgres.source.catalog import SourceTable

_SHOWN_MAX: Final = 10
_FILTERS_SINCE: Final = 150000
_AS_ROOT_SINCE: Final = 130000
_MISSED_SINCE: Final = 180000
"""Before PostgreSQL 18 the server does not send a log in which the publication was missing."""
_NUMBER: Final = """
CASE WHEN p.puballtables THEN {whole}
     ELSE (SELECT min(oid::bigint) FROM pg_publication_rel
            WHERE prpubid = p.oid AND (prrelid = c.oid OR prrelid IN (SELECT relid FROM pg_partition_ancestors(c.oid))))
END
"""
_NUMBER_BY_SCHEMA: Final = """
least({number}, (SELECT oid::bigint FROM pg_publication_namespace WHERE pnpubid = p.oid AND pnnspid = n.oid))
"""
_PUBLISHED: Final = """
SELECT t.schemaname::text, t.tablename::text, coalesce({number}, 0), {more}
  FROM pg_publication_tables t JOIN pg_publication p ON p.pubname = t.pubname
  JOIN pg_namespace n ON n.nspname = t.schemaname JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
 WHERE t.pubname = %s
"""


@dataclass(frozen=True, slots=True)
class Published:
    """How a table is published: these columns of it (() for all), and rows that meet the filter, "" for all.

    `number` is another one after the table, its schema or its partitioned table left the publication and came back,
    and after its columns or its filter changed. It is 0 in a publication of all tables, which no table leaves;
    where the server reads on though that was missing for a while, it is the publication's own.
    """

    columns: tuple[str, ...] = ()
    filter: str = ""
    number: int = 0


def publication_exists(connection: psycopg.Connection, name: str) -> bool:
    """Whether there is such a publication. Raises psycopg.Error."""
    return connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (name,)).fetchone() is not None


def publishes_all(connection: psycopg.Connection, name: str) -> bool:
    """Whether it has every table from the moment it is made. Raises psycopg.Error."""
    row = connection.execute("SELECT puballtables FROM pg_publication WHERE pubname = %s", (name,)).fetchone()
    return row is not None and bool(row[0])


def require_whole_publication(connection: psycopg.Connection, name: str) -> None:
    """Raise UnfitServerError unless the publication is there and has all kinds of changes. Raises psycopg.Error."""
    row = connection.execute(
        "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_publication WHERE pubname = %s", (name,)
    ).fetchone()
    if row is None:
        message = f"the publication {name} is gone, and the log cannot be read without it"
        raise UnfitServerError(message, f"what changed while it was missing cannot be read any more; {NEW_SLOT}")
    if not row[0]:
        message = f"the publication {name} leaves out some kinds of changes, so rows would not be as in the source"
        hint = f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')"
        raise UnfitServerError(message, f"{hint}; if the pipeline has run meanwhile, {NEW_SLOT}")


def ensure_publication(connection: psycopg.Connection, name: str) -> None:
    """Make the publication unless there is one: of all tables, and of those that come later.

    Raises UnfitServerError where we may not, and where that would keep others from writing: PostgreSQL
    refuses UPDATE and DELETE on a published table that has no replica identity.
    """
    if publication_exists(connection, name):
        require_whole_publication(connection, name)
        return
    unfit = unidentified_tables(connection)
    if unfit:
        raise UnfitServerError(*describe_unidentified(name, unfit))
    options = "publish = 'insert, update, delete, truncate'"
    if connection.info.server_version >= _AS_ROOT_SINCE:
        options += ", publish_via_partition_root = true"
    statement = sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES WITH ({})")
    try:
        connection.execute(statement.format(sql.Identifier(name), sql.SQL(options)))
    except errors.InsufficientPrivilege as error:
        raise UnfitServerError(*describe_forbidden(name, connection.info.user)) from error


def describe_forbidden(name: str, role: str) -> tuple[str, str]:
    """Say that we may not make a publication of all tables, and who may make which."""
    message = f"there is no publication {name}, and {role} may not make one of all tables"
    hint = (
        f"as a superuser: CREATE PUBLICATION {name} FOR ALL TABLES WITH (publish_via_partition_root = true); or as "
        f"their owner: CREATE PUBLICATION {name} FOR TABLE ... WITH (publish_via_partition_root = true)"
    )
    return message, hint


def unidentified_tables(connection: psycopg.Connection) -> list[TableId]:
    """Every table of the database whose updates cannot be logged. Raises psycopg.Error."""
    tables = read_tables(connection)
    return [TableId(each.table.schema, each.table.name) for each in tables if not each.has_identity]


def describe_unidentified(name: str, tables: list[TableId]) -> tuple[str, str]:
    """Say why no publication of all tables is made, and what to do."""
    shown = ", ".join(map(str, tables[:_SHOWN_MAX])) + (", ..." if len(tables) > _SHOWN_MAX else "")
    message = (
        f"no publication {name} of all tables is made: PostgreSQL would then refuse UPDATE and DELETE on tables "
        f"without a primary key or replica identity, which are {shown}"
    )
    hint = (
        f"give them a primary key, or ALTER TABLE {tables[0]} REPLICA IDENTITY FULL; or make the publication yourself, "
        f"of those that are wanted: CREATE PUBLICATION {name} FOR TABLE ... WITH (publish_via_partition_root = true)"
    )
    return message, hint


def read_published(connection: psycopg.Connection, name: str) -> Mapping[TableId, Published]:
    """Return what is published now. Raises psycopg.Error."""
    more = "t.attnames::text[], t.rowfilter" if connection.info.server_version >= _FILTERS_SINCE else "NULL, NULL"
    query = _PUBLISHED.format(number=_number(connection), more=more)
    rows = connection.execute(query.encode(), (name,)).fetchall()
    return {
        TableId(schema, table): Published(tuple(columns or ()), condition or "", number)
        for schema, table, number, columns, condition in rows
    }


def read_number(connection: psycopg.Connection, name: str, oid: int) -> int | None:
    """Return `Published.number` of a table, None if it is not published now. Raises psycopg.Error."""
    query = f"""
        SELECT {_number(connection)} FROM pg_publication p, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE p.pubname = %s AND c.oid = %s::oid"""  # noqa: S608 - our own words
    row = connection.execute(query.encode(), (name, oid)).fetchone()
    return row[0] if row else None


def _number(connection: psycopg.Connection) -> str:
    version = connection.info.server_version
    number = _NUMBER.format(whole="p.oid::bigint" if version >= _MISSED_SINCE else "0")
    return _NUMBER_BY_SCHEMA.format(number=number) if version >= _FILTERS_SINCE else number


def narrowed(found: SourceTable, how: Published | None) -> SourceTable:
    """Note how it is published, and leave out the columns that are not."""
    relation, table = found.relation, replace(found.table, published=None if how is None else how.number)
    if how is None or not how.columns:
        return replace(found, table=table)
    return replace(
        found,
        relation=replace(relation, columns=tuple(c for c in relation.columns if c.name in how.columns)),
        table=replace(table, columns=tuple(c for c in table.columns if c.name in how.columns)),
    )


def select_from(found: SourceTable, how: Published | None) -> tuple[sql.Composed, sql.SQL | None]:
    """Return what stands behind FROM for a table, and the condition that published rows meet, None for all."""
    # A table's heirs, which are no partitions, are tables of their own.
    only = sql.SQL("" if found.is_partitioned else "ONLY ")
    source = sql.SQL("{}{}").format(only, sql.Identifier(found.table.schema, found.table.name))
    return source, sql.SQL(f"({how.filter})") if how is not None and how.filter else None
