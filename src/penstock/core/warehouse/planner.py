"""The SQL that makes a warehouse's table, alters it, and merges changes into it.

A table with a key holds the source's rows. A table without one is a change log,
to which rows are only added; after the source's columns it has

`_op`            c, r, u+ (a row that came), d, u- (a row that went) or t (TRUNCATE: every row went)
`_file`, `_pos`, `_row`  where the change stands in the source's log
`_committed_at`  when it was committed there

and what the source holds now is the multiset of its c, r and u+ rows less that
of its d and u- rows, those before its last t left out. Every column of the source may be NULL in the
target, NOT NULL or not: a column that comes later cannot be NOT NULL everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.core.errors import TableStoppedError
from penstock.core.files import FILE, OFFSET, OP, POS, ROW, TS_MS
from penstock.core.tables import Column, IntegerType, TableId, TextType, TimestampType
from penstock.core.warehouse.dialect import Dialect, quote_name, quote_text, render_type
from penstock.core.warehouse.fill_values import render_fill_value
from penstock.core.warehouse.widening import widens

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.core.tables import TableSchema

_COPY_AGAIN = "carry it from a fresh copy: a new pipeline with another `pipeline` name, `home` and target file"
_LOG_COLUMNS = {
    OP: Column("_op", TextType(2, "ascii"), nullable=False),
    FILE: Column("_file", TextType(255, "utf8mb4"), nullable=False),
    POS: Column("_pos", IntegerType(64, unsigned=False), nullable=False),
    ROW: Column("_row", IntegerType(32, unsigned=False), nullable=False),
    TS_MS: Column("_committed_at", TimestampType(3), nullable=False),
}


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table of a warehouse, called as in the source: `shop.orders` is schema `shop`, table `orders`.

    `catalog` is the database that it is in, "" where the connection has only one.
    """

    catalog: str
    schema: TableSchema

    def path(self, dialect: Dialect) -> str:
        """Its full name, quoted."""
        return quote_name(dialect, self.catalog, self.schema.table.schema, self.schema.table.name)


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Where a statement stands in the source's log, and when it was committed, in Unix ms."""

    file: str
    pos: int
    row: int
    timestamp_ms: int


def plan_create(dialect: Dialect, target: TargetTable) -> list[str]:
    """Return the statements that make the table, and its schema if there is none.

    Raises TableStoppedError for a column that the warehouse cannot hold.
    """
    schema = target.schema
    _check_names(schema)
    columns = [*schema.columns, *_log_columns(schema)]
    listed = ", ".join(f"{quote_name(dialect, column.name)} {_type(dialect, schema, column)}" for column in columns)
    return [
        f"CREATE SCHEMA IF NOT EXISTS {quote_name(dialect, target.catalog, schema.table.schema)}",
        f"CREATE TABLE {target.path(dialect)} ({listed})",
    ]


def plan_drop(dialect: Dialect, target: TargetTable) -> list[str]:
    """Return the statement that removes the table."""
    return [f"DROP TABLE {target.path(dialect)}"]


def plan_renames(dialect: Dialect, catalog: str, renames: Mapping[TableId, TableId]) -> list[str]:
    """Return the statements that give each table (old name to new) its new name, all at once: names may be swapped.

    No table may have a new name but those that get another one. A table that goes
    to another schema is copied there.
    """
    aside = {old: TableId(old.schema, f"__penstock_renamed_{number}") for number, old in enumerate(renames)}
    statements = [_plan_rename(dialect, catalog, old, new) for old, new in aside.items()]
    for old, new in renames.items():
        if old.schema == new.schema:
            statements.append(_plan_rename(dialect, catalog, aside[old], new))
            continue
        here, there = (quote_name(dialect, catalog, table.schema, table.name) for table in (aside[old], new))
        statements += [
            f"CREATE SCHEMA IF NOT EXISTS {quote_name(dialect, catalog, new.schema)}",
            f"CREATE TABLE {there} AS SELECT * FROM {here}",  # noqa: S608 - names are quoted
            f"DROP TABLE {here}",
        ]
    return statements


def plan_truncate(dialect: Dialect, target: TargetTable, place: LogPlace) -> list[str]:
    """Return the statement that leaves the table without rows; a change log gets an entry that says so."""
    path = target.path(dialect)
    if target.schema.key:
        return [f"DELETE FROM {path}"]  # noqa: S608 - the name is quoted
    names = ", ".join(quote_name(dialect, column.name) for column in _LOG_COLUMNS.values())
    committed_at = dialect.instant_of_ms.format(ms=place.timestamp_ms)
    values = f"'t', {quote_text(place.file)}, {place.pos}, {place.row}, {committed_at}"
    return [f"INSERT INTO {path} ({names}) VALUES ({values})"]  # noqa: S608 - names and texts are quoted


