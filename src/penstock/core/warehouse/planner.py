"""The SQL that makes a warehouse's table, alters it, and merges changes into it.

A table with a key holds the source's rows. A table without one is a change log,
to which rows are only added; after the source's columns it has

`_op`            c, r, u+ (a row that came), d, u- (a row that went) or t (TRUNCATE: every row went)
`_file`, `_pos`, `_row`  where the change stands in the source's log
`_committed_at`  when it was committed there

and what the source holds now is the multiset of its c, r and u+ rows less that
of its d and u- rows, those before its last t left out. Every column of the source may be NULL in the
target, NOT NULL or not: a column that comes later cannot be NOT NULL everywhere.

A table with a key and soft deletes keeps the rows that the source deletes: its
column `_deleted_at` says when the change was committed that is the newest one of
the file in which the deletion came, and is NULL in the rows that the source has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.core.files import OFFSET, OP, TS_MS
from penstock.core.tables import TableId, taken_names
from penstock.core.warehouse.columns import (
    DELETED_AT,
    LOG_COLUMNS,
    REFRESH_OR_ANEW,
    by_name,
    check_names,
    staged_value,
    stopped,
)
from penstock.core.warehouse.dialect import Dialect, quote_name, quote_text
from penstock.core.warehouse.key_index import plan_key_index
from penstock.core.warehouse.migration import Check, Migration
from penstock.core.warehouse.row_keys import key_terms, same_key
from penstock.core.warehouse.widening import widens

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.tables import Column, TableSchema
    from penstock.core.warehouse.attributes import Spread
    from penstock.core.warehouse.load_plan import Deletes
    from penstock.core.warehouse.target_table import LogPlace, TargetTable


def plan_schema(dialect: Dialect, catalog: str, schema: str) -> str:
    """Return the statement that makes the schema `schema` if there is none. It takes a right to run it, made or not."""
    return f"CREATE SCHEMA IF NOT EXISTS {quote_name(dialect, catalog, schema)}"


def plan_create(
    dialect: Dialect, target: TargetTable, layout: Spread | None = None, *, with_schema: bool = True
) -> list[str]:
    """Return the statements that make the table, and `with_schema` its schema if there is none.

    `layout` says how its rows are spread and sorted. Raises TableStoppedError for a
    column that the warehouse cannot hold.
    """
    schema = target.schema
    check_names(dialect, schema, target.deletes)
    return [
        *([plan_schema(dialect, target.catalog, schema.table.schema)] if with_schema else ()),
        f"CREATE TABLE {target.path(dialect)} {target.definition(dialect, layout)}",
        *plan_key_index(dialect, target.path(dialect), schema),
    ]


def plan_drop(dialect: Dialect, target: TargetTable) -> list[str]:
    """Return the statement that removes the table."""
    return [f"DROP TABLE {target.path(dialect)}"]


def plan_renames(dialect: Dialect, catalog: str, renames: Mapping[TableId, TableId]) -> list[str]:
    """Return the statements that give each table (old name to new) its new name, all at once: names may be swapped.

    No table may have a new name but those that get another one. A table that goes
    to another schema, which is there, is copied, where the warehouse cannot move it.
    """
    aside = {old: TableId(old.schema, f"__penstock_renamed_{number}") for number, old in enumerate(renames)}
    statements = [_plan_rename(dialect, catalog, old, new) for old, new in aside.items()]
    for old, new in renames.items():
        if old.schema == new.schema or dialect.renames_to_path:
            statements.append(_plan_rename(dialect, catalog, aside[old], new))
            continue
        here, there = (quote_name(dialect, catalog, table.schema, table.name) for table in (aside[old], new))
        if dialect.moves_tables:
            moved = TableId(new.schema, aside[old].name)
            statements.append(f"ALTER TABLE {here} SET SCHEMA {quote_name(dialect, new.schema)}")
            statements.append(_plan_rename(dialect, catalog, moved, new))
            continue
        statements += [
            f"CREATE TABLE {there} AS SELECT * FROM {here}",  # noqa: S608 - names are quoted
            f"DROP TABLE {here}",
        ]
    return statements


def plan_truncate(dialect: Dialect, target: TargetTable, place: LogPlace) -> list[str]:
    """Return the statement that leaves the table without rows; a change log gets an entry that says so.

    Where deletes are soft, every row is marked as deleted.
    """
    path = target.path(dialect)
    committed_at = dialect.instant_of_ms.format(ms=place.timestamp_ms)
    if target.schema.key and target.deletes == "soft":
        deleted_at = quote_name(dialect, DELETED_AT.name)
        return [f"UPDATE {path} SET {deleted_at} = {committed_at} WHERE {deleted_at} IS NULL"]  # noqa: S608 - names are quoted
    if target.schema.key:
        return [f"DELETE FROM {path}"]  # noqa: S608 - the name is quoted
    names = ", ".join(quote_name(dialect, column.name) for column in LOG_COLUMNS.values())
    values = f"'t', {quote_text(place.file, dialect)}, {place.pos}, {place.row}, {committed_at}"
    return [f"INSERT INTO {path} ({names}) VALUES ({values})"]  # noqa: S608 - names and texts are quoted


def plan_column_renames(dialect: Dialect, target: TargetTable, names: Sequence[tuple[str, str]]) -> list[str]:
    """Return the statements that give columns other names (old, new), all at once: names may be swapped.

    A column whose name another one gets, and which gets none itself, is dropped.
    """
    alter = f"ALTER TABLE {target.path(dialect)}"
    taken = taken_names(names)
    aside = [f"__penstock_renamed_{number}" for number in range(len(names))]
    pairs = [(old, by_the_way) for (old, _), by_the_way in zip(names, aside, strict=True)]
    pairs += [(by_the_way, new) for (_, new), by_the_way in zip(names, aside, strict=True)]
    gone = [column.name for column in target.schema.columns if column.name.casefold() in taken]
    return [
        *(f"{alter} DROP COLUMN {quote_name(dialect, name)}" for name in gone),
        *(f"{alter} RENAME COLUMN {quote_name(dialect, old)} TO {quote_name(dialect, new)}" for old, new in pairs),
    ]


def plan_deletes(dialect: Dialect, target: TargetTable, deletes: Deletes) -> Migration:
    """Return how a table with a key gets soft deletes, or loses them, which it does only while no row is marked."""
    if not target.schema.key or deletes == target.deletes:
        return Migration()
    path, name = target.path(dialect), quote_name(dialect, DELETED_AT.name)
    if deletes == "soft":
        check_names(dialect, target.schema, deletes)
        return Migration((f"ALTER TABLE {path} ADD COLUMN {name} {dialect.timestamp}",))
    marked = f"SELECT {name} FROM {path} WHERE {name} IS NOT NULL LIMIT 1"  # noqa: S608 - names are quoted
    reason = "its deletes are hard now, and rows are marked as deleted"
    # As those who run it call the table: the name of the catalog may be ours alone.
    remove = f"DELETE FROM {replace(target, catalog='').path(dialect)} WHERE {name} IS NOT NULL"  # noqa: S608 - names are quoted
    check = Check(marked, "", reason, f"remove them ({remove}), or say deletes: soft again")
    return Migration((f"ALTER TABLE {path} DROP COLUMN {name}",), (check,), going=frozenset({DELETED_AT.name}))


def keep_fill_values(before: TableSchema, after: TableSchema) -> TableSchema:
    """Return `after` with the defaults of `before` in columns that were there already.

    A default that is changed later says nothing of rows that are older than the
    column: they have taken the one that it came with, or NULL.
    """
    kept = by_name(before)
    columns = [_with_fill_value(column, kept.get(column.name.casefold())) for column in after.columns]
    return replace(after, columns=tuple(columns))


def plan_merge(dialect: Dialect, target: TargetTable, arriving: TableSchema, staged: str) -> list[str]:
    """Return the statements that bring the rows of `staged` into the table.

    `staged` is the (quoted) name of rows laid out as files of `arriving`, one of
    the table's schemas, perhaps an older one: columns that the table has since
    got take their fill value, columns that it has lost are left out. In a table
    with a key the change with the highest offset counts for each key, and staged
    rows must be of one topic. Where deletes are soft, each staged row says in
    `__penstock_ts_ms` when it would have been deleted. Raises TableStoppedError
    where the rows do not fit.
    """
    _check_kind(target.schema, arriving)
    names, values = project_rows(dialect, target, arriving)
    into = f"INSERT INTO {target.path(dialect)} ({', '.join(names)}) SELECT {', '.join(values)}"
    if not target.schema.key:
        return [f"{into} FROM {staged} AS s"]
    kept = "" if target.deletes == "soft" else f" WHERE s.{quote_name(dialect, OP)} <> 'd'"
    return [
        plan_delete(dialect, target, arriving, staged),
        f"{into} FROM {newest_rows(dialect, arriving, staged)}{kept}",
    ]


def plan_whole_merge(dialect: Dialect, target: TargetTable, arriving: TableSchema, whole: str) -> str:
    """Return one statement that does what `plan_merge` does, with the rows of a query that reads the table itself.

    `whole` has one row for each key. The table, and the rows, have a key.
    """
    _check_kind(target.schema, arriving)
    check_key(target.schema, arriving)
    names, values = project_rows(dialect, target, arriving)
    op = f"s.{quote_name(dialect, OP)}"
    gone = "" if target.deletes == "soft" else f"WHEN MATCHED AND {op} = 'd' THEN DELETE "
    kept = "" if target.deletes == "soft" else f" AND {op} <> 'd'"
    key = {quote_name(dialect, name).casefold() for name in arriving.key}
    pairs = zip(names, values, strict=True)
    assigned = ", ".join(f"{name} = {value}" for name, value in pairs if name.casefold() not in key)
    update = f"WHEN MATCHED THEN UPDATE SET {assigned} " if assigned else ""
    return (
        f"MERGE INTO {target.path(dialect)} AS t USING {whole} AS s ON {same_key(dialect, arriving, 's', 't')} {gone}"  # noqa: S608 - names are quoted
        f"{update}WHEN NOT MATCHED{kept} THEN INSERT ({', '.join(names)}) VALUES ({', '.join(values)})"
    )


def newest_rows(dialect: Dialect, schema: TableSchema, staged: str) -> str:
    """Return what a statement reads `s` from: for each key the staged row with the highest offset."""
    listed = ", ".join(quote_name(dialect, name) for name in schema.key)
    offset = quote_name(dialect, OFFSET)
    if dialect.distinct_on:
        return f"(SELECT DISTINCT ON ({listed}) * FROM {staged} ORDER BY {listed}, {offset} DESC) AS s"  # noqa: S608 - names are quoted
    grouped = ", ".join(key_terms(dialect, schema))
    latest = f"SELECT {listed}, MAX({offset}) AS {offset} FROM {staged} GROUP BY {grouped}"  # noqa: S608 - names are quoted
    same_row = same_key(dialect, schema, "s", "latest")
    return f"{staged} AS s JOIN ({latest}) AS latest ON {same_row} AND s.{offset} = latest.{offset}"


def plan_delete(dialect: Dialect, target: TargetTable, arriving: TableSchema, staged: str) -> str:
    """Return the statement that deletes the rows of the table which have the keys of rows of `staged`.

    `staged` and `arriving` are as in `plan_merge`, and need have no column but the key's.
    """
    _check_kind(target.schema, arriving)
    check_key(target.schema, arriving)
    path = target.path(dialect)
    if dialect.deletes_using:
        same_row = same_key(dialect, arriving, staged, path)
        return f"DELETE FROM {path} USING {staged} WHERE {same_row}"  # noqa: S608 - names are quoted
    same_row = same_key(dialect, arriving, "s", "t")
    return f"DELETE FROM {path} AS t WHERE EXISTS (SELECT 1 FROM {staged} AS s WHERE {same_row})"  # noqa: S608 - names are quoted


def plan_delete_values(dialect: Dialect, target: TargetTable, arriving: TableSchema, count: int) -> str:
    """Return the statement that deletes the rows of the table whose key, of one column, is one of `count` values."""
    _check_kind(target.schema, arriving)
    check_key(target.schema, arriving)
    (name,) = arriving.key
    listed = ", ".join(["?"] * count)
    return f"DELETE FROM {target.path(dialect)} WHERE {quote_name(dialect, name)} IN ({listed})"  # noqa: S608 - names are quoted


def _plan_rename(dialect: Dialect, catalog: str, old: TableId, new: TableId) -> str:
    path = quote_name(dialect, catalog, old.schema, old.name)
    name = quote_name(dialect, new.schema if dialect.renames_to_path else "", new.name)
    return f"ALTER TABLE {path} RENAME TO {name}"


def _with_fill_value(column: Column, old: Column | None) -> Column:
    if old is None or not widens(old.type, column.type):
        return column
    return replace(
        column,
        nullable=old.nullable,
        default=old.default,
        default_is_expression=old.default_is_expression,
        filled=old.filled,
    )


def project_rows(dialect: Dialect, target: TargetTable, arriving: TableSchema) -> tuple[list[str], list[str]]:
    """Return the target's columns, and what each is filled with from a staged row `s`."""
    schema, there = target.schema, by_name(arriving)
    values = [staged_value(dialect, schema, column, there.get(column.name.casefold())) for column in schema.columns]
    names = [quote_name(dialect, name) for name in target.column_names]
    committed_at = dialect.instant_of_ms.format(ms=f"s.{quote_name(dialect, TS_MS)}")
    if not schema.key:
        values += [committed_at if name == TS_MS else f"s.{quote_name(dialect, name)}" for name in LOG_COLUMNS]
    elif target.deletes == "soft":
        values.append(f"CASE WHEN s.{quote_name(dialect, OP)} = 'd' THEN {committed_at} END")
    return names, values


def _check_kind(schema: TableSchema, arriving: TableSchema) -> None:
    if bool(schema.key) != bool(arriving.key):
        reason = f"rows came after the place where its primary key was {'added' if schema.key else 'dropped'}"
        raise stopped(schema, "", f"{reason}, which are from before it", REFRESH_OR_ANEW)


def check_key(schema: TableSchema, arriving: TableSchema) -> None:
    """Raise TableStoppedError for rows that are known by a column which the table has not."""
    for name in arriving.key:
        if name.casefold() not in by_name(schema):
            reason = "a row came that is known by a key column which the table has lost"
            raise stopped(schema, name, reason, REFRESH_OR_ANEW)
