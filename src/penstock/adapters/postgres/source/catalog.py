"""Tables and types as PostgreSQL's catalog has them now, or in the transaction that asks.

Source: PostgreSQL 18 documentation, "System Catalogs".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.core.postgres.catalog import DDL_LOG, ColumnRow, KeyRow, SourceTable, TableRow, source_tables
from penstock.core.postgres.partitions import Partition
from penstock.core.postgres.types import TypeInfo
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import psycopg

    from penstock.core.positions import Partitions

_SYSTEM_SCHEMAS: Final = ("pg_catalog", "information_schema", DDL_LOG.schema)

TABLES: Final = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relreplident::text, coalesce(obj_description(c.oid, 'pg_class'), ''),
       c.relkind::text
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE {which}
 ORDER BY n.nspname, c.relname
"""
# What a domain has for a default is none of the column, and may be computed as any other. What older rows of a
# partitioned table have is kept by its partitions: unless all of them still have it, nobody knows what it was.
COLUMNS: Final = """
SELECT a.attrelid::bigint, a.attnum, a.attname, a.atttypid::bigint, a.atttypmod,
       coalesce(col_description(a.attrelid, a.attnum), ''),
       CASE WHEN a.atthasmissing THEN array_to_string(a.attmissingval, '') WHEN older.is_one THEN older.value END,
       CASE WHEN a.attidentity <> '' THEN true WHEN a.atthasmissing OR older.is_one THEN false
            WHEN a.atthasdef OR older.is_one IS NOT NULL OR t.typdefault IS NOT NULL OR t.typdefaultbin IS NOT NULL
            THEN true {kept} END,
       a.attgenerated <> '', {again}
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN (
    SELECT root.oid, b.attname AS column, min(value) AS value, min(value) = max(value) AND count(*) = (
             SELECT count(*) FROM pg_partition_tree(root.oid) WHERE isleaf) AS is_one
      FROM pg_class root CROSS JOIN pg_partition_tree(root.oid) p JOIN pg_attribute b ON b.attrelid = p.relid
           CROSS JOIN array_to_string(b.attmissingval, '') value
     WHERE root.oid = ANY({oids}) AND root.relkind = 'p' AND p.isleaf AND b.atthasmissing
     GROUP BY root.oid, b.attname) older ON older.oid = c.oid AND older.column = a.attname
 WHERE a.attrelid = ANY({oids}) AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attrelid, a.attnum
"""
# A column that is NOT NULL had values when it was added. If PostgreSQL has not kept them apart, and has written the
# table's files anew since it was made, it may have computed them, though the default is gone by now.
KEPT: Final = """
WHEN NOT a.attnotnull THEN false WHEN c.relkind = 'p' THEN
  EXISTS (SELECT FROM pg_partition_tree(c.oid) p JOIN pg_class leaf ON leaf.oid = p.relid
           WHERE p.isleaf AND leaf.relfilenode <> leaf.oid)
ELSE c.relfilenode <> c.oid
"""
# Whoever reads the log late asks what a column was that a transaction wrote. What was written into the catalog since
# may be of another column, if one was dropped since. Numbers of transactions go round.
_NEWER: Final = "mod({of}.xmin::text::bigint - %(xid)s + (1::bigint << 32), 1::bigint << 32) BETWEEN 1 AND 1 << 30"
_AGAIN: Final = f"""
{_NEWER.format(of="a")} AND EXISTS (
  SELECT FROM pg_attribute d WHERE d.attrelid = a.attrelid AND d.attisdropped AND {_NEWER.format(of="d")})
"""
_DROPPED: Final = f"""
SELECT a.attnum FROM pg_attribute a
 WHERE a.attrelid = %(oid)s::oid AND a.attnum > 0 AND a.attisdropped AND {_NEWER.format(of="a")}
"""  # noqa: S608 - our own words
# One that is checked behind a statement, or a transaction, is no replica identity, and lets two rows have one key
# meanwhile: in the log a row would take another one's place.
KEYS: Final = """
SELECT i.indrelid::bigint, i.indisprimary, i.indisreplident,
       ARRAY(SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY k(attnum, place)
              JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
             WHERE k.place <= i.indnkeyatts ORDER BY k.place)
  FROM pg_index i
 WHERE i.indrelid = ANY({oids}) AND (i.indisprimary OR i.indisreplident) AND i.indisvalid
   AND i.indimmediate
"""
# A table's system columns are written with it, and never again; a row of pg_inherits is by the table's own ATTACH.
_PARTITIONS: Final = """
SELECT c.oid::bigint, i.inhrelid::bigint, i.xmin::text::bigint, i.xmin = a.xmin,
       child.relfilenode::bigint, child.xmin::text::bigint, child.oid::regclass::text,
       p.isleaf AND child.relreplident = 'f',
       CASE WHEN p.isleaf THEN
         ARRAY(SELECT b.attname::text FROM pg_index x CROSS JOIN unnest(x.indkey) WITH ORDINALITY k(attnum, place)
                JOIN pg_attribute b ON b.attrelid = x.indrelid AND b.attnum = k.attnum
               WHERE x.indrelid = child.oid AND k.place <= x.indnkeyatts AND x.indisvalid AND x.indimmediate
                 AND CASE child.relreplident WHEN 'd' THEN x.indisprimary WHEN 'i' THEN x.indisreplident END
               ORDER BY k.place)
       ELSE '{}' END
  FROM pg_class c CROSS JOIN LATERAL pg_partition_tree(c.oid) p JOIN pg_inherits i ON i.inhrelid = p.relid
  JOIN pg_attribute a ON a.attrelid = i.inhrelid AND a.attname = 'tableoid' JOIN pg_class child ON child.oid = p.relid
 WHERE c.oid = ANY(%s::oid[]) AND p.level > 0
"""
_TYPES: Final = """
SELECT t.oid::bigint, t.typname, t.typtype::text, t.typbasetype::bigint, t.typtypmod,
       CASE WHEN t.typcategory = 'A' THEN t.typelem::bigint ELSE 0 END, t.typdelim::text
  FROM pg_type t
"""