def plan_migration(dialect: Dialect, target: TargetTable, after: TableSchema) -> list[str]:
    """Return the statements that turn `target`, with rows in it, into the table for `after`.

    Columns come (existing rows take the value that the source gave them), go, or
    become wider. Order, comments, defaults, keys and NULL or NOT NULL are nothing
    to the target. Raises TableStoppedError for any other change, and for a step
    in which columns both go and come: that may be a rename, which keeps values.
    """
    before = target.schema
    _check_names(after)
    if bool(before.key) != bool(after.key):
        reason = f"its primary key was {'added' if after.key else 'dropped'}, which makes it another kind of table"
        raise _stopped(after, "", reason, _COPY_AGAIN)
    kept = _by_name(before)
    coming = [column for column in after.columns if column.name.casefold() not in kept]
    going = [column for column in before.columns if column.name.casefold() not in _by_name(after)]
    if coming and going:
        reason = f"{_names(going)} went and {_names(coming)} came in one step, which may be a rename or not"
        raise _stopped(after, "", reason, _COPY_AGAIN)
    alter = f"ALTER TABLE {target.path(dialect)}"
    return [
        *(f"{alter} DROP COLUMN {quote_name(dialect, column.name)}" for column in going),
        *_plan_types(dialect, before, after, alter),
        *(f"{alter} ADD COLUMN {_added(dialect, after, column)}" for column in coming),
    ]


def plan_column_renames(dialect: Dialect, target: TargetTable, names: Sequence[tuple[str, str]]) -> list[str]:
    """Return the statements that give columns other names (old, new), all at once: names may be swapped.

    A column whose name another one gets, and which gets none itself, is dropped.
    """
    alter = f"ALTER TABLE {target.path(dialect)}"
    taken = {new for _, new in names} - {old for old, _ in names}
    aside = [f"__penstock_renamed_{number}" for number in range(len(names))]
    pairs = [(old, by_the_way) for (old, _), by_the_way in zip(names, aside, strict=True)]
    pairs += [(by_the_way, new) for (_, new), by_the_way in zip(names, aside, strict=True)]
    gone = [column.name for column in target.schema.columns if column.name in taken]
    return [
        *(f"{alter} DROP COLUMN {quote_name(dialect, name)}" for name in gone),
        *(f"{alter} RENAME COLUMN {quote_name(dialect, old)} TO {quote_name(dialect, new)}" for old, new in pairs),
    ]


def keep_fill_values(before: TableSchema, after: TableSchema) -> TableSchema:
    """Return `after` with the defaults of `before` in columns that were there already.

    A default that is changed later says nothing of rows that are older than the
    column: they have taken the one that it came with, or NULL.
    """
    kept = _by_name(before)
    columns = [_with_fill_value(column, kept.get(column.name.casefold())) for column in after.columns]
    return replace(after, columns=tuple(columns))


def plan_merge(dialect: Dialect, target: TargetTable, arriving: TableSchema, staged: str) -> list[str]:
    """Return the statements that bring the rows of `staged` into the table.

    `staged` is the (quoted) name of rows laid out as files of `arriving`, one of
    the table's schemas, perhaps an older one: columns that the table has since
    got take their fill value, columns that it has lost are left out. In a table
    with a key the change with the highest offset counts for each key, and staged
    rows must be of one topic. Raises TableStoppedError where the rows do not fit.
    """
    names, values = _projection(dialect, target.schema, arriving)
    into = f"INSERT INTO {target.path(dialect)} ({', '.join(names)}) SELECT {', '.join(values)} FROM {staged} AS s"  # noqa: S608 - names are quoted
    if not target.schema.key:
        return [into]
    _check_key(target.schema, arriving)
    key = [quote_name(dialect, name) for name in arriving.key]
    listed, offset = ", ".join(key), quote_name(dialect, OFFSET)
    latest = f"SELECT {listed}, MAX({offset}) AS {offset} FROM {staged} GROUP BY {listed}"  # noqa: S608 - names are quoted
    same_change = " AND ".join(f"s.{name} = latest.{name}" for name in [*key, offset])
    same_row = " AND ".join(f"s.{name} = t.{name}" for name in key)
    return [
        f"DELETE FROM {target.path(dialect)} AS t WHERE EXISTS (SELECT 1 FROM {staged} AS s WHERE {same_row})",  # noqa: S608 - names are quoted
        f"{into} JOIN ({latest}) AS latest ON {same_change} WHERE s.{quote_name(dialect, OP)} <> 'd'",
    ]


