"""What a statement made of one table, and whether that can be told without reading the table's rows again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from penstock.core.errors import READ_AGAIN
from penstock.core.mysql.statements.evolution import (
    find_column_renames,
    refusal,
    refusal_of_numbers,
    refusal_of_return,
)
from penstock.core.refusals import Refusal
from penstock.core.schema_changes import SchemaChangeKind
from penstock.core.tables import TableId

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.core.mysql.statements.ddl import TableDdl
    from penstock.core.mysql.statements.sql_tokens import TableName
    from penstock.core.tables import TableSchema

_ROWS_CAME_OR_WENT = "rows came or went without a row event, as with a partition that is dropped or exchanged"

Effect: TypeAlias = "SchemaChangeKind | Refusal | None"
"""What became of a table; None for nothing that anybody must be told."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """A table before and after a statement; None where there was none of that name.

    `named` says that the statement names it. `origin` is the table that got this
    name by it, None if none did; `moved` what that looked like, None if we do not
    carry its rows. `sql_mode` is that of the statement's session, 0 if we do not know it.
    """

    before: TableSchema | None
    after: TableSchema | None
    named: bool
    origin: TableId | None = None
    moved: TableSchema | None = None
    sql_mode: int = 0


def resolve_names(
    names: Sequence[TableName], default_schema: str, tables: Collection[TableId], *, folds: bool
) -> list[TableId]:
    """Return the tables that a statement names, called as they are among `tables`.

    A server with lower_case_table_names logs statements as they were typed, so where
    the source `folds` names one is looked for in any case. A name that is none of
    `tables` is returned as it stands.
    """
    written = [TableId(schema or default_schema, name) for schema, name in names]
    there = frozenset(tables)
    if not folds or there.issuperset(written):
        return written
    spelled = {(t.schema.casefold(), t.name.casefold()): t for t in tables}
    return [t if t in there else spelled.get((t.schema.casefold(), t.name.casefold()), t) for t in written]


def follow_renames(
    renames: Sequence[tuple[TableId, TableId]], tables: Collection[TableId]
) -> Mapping[TableId, TableId]:
    """Return for each name that a table got by `renames`, done one after the other, what it was called before.

    A table that ends with the name it had is left out, and so is what is none of `tables`, such as a view.
    """
    called = {table: table for table in tables}
    for old, new in renames:
        if old in called:
            called[new] = called.pop(old)
    return {new: old for new, old in called.items() if new != old}


def effect_of(ddl: TableDdl, change: TableChange) -> Effect:
    """Say what `ddl` made of a table; a Refusal where only a new copy could tell its rows."""
    if change.after is None:
        return SchemaChangeKind.DROP
    if change.origin is not None:
        return _effect_of_rename(ddl, change.origin, change, change.after)
    if change.named and ddl.action == "create" and (change.before is None or ddl.replaces):
        return (
            _unknown("it was created with rows that are not in the log, as from a query")
            if ddl.changes_rows
            else SchemaChangeKind.CREATE
        )
    if change.before is None:
        return _unknown("it took this name with rows in it that are not in the log")
    if change.named and (found := _effect_by_name(ddl, change.before, change.after)):
        return found
    return _evolution(ddl, change, change.before, change.after)


def column_renames_of(ddl: TableDdl, change: TableChange) -> tuple[tuple[str, str], ...]:
    """Return the columns that a statement gave another name in a table that keeps its own, as (old, new)."""
    if change.before is None or change.after is None or change.origin or ddl.action == "create":
        return ()
    found = find_column_renames(change.before, change.after, ddl.column_renames if change.named else ())
    return () if isinstance(found, Refusal) else found


def _effect_of_rename(ddl: TableDdl, origin: TableId, change: TableChange, after: TableSchema) -> Effect:
    if change.moved is None:
        reason = f"it now has the rows of {origin}, which was not carried"
        hint = f'{READ_AGAIN}, with {origin}, or a pattern such as "{after.table.schema}.*", under its `tables` too'
        return Refusal("", reason, f"{hint}: then what a tool like gh-ost copies is carried as well")
    if ddl.changes_rows:
        return _unknown(_ROWS_CAME_OR_WENT)
    if ddl.column_renames or find_column_renames(change.moved, after, ()):
        return _unknown("it and a column of it got other names at once, which this release does not carry")
    back = refusal_of_return(change.moved, after, ddl.column_drops, ())
    return back or _refusal(change, change.moved, after) or SchemaChangeKind.RENAME


def _effect_by_name(ddl: TableDdl, before: TableSchema, after: TableSchema) -> Effect:
    """Say what `ddl` made of a table that it names, as far as its schema does not show it."""
    if ddl.action == "truncate":
        return SchemaChangeKind.TRUNCATE
    if ddl.changes_rows:
        return _unknown(_ROWS_CAME_OR_WENT)
    return refusal_of_return(before, after, ddl.column_drops, ddl.column_renames)


def _evolution(ddl: TableDdl, change: TableChange, before: TableSchema, after: TableSchema) -> Effect:
    if before == after:
        return _refusal(change, before, after)
    found = find_column_renames(before, after, ddl.column_renames if change.named else ())
    if isinstance(found, Refusal):
        return found
    return _refusal(change, before.with_columns_renamed(found), after) or SchemaChangeKind.SCHEMA


def _refusal(change: TableChange, before: TableSchema, after: TableSchema) -> Refusal | None:
    found = refusal_of_numbers(before, after, change.sql_mode) if change.named else None
    return found or refusal(before, after, change.sql_mode)


def _unknown(reason: str) -> Refusal:
    return Refusal("", reason, READ_AGAIN)