def read_types(connection: psycopg.Connection) -> Mapping[int, TypeInfo]:
    """Look all types up, by OID. Raises psycopg.Error."""
    rows = connection.execute(_TYPES).fetchall()
    return {
        oid: TypeInfo(name, kind, below, modifier, element, delimiter)
        for oid, name, kind, below, modifier, element, delimiter in rows
    }


def read_table(connection: psycopg.Connection, oid: int, xid: int = 0) -> SourceTable | None:
    """Look one table up, for rows of the transaction `xid` (0: for those of now); None if it is gone.

    Raises psycopg.Error.
    """
    rows = connection.execute(TABLES.format(which="c.oid = %s::oid"), (oid,)).fetchall()
    found = next(iter(_with_columns(connection, rows, xid)), None)
    if found is None or not xid:
        return found
    dropped = connection.execute(_DROPPED.encode(), {"oid": oid, "xid": xid}).fetchall()
    return replace(found, table=replace(found.table, dropped=tuple(number for (number,) in dropped)))


def read_tables(connection: psycopg.Connection, partitions: Partitions) -> Sequence[SourceTable]:
    """Look up every table that keeps rows for good. Raises psycopg.Error.

    Partitions are left out, for their rows are their root's; with `many` partitioned tables are, which have no rows.
    """
    kinds = "c.relkind = 'r'" if partitions == "many" else "c.relkind IN ('r', 'p') AND NOT c.relispartition"
    which = f"{kinds} AND c.relpersistence = 'p' AND n.nspname <> ALL(%s) AND n.nspname !~ '^pg_toast'"
    rows = connection.execute(TABLES.format(which=which), (list(_SYSTEM_SCHEMAS),)).fetchall()
    return _with_columns(connection, rows)


def read_unreadable(connection: psycopg.Connection) -> Mapping[TableId, tuple[str, str]]:
    """The tables of which our user may not read every row: why, and what gives the right. Raises psycopg.Error."""
    rows = connection.execute(
        "SELECT n.nspname, c.relname, current_user, row_security_active(c.oid)"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p')"
        " AND (row_security_active(c.oid)"
        " OR NOT (has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE')))"
    ).fetchall()
    found = {}
    for schema, name, role, is_hidden in rows:
        table = TableId(schema, name)
        if is_hidden:
            why = f"row level security may hide rows of it from {role}, whose changes are in the log all the same"
            found[table] = why, f"ALTER ROLE {role} BYPASSRLS"
        else:
            found[table] = f"{role} may not read it", f"GRANT SELECT ON {table} TO {role}"
    return found


def read_next_oid(connection: psycopg.Connection) -> int:
    """Return an OID that no table has yet, and that tables made later exceed. Raises psycopg.Error."""
    row = connection.execute("SELECT coalesce(max(oid::bigint), 0) + 1 FROM pg_class").fetchone()
    return int(row[0]) if row else 0


def _with_columns(
    connection: psycopg.Connection, rows: Sequence[tuple[object, ...]], xid: int = 0
) -> Sequence[SourceTable]:
    tables = [TableRow._make(row) for row in rows]
    oids = [table.oid for table in tables]
    query = COLUMNS.format(oids="%(oids)s::oid[]", kept=KEPT, again=_AGAIN if xid else "false")
    columns = connection.execute(query.encode(), {"oids": oids, "xid": xid}).fetchall()
    keys = connection.execute(KEYS.format(oids="%s::oid[]"), (oids,)).fetchall()
    found = source_tables(tables, map(ColumnRow._make, columns), map(KeyRow._make, keys))
    partitions = _read_partitions(connection, [each.table.oid for each in found if each.is_partitioned])
    return [replace(each, table=replace(each.table, partitions=partitions.get(each.table.oid))) for each in found]


def _read_partitions(connection: psycopg.Connection, oids: Sequence[int]) -> Mapping[int, tuple[Partition, ...]]:
    """Look up the partitions of partitioned tables, at every level."""
    found: dict[int, list[Partition]] = {oid: [] for oid in oids}
    if found:
        for oid, *partition, identity in connection.execute(_PARTITIONS, (list(oids),)).fetchall():
            found[oid].append(replace(Partition(*partition), identity=tuple(identity)))
    return {oid: tuple(partitions) for oid, partitions in found.items()}
