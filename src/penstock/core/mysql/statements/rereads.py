"""Which rows of a child a foreign key may have changed, by what the log has of its parent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.mysql.types.key_literals import literal_of
from penstock.core.snapshots import Reread
from penstock.core.tables import IntegerType, TextType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.changes import RowBatch
    from penstock.core.mysql.statements.foreign_keys import Cascade, Step
    from penstock.core.tables import Column, TableSchema

_VALUES_MAX: Final = 500


def reread_of(step: Step, child: TableSchema, batches: Sequence[RowBatch] | None) -> Reread:
    """Return what of `child` is to be read again because of `step`.

    `batches` have the updated rows of the parent, among others; None where nobody knows them.
    Rows that a key sets to NULL are among those where it is NULL, and rows that follow
    a new key among those that have it: whatever changed them since is in the log whole.
    """
    cascade = step.cascade
    if step.rule == "CASCADE" and (step.verb == "DELETE" or _is_in_key(cascade, child)):
        return Reread(gone=True)
    # Of rows that lack columns in the log a later change may have hidden them from any condition.
    if child.partial_rows:
        return Reread(all_rows=True)
    if step.rule == "SET NULL":
        return Reread((" AND ".join(f"{_quote(name)} IS NULL" for name in cascade.columns),))
    if step.rule == "CASCADE" and step.is_direct and batches is not None:
        wheres = _new_keys(cascade, child, batches)
        if wheres is not None:
            return Reread(wheres)
    return Reread(all_rows=True)


def _is_in_key(cascade: Cascade, child: TableSchema) -> bool:
    """Whether rows get another primary key, under which nobody finds the one that they had."""
    key = {name.casefold() for name in child.key}
    return any(name.casefold() in key for name in cascade.columns)


def _new_keys(cascade: Cascade, child: TableSchema, batches: Sequence[RowBatch]) -> tuple[str, ...] | None:
    """Return conditions that rows with the parent's new keys meet; None where they cannot be written, or are many."""
    by_name = {column.name: column for column in child.columns}
    columns = [by_name.get(name) for name in cascade.columns]
    known = [column for column in columns if column is not None and isinstance(column.type, IntegerType | TextType)]
    if len(known) < len(columns) or len(known) != len(cascade.parent_columns):
        return None
    keys: dict[tuple[object, ...], None] = {}
    for batch in batches:
        if not set(cascade.parent_columns).isdisjoint((*batch.after_lacks, *batch.before_lacks)):
            return None
        keys.update(dict.fromkeys(_changed(batch, cascade.parent_columns)))
    if len(keys) > _VALUES_MAX:
        return None
    return tuple(" AND ".join(map(_equals, known, key)) for key in keys)


def _changed(batch: RowBatch, names: Sequence[str]) -> Sequence[tuple[object, ...]]:
    """What rows have in columns of which one changed."""
    before, after = batch.before, batch.after
    if before is None or after is None:
        return []
    is_same = pa.array([True] * len(batch))
    for name in names:
        old, new = before.column(name), after.column(name)
        same = pc.fill_null(pc.equal(old, new), pc.and_(old.is_null(), new.is_null()))
        is_same = pc.and_(is_same, same)
    rows = after.filter(pc.invert(is_same))
    return list(zip(*(rows.column(name).to_pylist() for name in names), strict=True))


def _equals(column: Column, value: object) -> str:
    return f"{_quote(column.name)} IS NULL" if value is None else f"{_quote(column.name)} = {literal_of(column, value)}"


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
