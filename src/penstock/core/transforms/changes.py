"""Transforms of a stream of changes: whoever applies what comes out has what the transforms make of the table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.changes import Op
from penstock.core.transforms.expressions import ExpressionColumn
from penstock.core.transforms.filters import Filter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.core.avro.envelope_decode import DecodedChanges
    from penstock.core.tables import TableSchema
    from penstock.core.transforms.transform import Transform

    Step: TypeAlias = Transform | ExpressionColumn
    Evaluate: TypeAlias = Callable[[ExpressionColumn, TableSchema, pa.Table], tuple[TableSchema, pa.Table]]

_NOWHERE = -1


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """n changes of one table, in order, and the m row images that they have.

    `images`                table of m rows, the columns of `schema`
    `ops`                   letters of `penstock.core.changes.Op` (str[n])
    `before_at`, `after_at` int64[n], which of the images the row before and after
                            the change is; -1 where there is none
    `origin`                int64[n], which change of what was read it comes from
    """

    schema: TableSchema
    images: pa.Table
    ops: npt.NDArray[np.str_]
    before_at: npt.NDArray[np.int64]
    after_at: npt.NDArray[np.int64]
    origin: npt.NDArray[np.int64]

    def __len__(self) -> int:
        """How many changes there are."""
        return len(self.ops)

    def before(self) -> pa.Table:
        """Return the rows before the changes (n), all null where there is none."""
        return _take(self.images, self.before_at)

    def after(self) -> pa.Table:
        """Return the rows after the changes (n), all null where there is none."""
        return _take(self.images, self.after_at)


def changed_rows(schema: TableSchema, changes: DecodedChanges) -> ChangedRows:
    """Return decoded changes of a table with `schema` as what can be transformed."""
    before, after = (
        pa.Table.from_batches([rows]).filter(pa.array(there))
        for rows, there in ((changes.before, changes.has_before), (changes.after, changes.has_after))
    )
    images = pa.concat_tables([before, after])
    before_at = np.where(changes.has_before, np.cumsum(changes.has_before) - 1, _NOWHERE)
    after_at = np.where(changes.has_after, np.cumsum(changes.has_after) - 1 + before.num_rows, _NOWHERE)
    ops = np.asarray(changes.op.to_pylist(), dtype="U1")
    return ChangedRows(schema, images, ops, before_at, after_at, np.arange(len(ops), dtype=np.int64))


def transform_changes(steps: Sequence[Step], changes: ChangedRows, evaluate: Evaluate) -> ChangedRows:
    """Return `changes` after all `steps`, in their order; `evaluate` adds the columns that are expressions.

    Raises TableStoppedError where a step does not fit the table, or a value
    cannot be carried.
    """
    for step in steps:
        match step:
            case Filter():
                changes = filter_changes(step, changes)
            case ExpressionColumn():
                changes = _with_images(changes, *evaluate(step, changes.schema, changes.images))
            case _:
                changes = _with_images(changes, *step.apply(changes.schema, changes.images))
    return changes


def derive_schema(steps: Sequence[Step], schema: TableSchema) -> TableSchema:
    """Return the table that comes out of `steps`; TableStoppedError where one does not fit."""
    for step in steps:
        schema = step.derive(schema)
    return schema


def filter_changes(wanted: Filter, changes: ChangedRows) -> ChangedRows:
    """Return the changes of the table's wanted rows.

    | row before | row after | an update becomes |
    |---|---|---|
    | wanted | wanted | itself |
    | wanted | not | a delete of the row before |
    | not | wanted | a create of the row after |
    | not | not | nothing |

    A create or a read goes on if its row is wanted, a delete if its row was.
    """
    schema = wanted.derive(changes.schema)
    # One more, which is never wanted, for the image that is not there.
    matches = np.append(wanted.matches(schema, changes.images), False)
    had, has = matches[changes.before_at], matches[changes.after_at]
    is_update = changes.ops == Op.UPDATE
    ops = np.where(is_update & ~has, str(Op.DELETE), np.where(is_update & ~had, str(Op.CREATE), changes.ops))
    kept = np.where(changes.ops == Op.DELETE, had, has | (is_update & had))
    return replace(
        changes,
        schema=schema,
        ops=ops[kept],
        before_at=np.where(had, changes.before_at, _NOWHERE)[kept],
        after_at=np.where(has, changes.after_at, _NOWHERE)[kept],
        origin=changes.origin[kept],
    )


def _with_images(changes: ChangedRows, schema: TableSchema, images: pa.Table) -> ChangedRows:
    if images.num_rows != changes.images.num_rows:
        message = f"a transform made {images.num_rows} rows of {changes.images.num_rows}"
        raise ValueError(message)
    return replace(changes, schema=schema, images=images)


def _take(images: pa.Table, at: npt.NDArray[np.int64]) -> pa.Table:
    return images.take(pa.array(np.maximum(at, 0), pa.int64(), mask=at == _NOWHERE))
