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

    from penstock.core.positions import Partitions
    from penstock.core.postgres.catalog import SourceTable

_SHOWN_MAX: Final = 10
_FILTERS_SINCE: Final = 150000
_AS_ROOT_SINCE: Final = 130000
_GENERATED_SINCE: Final = 180000
_MISSED_SINCE: Final = 180000
"""Before PostgreSQL 18 the server does not send a log in which the publication was missing."""
# A row that was there first stays: what comes beside it takes nothing away, but for a row filter or a column list of
# the table's own, which count where its schema is not published. A partition that is published with its partitioned
# table leaves the publication when it is detached: the rows of pg_inherits, which have no numbers, are known by the
# transactions that wrote them.
_NUMBER: Final = """
CASE WHEN p.puballtables THEN {whole} ELSE
  (WITH ancestor AS (SELECT relid::oid AS oid FROM pg_partition_ancestors(c.oid) WHERE relid <> c.oid)
   SELECT place.oid::bigint + (mod(place.written, 1 << 20) << 32)
     FROM (SELECT oid, prrelid AS of, 0 AS written, {narrows} AS narrows
             FROM pg_publication_rel WHERE prpubid = p.oid AND prrelid = c.oid
           UNION ALL
           SELECT oid, prrelid, ({attached}), false FROM pg_publication_rel
            WHERE prpubid = p.oid AND prrelid IN (SELECT oid FROM ancestor)
           {by_schema}) place
    ORDER BY place.narrows DESC, place.oid, place.of <> c.oid, place.of LIMIT 1)
END
"""
_IN_SCHEMA: Final = "EXISTS (SELECT FROM pg_publication_namespace WHERE pnpubid = p.oid AND pnnspid = c.relnamespace)"
_NARROWS: Final = f"((prqual IS NOT NULL OR prattrs IS NOT NULL) AND NOT {_IN_SCHEMA})"
_ATTACHED: Final = """
SELECT sum(xmin::text::bigint)::bigint FROM pg_inherits
 WHERE inhrelid = c.oid OR inhrelid IN (SELECT oid FROM ancestor)
"""
# What a table depends on its schema by is written when it is made, and by SET SCHEMA alone.
_BY_SCHEMA: Final = """
UNION ALL
SELECT s.oid, d.objid, d.xmin::text::bigint + CASE WHEN d.objid = c.oid THEN 0 ELSE ({attached}) END, false
  FROM (SELECT c.oid AS oid UNION ALL SELECT oid FROM ancestor) member
  JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = member.oid AND d.objsubid = 0
                  AND d.refclassid = 'pg_namespace'::regclass AND d.deptype = 'n'
  JOIN pg_publication_namespace s ON s.pnpubid = p.oid AND s.pnnspid = d.refobjid
"""
# As pg_publication_tables has it, which from PostgreSQL 16 on waits for whoever holds one of the tables.
_PUBLISHED: Final = """
WITH p AS (SELECT xmin, * FROM pg_publication WHERE pubname = %s), named AS (
  SELECT prrelid::oid AS oid FROM pg_publication_rel JOIN p ON p.oid = prpubid
  UNION
  SELECT c.oid FROM pg_class c JOIN p ON p.puballtables OR {in_schema}
   WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND c.oid >= 16384)
SELECT n.nspname::text, c.relname::text, coalesce({number}, 0), p.xmin::text::bigint, {more}
  FROM p, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, LATERAL (
    SELECT c.oid IN (TABLE named) AS by_itself, c.relispartition AND EXISTS (
      SELECT FROM pg_partition_ancestors(c.oid) WHERE relid <> c.oid AND relid IN (TABLE named)) AS by_ancestor) is_in
 WHERE CASE WHEN {as_root} THEN is_in.by_itself AND NOT is_in.by_ancestor
            ELSE c.relkind = 'r' AND (is_in.by_itself OR is_in.by_ancestor) END
"""
_OWN_ROW: Final = f"FROM pg_publication_rel WHERE prpubid = p.oid AND prrelid = c.oid AND NOT {_IN_SCHEMA}"
_COLUMNS_AND_FILTER: Final = f"""
ARRAY(SELECT a.attname::text FROM pg_attribute a
       WHERE a.attrelid = c.oid AND a.attnum = ANY((SELECT prattrs {_OWN_ROW})::smallint[]) ORDER BY a.attnum),
(SELECT pg_get_expr(prqual, prrelid) {_OWN_ROW})
"""  # noqa: S608 - our own words
_LISTED_GENERATED: Final = """
SELECT n.nspname || '.' || c.relname, a.attname::text
  FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
  JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_attribute a ON a.attrelid = r.prrelid AND a.attnum = ANY(r.prattrs)
 WHERE p.pubname = %s AND a.attgenerated <> ''
"""


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication by its name, and how the source wants partitioned tables in it."""

    name: str
    partitions: Partitions = "one"

    @property
    def option(self) -> str:
        """What it is made with, or altered to."""
        return f"publish_via_partition_root = {'true' if self.partitions == 'one' else 'false'}"


@dataclass(frozen=True, slots=True)
class Published:
    """How a table is published: these columns of it (() for all), and rows that meet the filter, "" for all.

    `number` is another one after the table, its schema or its partitioned table left the publication and came back,
    after a partition was detached and attached again, after the table went to another schema and back where the schema
    is published as a whole, and after its columns or its filter changed. It is 0 in a publication of all tables, which
    no table leaves; where the server reads on though that was missing for a while, it is the publication's own.

    `altered_by` is the transaction that altered the publication itself last: its options, its owner or its name.
    """

    columns: tuple[str, ...] = ()
    filter: str = ""
    number: int = 0
    altered_by: int = 0


def publication_exists(connection: psycopg.Connection, name: str) -> bool:
    """Whether there is such a publication. Raises psycopg.Error."""
    return connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (name,)).fetchone() is not None


def publishes_all(connection: psycopg.Connection, name: str) -> bool:
    """Whether it has every table from the moment it is made. Raises psycopg.Error."""
    row = connection.execute("SELECT puballtables FROM pg_publication WHERE pubname = %s", (name,)).fetchone()
    return row is not None and bool(row[0])


def read_partitions(connection: psycopg.Connection, name: str) -> Partitions:
    """Return how a publication that is there has the rows of partitioned tables. Raises psycopg.Error."""
    if connection.info.server_version < _AS_ROOT_SINCE:
        return "many"
    row = connection.execute("SELECT pubviaroot FROM pg_publication WHERE pubname = %s", (name,)).fetchone()
    return "one" if row is not None and row[0] else "many"


def require_whole_publication(connection: psycopg.Connection, publication: Publication) -> None:
    """Raise UnfitServerError unless the publication is there and has all kinds of changes. Raises psycopg.Error.

    So it does where partitions are to be tables of their own, and their rows come as those of partitioned tables. The
    other way round it may have no such table, and those that it has are told and stopped, each for itself.
    """
    name = publication.name
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
    _require_no_generated_columns(connection, name)
    if publication.partitions == "many" and read_partitions(connection, name) == "one":
        raise UnfitServerError(*describe_partitions(publication))


def _require_no_generated_columns(connection: psycopg.Connection, name: str) -> None:
    """Raise UnfitServerError if it has any: a copy has none, and existing rows have values that the log lacks."""
    if connection.info.server_version < _GENERATED_SINCE:
        return
    row = connection.execute("SELECT pubgencols = 'n' FROM pg_publication WHERE pubname = %s", (name,)).fetchone()
    if row is not None and not row[0]:
        message = f"the publication {name} has generated columns, which are not carried"
        hint = f"ALTER PUBLICATION {name} SET (publish_generated_columns = none)"
        raise UnfitServerError(message, hint)
    listed = connection.execute(_LISTED_GENERATED, (name,)).fetchall()
    if listed:
        tables = ", ".join(sorted({table for table, _ in listed}))
        message = f"column lists of the publication {name} have generated columns, which are not carried: {tables}"
        hint = (
            f"ALTER PUBLICATION {name} SET TABLE ..., with lists that lack {', '.join(sorted({c for _, c in listed}))}"
        )
        raise UnfitServerError(message, hint)


def describe_partitions(publication: Publication) -> tuple[str, str]:
    """Say that it has the rows of partitioned tables otherwise than the source wants them, and what to do."""
    as_what = "under the names of partitions" if publication.partitions == "one" else "without their partitions"
    message = (
        f"the publication {publication.name} has the rows of partitioned tables {as_what}, and the source has "
        f"`partitions: {publication.partitions}`"
    )
    hint = f"ALTER PUBLICATION {publication.name} SET ({publication.option})"
    return message, f"{hint}; if the pipeline has run meanwhile, {NEW_SLOT}"


def ensure_publication(connection: psycopg.Connection, publication: Publication) -> None:
    """Make the publication unless there is one: of all tables, and of those that come later.

    Raises UnfitServerError where we may not, and where that would keep others from writing: PostgreSQL
    refuses UPDATE and DELETE on a published table that has no replica identity.
    """
    name = publication.name
    if publication_exists(connection, name):
        require_whole_publication(connection, publication)
        return
    unfit = unidentified_tables(connection, publication.partitions)
    if unfit:
        raise UnfitServerError(*describe_unidentified(publication, unfit))
    options = "publish = 'insert, update, delete, truncate'"
    if connection.info.server_version >= _AS_ROOT_SINCE:
        options += f", {publication.option}"
    statement = sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES WITH ({})")
    try:
        connection.execute(statement.format(sql.Identifier(name), sql.SQL(options)))
    except errors.InsufficientPrivilege as error:
        raise UnfitServerError(*describe_forbidden(publication, connection.info.user)) from error


def describe_forbidden(publication: Publication, role: str) -> tuple[str, str]:
    """Say that we may not make a publication of all tables, and who may make which."""
    name, option = publication.name, publication.option
    message = f"there is no publication {name}, and {role} may not make one of all tables"
    hint = (
        f"as a superuser: CREATE PUBLICATION {name} FOR ALL TABLES WITH ({option}); or as "
        f"their owner: CREATE PUBLICATION {name} FOR TABLE ... WITH ({option})"
    )
    return message, hint


def unidentified_tables(connection: psycopg.Connection, partitions: Partitions) -> list[TableId]:
    """Every table of the database whose updates cannot be logged. Raises psycopg.Error."""
    tables = read_tables(connection, partitions)
    return [each.table.id for each in tables if not each.has_identity]


def describe_unidentified(publication: Publication, tables: list[TableId]) -> tuple[str, str]:
    """Say why no publication of all tables is made, and what to do."""
    shown = ", ".join(map(str, tables[:_SHOWN_MAX])) + (", ..." if len(tables) > _SHOWN_MAX else "")
    message = (
        f"no publication {publication.name} of all tables is made: PostgreSQL would then refuse UPDATE and DELETE "
        f"on tables without a primary key or replica identity, which are {shown}"
    )
    hint = (
        f"give them a primary key, or ALTER TABLE {tables[0]} REPLICA IDENTITY FULL; or make the publication yourself, "
        f"of those that are wanted: CREATE PUBLICATION {publication.name} FOR TABLE ... WITH ({publication.option})"
    )
    return message, hint


def read_published(connection: psycopg.Connection, name: str) -> Mapping[TableId, Published]:
    """Return what is published now; who holds a table is waited for if it has a row filter. Raises psycopg.Error."""
    version = connection.info.server_version
    has_filters = version >= _FILTERS_SINCE
    query = _PUBLISHED.format(
        number=_number(connection),
        in_schema=_IN_SCHEMA if has_filters else "false",
        as_root="p.pubviaroot" if version >= _AS_ROOT_SINCE else "false",
        more=_COLUMNS_AND_FILTER if has_filters else "NULL, NULL",
    )
    rows = connection.execute(query.encode(), (name,)).fetchall()
    return {
        TableId(schema, table): Published(tuple(columns or ()), condition or "", number, altered_by)
        for schema, table, number, altered_by, columns, condition in rows
    }


def read_numbers(connection: psycopg.Connection, name: str, oid: int) -> tuple[int | None, int]:
    """Return `number` and `altered_by` of Published for a table, None and 0 if it is not. Raises psycopg.Error."""
    query = f"""
        SELECT {_number(connection)}, p.xmin::text::bigint
          FROM pg_publication p, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE p.pubname = %s AND c.oid = %s::oid"""  # noqa: S608 - our own words
    row = connection.execute(query.encode(), (name, oid)).fetchone()
    return (row[0], row[1]) if row else (None, 0)


def _number(connection: psycopg.Connection) -> str:
    version = connection.info.server_version
    return _NUMBER.format(
        whole="p.oid::bigint" if version >= _MISSED_SINCE else "0",
        attached=_ATTACHED,
        narrows=_NARROWS if version >= _FILTERS_SINCE else "false",
        by_schema=_BY_SCHEMA.format(attached=_ATTACHED) if version >= _FILTERS_SINCE else "",
    )


def narrowed(found: SourceTable, how: Published | None) -> SourceTable:
    """Note how it is published, and leave out the columns that are not."""
    number, altered_by = (None, 0) if how is None else (how.number, how.altered_by)
    relation, table = found.relation, replace(found.table, published=number, publication_altered_by=altered_by)
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
