"""What Redshift's catalogs know of a table, in our words.

Source: Amazon Redshift Database Developer Guide, "System catalog tables" (those of
PostgreSQL 8), "SVV_REDSHIFT_COLUMNS", "SVV_RELATION_PRIVILEGES", "SVV_TABLE_INFO",
"Names and identifiers": the letters of ASCII are small there, however they were written,
and all others are as they were written. LOWER would make them small, too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, TypeAlias

from penstock.core.warehouse.attributes import Attributes, Grant, Spread
from penstock.core.warehouse.dialect import quote_name
from penstock.core.warehouse.dialects import REDSHIFT
from penstock.core.warehouse.migration import Dependent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.core.tables import TableId
    from penstock.ports.warehouse import Value

    Fetch: TypeAlias = Callable[[str, Sequence[Value]], list[tuple[Value, ...]]]

_OF_TABLE = "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ? AND c.relname = ?"
_NAMES = (
    ("character varying", "VARCHAR"),
    ("binary varying", "VARBYTE"),
    ("numeric", "DECIMAL"),
    (" without time zone", ""),
    ("timestamp with time zone", "TIMESTAMPTZ"),
)
_SMALL = str.maketrans(ascii_uppercase, ascii_lowercase)
_AUTO = re.compile(r"AUTO\b")
_LATE = "%with no schema binding%"


def fold_name(name: str) -> str:
    """Return a name as the catalogs have it."""
    return name.translate(_SMALL)


def has_table(fetch: Fetch, table: TableId) -> bool:
    """Whether there is a table or view of this name."""
    return bool(fetch(f"SELECT 1 FROM pg_class c {_OF_TABLE}", _named(table)))  # noqa: S608 - texts of ours


def read_columns(fetch: Fetch, table: TableId) -> Mapping[str, str]:
    """Return a table's columns, in order, and their types as the dialect writes them."""
    query = f"""
        SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped {_OF_TABLE}
        ORDER BY a.attnum"""  # noqa: S608 - texts of ours
    return {str(name): _type(str(type_)) for name, type_ in fetch(query, _named(table))}


def read_attributes(fetch: Fetch, table: TableId) -> Attributes:
    """Return a table's owner, grants, comments, and how its rows are spread and sorted."""
    comments = f"""
        SELECT COALESCE(a.attname, ''), d.description FROM pg_class c
        JOIN pg_description d ON d.objoid = c.oid
        LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid AND d.objsubid > 0 {_OF_TABLE}"""  # noqa: S608 - texts of ours
    described = {str(column): str(text) for column, text in fetch(comments, _named(table))}
    return Attributes(
        columns=tuple(read_columns(fetch, table)),
        owner=_owner(fetch, table),
        comment=described.pop("", ""),
        column_comments=described,
        grants=tuple(_grants(fetch, table)),
        spread=_spread(fetch, table),
    )


def find_dependents(fetch: Fetch, table: TableId) -> list[Dependent]:
    """Return the views that read the table, and which of its columns.

    Of late-binding views the catalogs know the text alone: the table and the columns
    that they may read are those whose names stand in it.
    """
    query = f"""
        SELECT vn.nspname, v.relname, COALESCE(a.attname, '') FROM pg_class c
        JOIN pg_depend d ON d.refobjid = c.oid
        JOIN pg_rewrite r ON r.oid = d.objid
        JOIN pg_class v ON v.oid = r.ev_class AND v.oid <> c.oid
        JOIN pg_namespace vn ON vn.oid = v.relnamespace
        LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid AND d.refobjsubid > 0
        {_OF_TABLE}"""  # noqa: S608 - texts of ours
    read: dict[str, set[str]] = defaultdict(set)
    for schema, view, column in fetch(query, _named(table)):
        read[f"view {schema}.{view}"].add(str(column))
    bound = [Dependent(name, "bound view", frozenset(columns - {""})) for name, columns in read.items()]
    return [*bound, *_late_views(fetch, table)]