def _plan_rename(dialect: Dialect, catalog: str, old: TableId, new: TableId) -> str:
    path = quote_name(dialect, catalog, old.schema, old.name)
    return f"ALTER TABLE {path} RENAME TO {quote_name(dialect, new.name)}"


def _with_fill_value(column: Column, old: Column | None) -> Column:
    if old is None or not widens(old.type, column.type):
        return column
    return replace(column, nullable=old.nullable, default=old.default, default_is_expression=old.default_is_expression)


def _plan_types(dialect: Dialect, before: TableSchema, after: TableSchema, alter: str) -> list[str]:
    kept = _by_name(before)
    statements = []
    for column in after.columns:
        old = kept.get(column.name.casefold())
        if old is None or old.type == column.type:
            continue
        if not widens(old.type, column.type):
            reason = f"its type went from {_declared(old)} to {_declared(column)}, which may change stored values"
            raise _stopped(after, column.name, reason, _COPY_AGAIN)
        type_ = _type(dialect, after, column)
        if type_ != _type(dialect, before, old):
            statements.append(f"{alter} ALTER COLUMN {quote_name(dialect, old.name)} SET DATA TYPE {type_}")
    return statements


def _added(dialect: Dialect, schema: TableSchema, column: Column) -> str:
    fill = _fill_value(dialect, schema, column)
    definition = f"{quote_name(dialect, column.name)} {_type(dialect, schema, column)}"
    return definition if fill == "NULL" else f"{definition} DEFAULT {fill}"


def _projection(dialect: Dialect, schema: TableSchema, arriving: TableSchema) -> tuple[list[str], list[str]]:
    """Return the target's columns, and what each is filled with from a staged row `s`."""
    there = _by_name(arriving)
    names = [quote_name(dialect, column.name) for column in schema.columns]
    values = [_value(dialect, schema, column, there.get(column.name.casefold())) for column in schema.columns]
    if schema.key:
        return names, values
    names += [quote_name(dialect, column.name) for column in _LOG_COLUMNS.values()]
    sources = {name: f"s.{quote_name(dialect, name)}" for name in _LOG_COLUMNS}
    sources[TS_MS] = dialect.instant_of_ms.format(ms=sources[TS_MS])
    return names, [*values, *sources.values()]


def _value(dialect: Dialect, schema: TableSchema, column: Column, staged: Column | None) -> str:
    if staged is None:
        return _fill_value(dialect, schema, column)
    if not widens(staged.type, column.type):
        reason = f"a row with {_declared(staged)} came after it had become {_declared(column)}"
        raise _stopped(schema, column.name, reason, _COPY_AGAIN)
    name = f"s.{quote_name(dialect, staged.name)}"
    type_ = _type(dialect, schema, column)
    return name if type_ == _type(dialect, schema, staged) else f"CAST({name} AS {type_})"


def _fill_value(dialect: Dialect, schema: TableSchema, column: Column) -> str:
    try:
        return render_fill_value(dialect, column)
    except ValueError as error:
        reason = f"rows older than the column need its value, and {error}"
        raise _stopped(schema, column.name, reason, _COPY_AGAIN) from error


def _type(dialect: Dialect, schema: TableSchema, column: Column) -> str:
    try:
        return render_type(dialect, column.type)
    except ValueError as error:
        hint = "change the column's type in the source, or leave the table out of the link's `tables`"
        raise _stopped(schema, column.name, str(error), hint) from error


def _check_names(schema: TableSchema) -> None:
    seen = {column.name.casefold() for column in _log_columns(schema)}
    for column in schema.columns:
        if column.name.casefold() in seen:
            reason = "the target's table has a column of this name already, but for upper and lower case"
            raise _stopped(schema, column.name, reason, "rename the column, or give the table a primary key")
        seen.add(column.name.casefold())


def _check_key(schema: TableSchema, arriving: TableSchema) -> None:
    for name in arriving.key:
        if name.casefold() not in _by_name(schema):
            reason = "a row came that is known by a key column which the table has lost"
            raise _stopped(schema, name, reason, _COPY_AGAIN)


def _log_columns(schema: TableSchema) -> tuple[Column, ...]:
    return () if schema.key else tuple(_LOG_COLUMNS.values())


def _by_name(schema: TableSchema) -> dict[str, Column]:
    return {column.name.casefold(): column for column in schema.columns}


def _names(columns: list[Column]) -> str:
    return ", ".join(column.name for column in columns)


def _declared(column: Column) -> str:
    return column.declaration or repr(column.type)


def _stopped(schema: TableSchema, column: str, reason: str, hint: str) -> TableStoppedError:
    return TableStoppedError(str(schema.table), column, "the target's table", reason, hint)
