"""What PostgreSQL's catalogs know of a table, in our words (documentation, "System Catalogs")."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from penstock.core.warehouse.attributes import Attributes, Grant, Index
from penstock.core.warehouse.dialect import quote_name
from penstock.core.warehouse.dialects import POSTGRES
from penstock.core.warehouse.migration import Dependent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.core.tables import TableId
    from penstock.ports.warehouse import Value

    Fetch: TypeAlias = Callable[[str, Sequence[Value]], list[tuple[Value, ...]]]

_WITHOUT_ZONE = re.compile(r" without time zone$")
_OF_TABLE = "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ? AND c.relname = ?"


def read_columns(fetch: Fetch, table: TableId) -> Mapping[str, str]:
    """Return a table's columns, in order, and their types as the dialect writes them."""
    query = f"""
        SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped {_OF_TABLE}
        ORDER BY a.attnum"""  # noqa: S608 - texts of ours
    found = fetch(query, [table.schema, table.name])
    return {str(name): _WITHOUT_ZONE.sub("", str(type_)).replace(",", ", ").upper() for name, type_ in found}


def read_attributes(fetch: Fetch, table: TableId) -> Attributes:
    """Return a table's owner, grants, comments, indexes and constraints."""
    comments = f"""
        SELECT COALESCE(a.attname, ''), d.description FROM pg_class c
        JOIN pg_description d ON d.objoid = c.oid AND d.classoid = 'pg_class'::regclass
        LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid AND d.objsubid > 0 {_OF_TABLE}"""  # noqa: S608 - texts of ours
    name = [table.schema, table.name]
    described = {str(column): str(text) for column, text in fetch(comments, name)}
    return Attributes(
        columns=tuple(read_columns(fetch, table)),
        owner=_owner(fetch, table),
        comment=described.pop("", ""),
        column_comments=described,
        grants=tuple(_grants(fetch, table)),
        first_grantees=tuple(_first_grantees(fetch, table)),
        indexes=tuple(_indexes(fetch, table)),
        unkept=tuple(str(what) for (what,) in fetch(f"{_UNKEPT} ORDER BY 1", name * 6)),
    )


def find_dependents(fetch: Fetch, table: TableId) -> list[Dependent]:
    """Return views and materialized views, and which columns of the table they read."""
    query = f"""
        SELECT v.oid::regclass::text, string_agg(COALESCE(a.attname, ''), chr(10)) FROM pg_class c
        JOIN pg_depend d ON d.refobjid = c.oid AND d.refclassid = 'pg_class'::regclass
        JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
        JOIN pg_class v ON v.oid = r.ev_class AND v.oid <> c.oid
        LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid AND d.refobjsubid > 0
        {_OF_TABLE} GROUP BY v.oid"""  # noqa: S608 - texts of ours
    found = fetch(query, [table.schema, table.name])
    return [
        Dependent(f"view {name}", "bound view", frozenset(str(columns).split("\n")) - {""}) for name, columns in found
    ]


def _owner(fetch: Fetch, table: TableId) -> str:
    """Return the owner, "" where that is us."""
    others = "pg_get_userbyid(c.relowner) <> current_user"
    query = f"SELECT pg_get_userbyid(c.relowner) FROM pg_class c {_OF_TABLE} AND {others}"  # noqa: S608 - texts of ours
    return "".join(str(owner) for (owner,) in fetch(query, [table.schema, table.name]))


def _grants(fetch: Fetch, table: TableId) -> list[Grant]:
    query = f"""
        SELECT g.privilege_type, g.grantee, COALESCE(pg_get_userbyid(NULLIF(g.grantee, 0)), ''), '',
            g.is_grantable::int
        FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) g {_OF_TABLE} AND g.grantee <> c.relowner
        UNION ALL
        SELECT g.privilege_type, g.grantee, COALESCE(pg_get_userbyid(NULLIF(g.grantee, 0)), ''), a.attname,
            g.is_grantable::int
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped
        CROSS JOIN LATERAL aclexplode(a.attacl) g {_OF_TABLE}"""  # noqa: S608 - texts of ours
    found = fetch(query, [table.schema, table.name] * 2)
    return [
        Grant(str(privilege), _grantee(number, name), str(column), bool(grantable))
        for privilege, number, name, column, grantable in found
    ]


