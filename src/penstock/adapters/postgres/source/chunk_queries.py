"""The queries of a snapshot's chunks: rows in the order of an index, from a cursor on, and rows by listed keys.

Operators are named by schema: those that the index sorts by, whatever the search path of a session is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from psycopg import sql

from penstock.adapters.postgres.source.publication import select_from

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import psycopg

    from penstock.adapters.postgres.source.publication import Published
    from penstock.core.postgres.catalog import SourceTable
    from penstock.core.snapshots import SnapshotOptions
    from penstock.core.tables import TableId

_BYTEA: Final = "bytea"
_KEY_COLUMNS: Final = """
SELECT i.indexrelid::bigint, i.indisprimary, i.indisreplident, a.attname::text,
       format_type(a.atttypid, a.atttypmod), a.attcollation::bigint,
       ARRAY(SELECT format('OPERATOR(%%I.%%s)', n.nspname, o.oprname)
               FROM pg_amop ao JOIN pg_operator o ON o.oid = ao.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace
              WHERE ao.amopfamily = c.opcfamily AND ao.amoplefttype = c.opcintype AND ao.amoprighttype = c.opcintype
                AND ao.amopstrategy IN (1, 2, 3, 5) ORDER BY ao.amopstrategy)
  FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[], i.indclass::oid[]) WITH ORDINALITY k(attnum, class, place)
  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
  JOIN pg_opclass c ON c.oid = k.class
 WHERE i.indrelid = %s::oid AND (i.indisprimary OR i.indisreplident) AND i.indisvalid
   AND i.indimmediate AND k.place <= i.indnkeyatts
 ORDER BY i.indexrelid, k.place
"""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of the index by which rows are read: what its order depends on, and the operators that say it."""

    name: str
    type: str
    collation: int
    less: str
    up_to: str
    equal: str
    greater: str


def read_key_columns(connection: psycopg.Connection, found: SourceTable) -> Sequence[KeyColumn]:
    """Look up the index of the replica identity, else of the primary key; () without one. Raises psycopg.Error."""
    indexes: dict[int, list[KeyColumn]] = {}
    ranks: dict[int, bool] = {}
    by_identity = found.relation.identity == "i"
    for index, is_primary, is_identity, name, type_, collation, operators in connection.execute(
        _KEY_COLUMNS, (found.relation.oid,)
    ).fetchall():
        indexes.setdefault(index, []).append(KeyColumn(name, type_, collation, *operators))
        ranks[index] = is_identity if by_identity else is_primary
    return next((indexes[index] for index, is_it in ranks.items() if is_it), [])


def cursor_after(key: Sequence[KeyColumn], printed: Mapping[str, bytes | None]) -> str:
    """Write down behind which row the next chunk begins."""
    behind = [(printed[column.name] or b"").decode() for column in key]
    return json.dumps({"key": _signature(key), "behind": behind})


def _signature(key: Sequence[KeyColumn]) -> list[list[object]]:
    """What the order of a table's rows depends on."""
    return [[c.name, c.type, c.collation, c.less, c.equal, c.greater] for c in key]


def cursor_behind(key: Sequence[KeyColumn], cursor: str) -> list[str]:
    """Return the key of the last row that was read; nothing at the start, or if rows are in another order now."""
    if not cursor:
        return []
    fields = json.loads(cursor)
    return list(fields["behind"]) if fields["key"] == _signature(key) else []


def slice_statement(
    found: SourceTable,
    published: Published | None,
    key: Sequence[KeyColumn],
    bounds: tuple[str, str],
    options: SnapshotOptions,
) -> bytes:
    """Return the query for the rows between two cursors, each "" for none, in the order of their key."""
    query = f"SELECT {_columns(found)} {_within(found, published, key, bounds, options)} LIMIT {options.chunk_rows}"
    return query.encode()


def skip_statement(
    found: SourceTable,
    published: Published | None,
    key: Sequence[KeyColumn],
    bounds: tuple[str, str],
    options: SnapshotOptions,
) -> bytes:
    """Return the query for the key of the row that ends the first chunk between two cursors."""
    names = ", ".join(_quote(column.name) for column in key)
    within = _within(found, published, key, bounds, options)
    return f"SELECT {names} {within} LIMIT 1 OFFSET {options.chunk_rows - 1}".encode()