def _named(table: TableId) -> list[Value]:
    return [fold_name(table.schema), fold_name(table.name)]


def _late_views(fetch: Fetch, table: TableId) -> Iterator[Dependent]:
    """Yield the late-binding views that may read the table. What `*` stands for is found whenever one is read."""
    columns = list(read_columns(fetch, table))
    query = "SELECT schemaname, viewname, definition FROM pg_views WHERE LOWER(definition) LIKE ?"
    for schema, view, definition in fetch(query, [_LATE]):
        text = str(definition)
        if _names(text, table.schema) and _names(text, table.name):
            read = frozenset(column for column in columns if _names(text, column))
            yield Dependent(f"view {schema}.{view}", "view", read)


def _names(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None


def _type(name: str) -> str:
    for theirs, ours in _NAMES:
        name = name.replace(theirs, ours)
    return name.replace(",", ", ").upper()


def _owner(fetch: Fetch, table: TableId) -> str:
    """Return the owner, "" where that is us."""
    query = f"SELECT pg_get_userbyid(c.relowner), current_user FROM pg_class c {_OF_TABLE}"  # noqa: S608 - texts of ours
    found = fetch(query, _named(table))
    return "".join(str(owner) for owner, we in found if owner != we)


def _grants(fetch: Fetch, table: TableId) -> list[Grant]:
    """Return the rights that others have; the owner's own are not among them."""
    query = """
        SELECT privilege_type, identity_name, identity_type, CASE WHEN admin_option THEN 1 ELSE 0 END
        FROM svv_relation_privileges WHERE namespace_name = ? AND relation_name = ?"""
    name = _named(table)
    owner = f"SELECT pg_get_userbyid(c.relowner) FROM pg_class c {_OF_TABLE}"  # noqa: S608 - texts of ours
    owners = {str(user) for (user,) in fetch(owner, name)}
    return [
        Grant(str(privilege), _grantee(str(who), str(kind)), grantable=bool(grantable))
        for privilege, who, kind, grantable in fetch(query, name)
        if kind != "user" or who not in owners
    ]


def _grantee(name: str, kind: str) -> str:
    if kind == "public":
        return "PUBLIC"
    prefix = "" if kind == "user" else f"{kind.upper()} "
    return prefix + quote_name(REDSHIFT, name)


def _spread(fetch: Fetch, table: TableId) -> Spread:
    keys = """
        SELECT column_name, CASE WHEN distkey THEN 1 ELSE 0 END, sortkey, encoding FROM svv_redshift_columns
        WHERE schema_name = ? AND table_name = ? ORDER BY ABS(sortkey)"""
    rows = fetch(keys, _named(table))
    found = [(str(column), bool(dist), int(sort)) for column, dist, sort, _ in rows]
    encodings = {str(column): str(encoding).lower() for column, *_, encoding in rows}
    sort_key = tuple(column for column, _, sort in found if sort)
    # The numbers of an interleaved key are above and below 0 by turns.
    sort_style = "INTERLEAVED" if any(sort < 0 for *_, sort in found) else "COMPOUND"
    how = Spread("AUTO", "", sort_style, sort_key, encodings, _defaulted(fetch, table))
    for column, dist, _ in found:
        if dist:
            return replace(how, style="KEY", key=column)
    style = 'SELECT diststyle FROM svv_table_info WHERE "schema" = ? AND "table" = ?'
    # A table without rows is not in there, and may be spread anew.
    for (text,) in fetch(style, _named(table)):
        return replace(how, style="AUTO" if _AUTO.match(str(text)) else str(text))
    return how


def _defaulted(fetch: Fetch, table: TableId) -> frozenset[str]:
    query = f"""
        SELECT a.attname FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.atthasdef {_OF_TABLE}"""  # noqa: S608 - texts of ours
    return frozenset(str(column) for (column,) in fetch(query, _named(table)))