def _first_grantees(fetch: Fetch, table: TableId) -> list[str]:
    """Return whom ALTER DEFAULT PRIVILEGES gives something on tables that we make in the table's schema."""
    query = f"""
        SELECT DISTINCT g.grantee, COALESCE(pg_get_userbyid(NULLIF(g.grantee, 0)), '') FROM pg_class c
        JOIN pg_default_acl d ON d.defaclobjtype = 'r' AND d.defaclnamespace IN (0, c.relnamespace)
            AND pg_get_userbyid(d.defaclrole) = current_user
        CROSS JOIN LATERAL aclexplode(d.defaclacl) g {_OF_TABLE} AND g.grantee <> d.defaclrole ORDER BY 2"""  # noqa: S608 - texts of ours
    return [_grantee(number, name) for number, name in fetch(query, [table.schema, table.name])]


def _grantee(number: Value, name: Value) -> str:
    return quote_name(POSTGRES, str(name)) if number else "PUBLIC"


def _indexes(fetch: Fetch, table: TableId) -> list[Index]:
    """Return constraints as such, and the indexes that belong to none."""
    path = quote_name(POSTGRES, table.schema, table.name)
    constraints = f"""
        SELECT k.conname, pg_get_constraintdef(k.oid), {_named("k.conrelid", "k.conkey")} FROM pg_class c
        JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype <> 'n' {_OF_TABLE}"""  # noqa: S608 - texts of ours
    indexes = f"""
        SELECT pg_get_indexdef(i.indexrelid), {_named("i.indrelid", "i.indkey::int2[]")} FROM pg_class c
        JOIN pg_index i ON i.indrelid = c.oid {_OF_TABLE}
        AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid)"""  # noqa: S608 - texts of ours
    name = [table.schema, table.name]
    found = [
        Index(f"ALTER TABLE {path} ADD CONSTRAINT {quote_name(POSTGRES, str(constraint))} {text}", _lines(columns))
        for constraint, text, columns in fetch(constraints, name)
    ]
    return found + [Index(str(text), _lines(columns)) for text, columns in fetch(indexes, name)]


def _named(relation: str, numbers: str) -> str:
    """Return the SQL for the names of columns, one per line."""
    return (
        f"(SELECT COALESCE(string_agg(a.attname, chr(10)), '') FROM pg_attribute a "  # noqa: S608 - texts of ours
        f"WHERE a.attrelid = {relation} AND a.attnum = ANY({numbers}))"
    )


def _lines(text: Value) -> tuple[str, ...]:
    return tuple(line for line in str(text).split("\n") if line)


_FIND = f"FROM pg_class c {_OF_TABLE}"
_UNKEPT = f"""
    SELECT 'trigger ' || t.tgname FROM pg_class c JOIN pg_trigger t ON t.tgrelid = c.oid AND NOT t.tgisinternal
        {_OF_TABLE}
    UNION ALL SELECT 'row level security' {_FIND} AND c.relrowsecurity
    UNION ALL SELECT 'policy ' || p.polname FROM pg_class c JOIN pg_policy p ON p.polrelid = c.oid {_OF_TABLE}
    UNION ALL SELECT 'publication ' || p.pubname FROM pg_class c JOIN pg_publication_rel r ON r.prrelid = c.oid
        JOIN pg_publication p ON p.oid = r.prpubid {_OF_TABLE}
    UNION ALL SELECT 'statistics ' || s.stxname FROM pg_class c JOIN pg_statistic_ext s ON s.stxrelid = c.oid
        {_OF_TABLE}
    UNION ALL SELECT 'foreign key ' || k.conname FROM pg_class c JOIN pg_constraint k ON k.confrelid = c.oid
        {_OF_TABLE}"""  # noqa: S608 - texts of ours
"""What hangs on a table and would be lost, or hinder, if another took its place."""
