"""Transforms of a stream of changes: whoever applies what comes out has what the transforms make of the table."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from penstock.core.transforms.columns import RenameColumns
from penstock.core.transforms.computed import with_computed
from penstock.core.transforms.expressions import ExpressionColumn
from penstock.core.transforms.filtered import filter_changes
from penstock.core.transforms.filters import Filter
from penstock.core.transforms.lookups import Lookup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from penstock.core.tables import TableSchema
    from penstock.core.transforms.changed_rows import ChangedRows
    from penstock.core.transforms.transform import Transform

    Step: TypeAlias = Transform | ExpressionColumn
    Evaluate: TypeAlias = Callable[[ExpressionColumn, TableSchema, pa.Table], tuple[TableSchema, pa.Table]]


def transform_changes(steps: Sequence[Step], changes: ChangedRows, evaluate: Evaluate) -> ChangedRows:
    """Return `changes` after all `steps`, in their order; `evaluate` adds the columns that are expressions.

    What row images lack they lack behind the steps too, under its new name. Raises
    TableStoppedError where a step does not fit the table, or a value cannot be
    carried or is not known.
    """
    for step in steps:
        match step:
            case Filter():
                changes = filter_changes(step, changes)
            case ExpressionColumn():
                compute = partial(evaluate, step, changes.schema)
                changes = with_computed(changes, step.reads(changes.schema), compute)
            case Lookup():
                changes = with_computed(changes, step.reads(changes.schema), partial(step.apply, changes.schema))
            case _:
                changes = _with_columns(changes, step)
    return changes


def derive_schema(steps: Sequence[Step], schema: TableSchema) -> TableSchema:
    """Return the table that comes out of `steps`; TableStoppedError where one does not fit."""
    for step in steps:
        schema = step.derive(schema)
    return schema


def _with_columns(changes: ChangedRows, step: Transform) -> ChangedRows:
    """Take a step that makes each column of one, and drops, renames or keeps it."""
    schema, images = step.apply(changes.schema, changes.images)
    names = dict(step.names) if isinstance(step, RenameColumns) else {}
    left = {column.name for column in schema.columns}
    patterns = (frozenset(names.get(name, name) for name in pattern) & left for pattern in changes.patterns)
    return replace(changes, schema=schema, images=images, patterns=tuple(patterns))