def _within(
    found: SourceTable,
    published: Published | None,
    key: Sequence[KeyColumn],
    bounds: tuple[str, str],
    options: SnapshotOptions,
) -> str:
    source, condition = select_from(found, published)
    behind, until = cursor_behind(key, bounds[0]), cursor_behind(key, bounds[1])
    wheres = [condition.as_string()] if condition else []
    wheres += [f"(\n{options.where}\n)"] if options.where else []
    wheres += [_behind(key, behind)] if behind else []
    wheres += [_up_to(key, until)] if until else []
    where = f" WHERE {' AND '.join(wheres)}" if wheres else ""
    order = ", ".join(f"{_quote(column.name)} USING {column.less}" for column in key)
    return f"FROM {source.as_string()}{where} ORDER BY {order}"


def keyed_statement(
    found: SourceTable, published: Published | None, key: Sequence[KeyColumn], asked: Sequence[Sequence[object]]
) -> bytes:
    """Return the query for the rows with the keys that are `asked`. ValueError for bytes that are none."""
    source, condition = select_from(found, published)
    rows = [[_literal(column, value) for column, value in zip(key, values, strict=True)] for values in asked]
    anyone = " OR ".join(
        "(" + " AND ".join(f"{_quote(c.name)} {c.equal} {v}" for c, v in zip(key, values, strict=True)) + ")"
        for values in rows
    )
    where = f"{condition.as_string()} AND ({anyone})" if condition else anyone
    return f"SELECT {_columns(found)} FROM {source.as_string()} WHERE {where}".encode()  # noqa: S608 - quoted


def printed_statement(key: Sequence[KeyColumn], asked: Sequence[Sequence[object]]) -> bytes:
    """Return the query for the keys `asked`, as the server prints them. ValueError for bytes that are none."""
    values = ", ".join(
        "(" + ", ".join(_literal(column, value) for column, value in zip(key, each, strict=True)) + ")"
        for each in asked
    )
    names = ", ".join(f"k{number}" for number in range(len(key)))
    return f"SELECT {names} FROM (VALUES {values}) v({names})".encode()  # noqa: S608 - quoted


def quoted(table: TableId) -> str:
    """Return a table's name as SQL has it."""
    return sql.Identifier(table.schema, table.name).as_string()


def _columns(found: SourceTable) -> str:
    return ", ".join(_quote(column.name) for column in found.relation.columns)


def _behind(key: Sequence[KeyColumn], printed: Sequence[str]) -> str:
    """Write the condition that a row's key is behind one, so that an index is used."""
    values = [_cast(column, text) for column, text in zip(key, printed, strict=True)]
    names = [_quote(column.name) for column in key]
    if len({column.greater for column in key}) == 1:
        return f"ROW({', '.join(names)}) {key[0].greater} ROW({', '.join(values)})"
    parts = []
    for last, column in enumerate(key):
        equal = [f"{names[i]} {key[i].equal} {values[i]}" for i in range(last)]
        parts.append("(" + " AND ".join([*equal, f"{names[last]} {column.greater} {values[last]}"]) + ")")
    return f"({' OR '.join(parts)})"


def _up_to(key: Sequence[KeyColumn], printed: Sequence[str]) -> str:
    """Write the condition that a row's key is not behind one, so that an index is used."""
    values = [_cast(column, text) for column, text in zip(key, printed, strict=True)]
    names = [_quote(column.name) for column in key]
    if len({column.up_to for column in key}) == 1:
        return f"ROW({', '.join(names)}) {key[0].up_to} ROW({', '.join(values)})"
    return f"({names[0]} {key[0].up_to} {values[0]} AND NOT {_behind(key, printed)})"


def _literal(column: KeyColumn, value: object) -> str:
    """Write a value of `read_key`; bytes are given as `0x00ff`."""
    text = str(value)
    if column.type == _BYTEA:
        if not text.startswith("0x"):
            message = f"{text!r} does not begin with 0x"
            raise ValueError(message)
        text = f"\\x{bytes.fromhex(text.removeprefix('0x')).hex()}"
    return _cast(column, text)


def _cast(column: KeyColumn, text: str) -> str:
    return f"CAST({sql.Literal(text).as_string()} AS {column.type})"


def _quote(name: str) -> str:
    return sql.Identifier(name).as_string()
